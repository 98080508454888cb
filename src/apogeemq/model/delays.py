"""Delay levels: `1s 5s 10s … 2h`, numbered from 1."""

from __future__ import annotations

import re
from typing import Final

DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL: Final = re.compile(r"([0-9]{1,9})([smhd])")


class DelayLevels:
    """`delays_ms[n - 1]` is the delay of level n."""

    def __init__(self, text: str = DEFAULT_LEVELS) -> None:
        """ValueError when the text is not a list of delays."""
        matches = [(word, _LEVEL.fullmatch(word)) for word in text.split()]
        wrong = [word for word, match in matches if match is None]
        if wrong or not matches:
            raise ValueError(f"expected delays like {DEFAULT_LEVELS!r}, not {text!r}")
        self.delays_ms = [int(match[1]) * _UNITS_MS[match[2]] for _, match in matches if match is not None]

    @property
    def max_level(self) -> int:
        return len(self.delays_ms)

    def delay_ms(self, level: int) -> int:
        """Of a level, the highest for levels there are not."""
        return self.delays_ms[min(level, self.max_level) - 1]


def level_of(text: str | None) -> int:
    """What the property says; 0 when it says nothing or no number."""
    try:
        return int(text) if text else 0
    except ValueError:
        return 0
