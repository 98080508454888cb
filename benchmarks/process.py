"""What a process has used: CPU time to the nanosecond, memory by kind."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

_SCHEDULER_CLOCK = 2


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of the process, those that have ended included.

    This is the clock that ``clock_getcpuclockid(3)`` names; unlike ``/proc/PID/stat`` it is not
    rounded to ticks, and unlike ``/proc/PID/task`` it keeps the time of threads that are gone
    (a JIT compiler's come and go).
    """
    return time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)


class Memory(NamedTuple):
    """Resident memory in MB: all of it, the private anonymous part, and the proportional share."""

    rss: float
    anonymous: float
    proportional: float


def memory(pid: int) -> Memory:
    status = _kilobytes(Path(f"/proc/{pid}/status"))
    rollup = _kilobytes(Path(f"/proc/{pid}/smaps_rollup"))
    return Memory(status["VmRSS"] / 1024, status["RssAnon"] / 1024, rollup["Pss"] / 1024)


def _kilobytes(path: Path) -> dict[str, int]:
    found = {}
    for line in path.read_text().splitlines():
        key, _, value = line.partition(":")
        if value.endswith(" kB"):
            found[key] = int(value.split()[0])
    return found
