"""Moments as people write them. Pure: what time it is now is an argument."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from apogeemq.errors import ConfigError
from apogeemq.spark.options import MAX_TIME_MS, OptionReader

EXPECTED = (
    "expected a date and time such as 2026-01-31T12:00 or 2026-01-31T12:00:00Z, milliseconds since 1970, "
    "or how long ago: 30m, 2h, 1d"
)


def moment_ms(text: str, now_ms: int, zone: tzinfo | None = None) -> int:
    """Milliseconds since 1970. A time without a zone is in `zone`, or in this machine's. ConfigError."""
    word = text.strip()
    if word.isdecimal() and len(word) > 8:
        moment = int(word)
    elif word[:1].isdecimal() and word[-1:].isalpha() and not word.endswith("Z"):
        moment = now_ms - _duration_ms(word)
    else:
        moment = _date_ms(word, zone)
    if not 0 <= moment <= min(now_ms, MAX_TIME_MS):
        raise ConfigError(f"{text} is in the future, or before 1970")
    return moment


def _duration_ms(word: str) -> int:
    try:
        return OptionReader({"time": word.removesuffix("ago")}).duration_ms("time", 0)
    except ConfigError:
        raise ConfigError(f"{word}: {EXPECTED}") from None


def _date_ms(word: str, zone: tzinfo | None) -> int:
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise ConfigError(f"{word}: {EXPECTED}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone) if zone is not None else moment.astimezone()
    return int((moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
