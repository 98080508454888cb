"""The wall clock, in the unit of the wire and the disk; and the one that nobody sets, for how long things take."""

from __future__ import annotations

import time


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
