"""Options as Spark hands them over: texts under names whose case does not count.

Whoever reads options asks for each by its name and calls `finish` at the end: what nobody asked for is an error. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from apogeemq.errors import ConfigError

D = TypeVar("D")

INT64_MAX: Final = 2**63 - 1
MAX_TIME_MS: Final = 253_402_300_799_999  # the last millisecond of the year 9999
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Spark puts these among the options of a source or sink, for itself.
_OF_SPARK: Final = frozenset(("checkpointlocation", "queryname", "__metrics_tags__"))

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DURATION: Final = re.compile(r"([0-9]{1,12})\s*([a-z]*)")
_UNITS_MS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_TRUTH: Final = {"true": True, "false": False}


class OptionReader:
    """Every method gives its `default` for an option that is absent and raises ConfigError, naming option, value and
    what was expected, for one that cannot be read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in options.items()}
        self._spelling = {name.lower(): name for name in options}
        self._known: dict[str, str] = {}

    def has(self, name: str) -> bool:
        return self._text(name) is not None

    def text(self, name: str, default: D) -> str | D:
        """Without the spaces around it; an empty one counts as absent."""
        text = self._text(name)
        return default if text is None else text

    def required(self, name: str, what_for: str) -> str:
        text = self._text(name)
        if text is None:
            raise ConfigError(f"option {name} is missing: {what_for}")
        return text

    def whole(self, name: str, default: D, *, least: int = 0, most: int = INT64_MAX) -> int | D:
        text = self._text(name)
        if text is None:
            return default
        if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
            raise wrong(name, text, f"a whole number from {least} to {most}")
        return int(text)

    def flag(self, name: str, default: D) -> bool | D:
        text = self._text(name)
        if text is None:
            return default
        if text.lower() not in _TRUTH:
            raise wrong(name, text, "true or false")
        return _TRUTH[text.lower()]

    def choice(self, name: str, choices: Iterable[str], default: D) -> str | D:
        """One of the choices, as it is spelt there."""
        text = self._text(name)
        if text is None:
            return default
        by_lower_case = {choice.lower(): choice for choice in choices}
        if text.lower() not in by_lower_case:
            raise wrong(name, text, f"one of {', '.join(by_lower_case.values())}")
        return by_lower_case[text.lower()]

    def duration_ms(self, name: str, default: D) -> int | D:
        """`15m`, `500ms`, `2 hours`; a number alone is of milliseconds."""
        text = self._text(name)
        if text is None:
            return default
        match = _DURATION.fullmatch(text.lower())
        unit = _UNITS_MS.get(match[2] or "ms") if match is not None else None
        if match is None or unit is None:
            raise wrong(name, text, "a duration such as 500ms, 30s, 15m, 2h or 1d")
        return int(match[1]) * unit

    def time_ms(self, name: str, default: D) -> int | D:
        """Milliseconds since 1970, or a date and time with its zone."""
        text = self._text(name)
        if text is None:
            return default
        if _WHOLE.fullmatch(text) and 0 <= int(text) <= MAX_TIME_MS:
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = datetime.min
        if moment.tzinfo is None or moment < _EPOCH:
            raise wrong(name, text, "milliseconds since 1970, or a time with its zone such as 2026-01-31T12:00:00Z")
        return (moment - _EPOCH) // timedelta(milliseconds=1)

    def names(self, name: str, default: D) -> tuple[str, ...] | D:
        """A comma list, each name once."""
        text = self._text(name)
        if text is None:
            return default
        words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
        if not words:
            raise wrong(name, text, "names with commas between them")
        return words

    def json(self, name: str, expected: str) -> dict[str, object] | None:
        """The members of a JSON object; None for an option that is absent."""
        text = self._text(name)
        return None if text is None else json_object(name, text, expected)

    @property
    def known_names(self) -> frozenset[str]:
        """All that were asked for, given or not."""
        return frozenset(self._known.values())

    def finish(self) -> None:
        """ConfigError naming every option that nobody asked for, with the nearest name that there is."""
        unknown = [name for name in self._given if name not in self._known and name not in _OF_SPARK]
        if unknown:
            raise ConfigError("; ".join(self._unknown(name) for name in sorted(unknown)))

    def _unknown(self, name: str) -> str:
        from difflib import get_close_matches

        nearest = get_close_matches(name, self._known, n=1, cutoff=0.6)
        hint = f"; did you mean {self._known[nearest[0]]}?" if nearest else ""
        return f"unknown option {self._spelling[name]}{hint}"

    def _text(self, name: str) -> str | None:
        self._known[name.lower()] = name
        return (self._given.get(name.lower()) or "").strip() or None


def wrong(name: str, value: str, expected: str) -> ConfigError:
    """The error for an option that cannot be read."""
    shown = value if len(value) <= 200 else f"{value[:200]}…"
    return ConfigError(f"option {name} is {shown!r}: expected {expected}")


def json_object(name: str, text: str, expected: str) -> dict[str, object]:
    """The members of a JSON object, each of them once."""
    try:
        found = json.loads(text, object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        raise wrong(name, text, f"{expected} ({error})") from None
    if not isinstance(found, dict):
        raise wrong(name, text, expected)
    return found


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return members
