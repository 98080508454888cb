"""The wall clock, in the unit of the wire and the disk."""

from __future__ import annotations

import time


def now_ms() -> int:
    return time.time_ns() // 1_000_000
