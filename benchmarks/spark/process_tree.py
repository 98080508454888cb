"""CPU time of a process and all that it started, also of what has ended meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

_INTERVAL_S = 0.05  # what a process uses between the last look and its end is missed
_TICK = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """One process as /proc/PID/stat has it; a number may be given anew to another, a number and a start may not."""

    pid: int
    started: int
    name: str
    seconds: float


class Cpu(NamedTuple):
    """CPU seconds of the JVM, and of the Python processes it runs."""

    java: float
    python: float

    @property
    def all(self) -> float:
        return self.java + self.python


def parse_stat(text: str) -> Usage:
    """The name stands in brackets and may contain anything, brackets too."""
    pid, _, rest = text.partition(" (")
    name, _, fields = rest.rpartition(") ")
    numbers = fields.split()
    return Usage(int(pid), int(numbers[19]), name, (int(numbers[11]) + int(numbers[12])) / _TICK)


def descendants(pid: int) -> Iterator[int]:
    """All processes that this one started, and those started, as of now."""
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            yield child
            waiting.append(child)


def _children(pid: int) -> list[int]:
    """Every thread has its own. Processes and threads may end while we look."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


class Watch:
    """Looks at the tree below a process at short intervals: Spark lets the kernel reap its Python workers, and what
    those have used is then nowhere to be read any more."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._last: dict[tuple[int, int], Usage] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def cpu(self) -> Cpu:
        """Used since the beginning."""
        with self._lock:
            self._look()
            java = sum(usage.seconds for usage in self._last.values() if usage.name == "java")
            return Cpu(java, sum(usage.seconds for usage in self._last.values()) - java)

    def living(self) -> list[Usage]:
        return list(_usages(self._pid))

    def _watch(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        for usage in _usages(self._pid):
            self._last[usage.pid, usage.started] = usage


def kill(process: Usage) -> None:
    """If it is still there, and not another of the same number."""
    with contextlib.suppress(OSError):
        if parse_stat(_stat(process.pid)).started == process.started:
            os.kill(process.pid, signal.SIGKILL)


def _usages(root: int) -> Iterator[Usage]:
    for pid in descendants(root):
        with contextlib.suppress(OSError):
            yield parse_stat(_stat(pid))


def _stat(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text()
