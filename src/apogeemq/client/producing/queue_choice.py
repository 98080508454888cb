"""Which queue the next message goes to: in turn, away from a broker that just failed, away from slow ones. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

from apogeemq.model.queues import MessageQueue

# A broker that took so long is left alone for so long, as Apache's 5.x clients do it.
LATENCIES_MS: Final = (50, 100, 550, 1800, 3000, 5000, 15_000)
PAUSES_MS: Final = (0, 0, 2000, 5000, 6000, 10_000, 30_000)
ISOLATION_MS: Final = 10_000  # what a failure counts as


class Turn:
    """Goes round the queues of one topic."""

    __slots__ = ("_next",)

    def __init__(self, start: int) -> None:
        self._next = start

    def pick(self, queues: Sequence[MessageQueue], *avoided: frozenset[str]) -> MessageQueue:
        """The next queue of no broker in the first set, if there is one; else of none in the next set; else the next.
        `queues` is not empty."""
        for avoid_brokers in avoided:
            for _ in range(len(queues)):
                queue = queues[self._next % len(queues)]
                self._next += 1
                if queue.broker_name not in avoid_brokers:
                    return queue
        queue = queues[self._next % len(queues)]
        self._next += 1
        return queue


class _Fault(NamedTuple):
    until_ms: float
    is_reachable: bool


class LatencyFaults:
    """Until when each broker is left alone for having been slow or having failed."""

    def __init__(self) -> None:
        self._faults: dict[str, _Fault] = {}

    def report(
        self,
        broker_name: str,
        latency_ms: float,
        now_ms: float,
        *,
        has_failed: bool = False,
        is_reachable: bool = True,
    ) -> None:
        """A pause is never made shorter: one quick answer in between does not heal a broker."""
        pause = pause_ms(ISOLATION_MS if has_failed else latency_ms)
        before = self._faults.get(broker_name)
        until_ms = now_ms + pause if pause else 0.0
        self._faults[broker_name] = _Fault(max(until_ms, before.until_ms if before else 0.0), is_reachable)

    def unavailable(self, now_ms: float) -> frozenset[str]:
        return frozenset(name for name, fault in self._faults.items() if now_ms < fault.until_ms)

    def unreachable(self) -> frozenset[str]:
        """Those that failed, and have not been heard of since."""
        return frozenset(name for name, fault in self._faults.items() if not fault.is_reachable)

    def came_back(self, broker_name: str) -> None:
        fault = self._faults.get(broker_name)
        if fault is not None:
            self._faults[broker_name] = _Fault(fault.until_ms, is_reachable=True)

    def forget(self, broker_name: str) -> None:
        self._faults.pop(broker_name, None)


def pause_ms(latency_ms: float) -> int:
    """The pause of the highest mark the latency reaches."""
    index = bisect_left(LATENCIES_MS, latency_ms)
    if index < len(LATENCIES_MS) and LATENCIES_MS[index] == latency_ms:
        return PAUSES_MS[index]
    return PAUSES_MS[index - 1] if index else 0
