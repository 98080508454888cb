"""When is each broker given up? An index of deadlines, so that nobody scans all brokers.

Pure: time is an argument. A refreshed broker is not moved in the heap; its entry is found stale when it comes up
and pushed again with the deadline that holds by then.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

BrokerKey = tuple[str, str]  # cluster, address

_STALE_ENTRIES = 500  # kept in the heap beyond one per broker, before it is made anew


class DeadlineIndex:
    """`deadline_of(key)` gives a broker's present deadline, or None when it is gone."""

    def __init__(self, deadline_of: Callable[[BrokerKey], int | None]) -> None:
        self._deadline_of = deadline_of
        self._heap: list[tuple[int, BrokerKey]] = []
        self._tracked: dict[BrokerKey, int] = {}  # the earliest heap entry of each key

    def track(self, key: BrokerKey, deadline_ms: int) -> None:
        """Call when a broker appears or its time-out changes; a mere refresh needs no call."""
        tracked = self._tracked.get(key)
        if tracked is None or deadline_ms < tracked:
            self._tracked[key] = deadline_ms
            heappush(self._heap, (deadline_ms, key))
            self._drop_stale()

    def forget(self, key: BrokerKey) -> None:
        """Call when a broker leaves."""
        self._tracked.pop(key, None)
        self._drop_stale()

    def expired(self, now_ms: int) -> list[BrokerKey]:
        """Brokers whose deadline is past."""
        keys: list[BrokerKey] = []
        while self._heap and self._heap[0][0] < now_ms:
            entry, key = heappop(self._heap)
            if self._tracked.get(key) != entry:
                continue  # an earlier entry spoke for this broker
            del self._tracked[key]
            deadline_ms = self._deadline_of(key)
            if deadline_ms is None:
                continue
            if deadline_ms < now_ms:
                keys.append(key)
            else:
                self.track(key, deadline_ms)
        return keys

    def next_deadline_ms(self) -> int | None:
        """No broker expires before this."""
        return self._heap[0][0] if self._heap else None

    @property
    def size(self) -> int:
        return len(self._heap)

    def _drop_stale(self) -> None:
        """Entries nobody waits for go when they come up, but that may be ages away."""
        if len(self._heap) > 2 * len(self._tracked) + _STALE_ENTRIES:
            self._heap = [(deadline_ms, key) for key, deadline_ms in self._tracked.items()]
            heapify(self._heap)
