"""The commands all programs understand: one JSON object a line, one line of answer. Standard library alone.

A program is told what to do for how long, and answers how many messages that were, in what time, at what cost.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

READY = "@@ready"
ANSWER = "@@"
TAGS = "bench"
LINGER_SECONDS = 0.01
BATCH_BYTES = 32 * 1024


class Job(NamedTuple):
    """`do` is send, batch or consume. The first `skip` messages of a consumer do not count: they come while it still
    joins its group. The time begins after them."""

    do: str
    topic: str
    group: str = ""
    size: int = 128
    in_flight: int = 1
    seconds: float = 2.0
    skip: int = 0
    max_count: int = 0


class Measured:
    """Time and CPU time (of all threads of the process) from `start` to `stop`."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._cpu, self._clock = time.process_time(), time.perf_counter()

    def stop(self, count: int) -> dict[str, Any]:
        return {
            "count": count,
            "seconds": time.perf_counter() - self._clock,
            "cpu_seconds": time.process_time() - self._cpu,
            "memory_mb": memory_mb(),
        }


class Counted:
    """Counts what a consumer gets; `is_done` when the time is over or all there is has come."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._measured = Measured()
        self._until = float("inf")
        self.seen = 0
        self.is_done = False

    def add(self) -> bool:
        """Says whether this one was the last."""
        self.seen += 1
        if self.seen == self._job.skip:
            self._measured.start()
            self._until = time.perf_counter() + self._job.seconds
        elif self.seen >= self._job.max_count or (self.seen % 16 == 0 and time.perf_counter() >= self._until):
            self.is_done = True
        return self.is_done

    def result(self) -> dict[str, Any]:
        return self._measured.stop(self.seen - self._job.skip)


async def sends(job: Job, send: Callable[[], Awaitable[object]]) -> dict[str, Any]:
    """`in_flight` loops, each of which sends one message after the other."""
    count = 0

    async def one_after_the_other(until: float) -> None:
        nonlocal count
        while time.perf_counter() < until:
            await send()
            count += 1

    measured = Measured()
    until = time.perf_counter() + job.seconds
    await asyncio.gather(*(one_after_the_other(until) for _ in range(job.in_flight)))
    return measured.stop(count)


async def futures(job: Job, send: Callable[[], Awaitable[Awaitable[object]]]) -> dict[str, Any]:
    """Sends without waiting for the answers, of which at most `in_flight` are missing; every one is looked at."""
    waiting: deque[Awaitable[object]] = deque()
    measured, count = Measured(), 0
    until = time.perf_counter() + job.seconds
    while time.perf_counter() < until:
        waiting.append(await send())
        count += 1
        if len(waiting) >= job.in_flight:
            await waiting.popleft()
    for answer in waiting:
        await answer
    return measured.stop(count)


def in_threads(job: Job, send: Callable[[], object]) -> dict[str, Any]:
    """As `sends`, for clients that block: each message in flight has a thread."""
    counts = [0] * job.in_flight

    def one_after_the_other(index: int, until: float) -> None:
        while time.perf_counter() < until:
            send()
            counts[index] += 1

    one_after_the_other(0, time.perf_counter() + 0.2)
    counts[0] = 0
    measured = Measured()
    until = time.perf_counter() + job.seconds
    threads = [threading.Thread(target=one_after_the_other, args=(index, until)) for index in range(job.in_flight)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return measured.stop(sum(counts))


def jobs() -> Iterator[Job]:
    """What is asked for, one after the other."""
    print(READY, flush=True)
    for line in sys.stdin:
        yield Job(**json.loads(line))


def answer(result: dict[str, Any]) -> None:
    print(f"{ANSWER}{json.dumps(result)}", flush=True)


def memory_mb() -> float:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0
