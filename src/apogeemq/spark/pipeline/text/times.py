"""Moments as people write them. Pure: what time it is now is an argument."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final

from apogeemq.errors import ConfigError
from apogeemq.spark.options import MAX_TIME_MS, OptionReader

EXPECTED = (
    "expected a date and time such as 2026-01-31T12:00 or 2026-01-31T12:00:00Z, milliseconds since 1970, "
    "or how long ago: 30m, 2h, 1d"
)

_OUT_OF_BOUNDS: Final = "is in the future, or before 1970"
_MAX_SECONDS_DIGITS: Final = 11
_MAX_DIGITS: Final = 20


def moment_ms(text: str, now_ms: int, zone: tzinfo | None = None) -> int:
    """Milliseconds since 1970. A time without a zone is in `zone`, or in this machine's. ConfigError."""
    word = text.strip()
    if word.isdecimal() and len(word) > 8:
        moment = _number_ms(word)
    elif word[:1].isdecimal() and word[-1:].isalpha() and not word.endswith("Z"):
        moment = now_ms - _duration_ms(word)
    else:
        moment = _date_ms(word, zone)
    if not 0 <= moment <= min(now_ms, MAX_TIME_MS):
        raise ConfigError(f"{text} {_OUT_OF_BOUNDS}")
    return moment


def _number_ms(word: str) -> int:
    """Few digits are seconds, which other programs use; read as milliseconds they would be weeks after 1970."""
    if len(word) <= _MAX_SECONDS_DIGITS:
        raise ConfigError(f"{word} looks like seconds; expected milliseconds since 1970, such as {word}000")
    return int(word) if len(word) <= _MAX_DIGITS else MAX_TIME_MS + 1


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
    try:
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone) if zone is not None else moment.astimezone()
        return int((moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    except (ValueError, OverflowError):  # at the ends of the calendar, a time of another zone is none
        raise ConfigError(f"{word} {_OUT_OF_BOUNDS}") from None
