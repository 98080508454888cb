"""The wall clock, in the unit of the wire and the disk; and the one that nobody sets, for how long things take."""

from __future__ import annotations

from time import monotonic_ns, time_ns
from typing import Final

_time_ns: Final = time_ns  # a name of this module is found at once where it is compiled, an imported one looked up
_monotonic_ns: Final = monotonic_ns


def now_ms() -> int:
    return _time_ns() // 1_000_000


def monotonic_ms() -> int:
    return _monotonic_ns() // 1_000_000
