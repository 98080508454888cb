"""What a process has used: CPU time to the nanosecond, memory by kind."""

from __future__ import annotations

import os
import resource
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


class OtherWork:
    """How much of the machine was used, since this object was made, by processes that are none of ours."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._others = _busy_seconds() - _own_seconds()

    def cores(self, unwaited_s: float = 0.0) -> float:
        """On average; to be asked once all children have been waited for. `unwaited_s` is the CPU time of processes
        that are ours and that nobody has waited for."""
        others = _busy_seconds() - _own_seconds() - unwaited_s - self._others
        return max(0.0, others) / (time.monotonic() - self._began)


def _own_seconds() -> float:
    """Of this process and of the children it has waited for."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, kinds))


def _busy_seconds() -> float:
    """CPU time of the whole machine: user, nice, system, interrupts and what the hypervisor took."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


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
