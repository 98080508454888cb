"""What went in and out, counted per topic and per group. Rates come from looking at the counters twice."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

MAX_KEYS = 200_000
LATENCY_BOUNDS_SECONDS: tuple[float, ...] = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class Counts:
    """Messages and bytes of one key."""

    __slots__ = ("_sampled", "messages", "size", "times")

    def __init__(self) -> None:
        self.messages = 0
        self.size = 0
        self.times = 0  # requests; a batch is one
        self._sampled = (0, 0, 0)

    def add(self, other: Counts) -> None:
        self.messages += other.messages
        self.size += other.size
        self.times += other.times

    def take_sample(self) -> tuple[int, int, int] | None:
        """Messages, size and times as they were the last time; None when they are the same."""
        before = self._sampled
        if self.times == before[2]:
            return None
        self._sampled = (self.messages, self.size, self.times)
        return before


class Histogram:
    """Seconds by bounds, as Prometheus counts them."""

    __slots__ = ("bounds", "counts", "max_seconds", "total_seconds")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total_seconds = 0.0
        self.max_seconds = 0.0

    def observe(self, seconds: float, weight: int = 1) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += weight
        self.total_seconds += seconds * weight
        if seconds > self.max_seconds:
            self.max_seconds = seconds

    def percentile(self, share: float) -> float:
        """The upper bound of the class the share of all observations reaches to; in the last class, the longest."""
        remaining = sum(self.counts) * share
        for bound, count in zip(self.bounds, self.counts, strict=False):
            remaining -= count
            if remaining <= 0:
                return min(bound, self.max_seconds)
        return self.max_seconds


class CountTable:
    """Counts by key, up to a limit; beyond it new keys share one row, so that nobody's counting costs all memory."""

    def __init__(self) -> None:
        self.rows: dict[str, Counts] = {}
        self._others = Counts()

    def add(self, key: str, messages: int, size: int) -> None:
        row = self.rows.get(key)
        if row is None:
            row = self._new(key)
        row.messages += messages
        row.size += size
        row.times += 1

    def _new(self, key: str) -> Counts:
        if len(self.rows) >= MAX_KEYS:
            return self._others
        row = self.rows[key] = Counts()
        return row

    def remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            row = self.rows.pop(key, None)
            if row is not None:
                self._others.add(row)

    @property
    def total(self) -> Counts:
        """Of all keys, those that were removed included: it never goes back."""
        total = Counts()
        for row in (self._others, *self.rows.values()):
            total.add(row)
        return total


class BrokerStats:
    """Keys: a topic for puts, `topic@group` for gets and send-backs."""

    def __init__(self) -> None:
        self.puts = CountTable()
        self.gets = CountTable()
        self.send_backs = CountTable()
        self.get_miss_count = 0
        self.put_seconds = Histogram()
        self.get_seconds = Histogram()
        # (key, messages, bytes): called for every request, so without a detour.
        self.put = self.puts.add
        self.got = self.gets.add

    @property
    def put_total(self) -> Counts:
        return self.puts.total

    @property
    def get_total(self) -> Counts:
        return self.gets.total

    # -- forgetting ------------------------------------------------------------------------------------------

    def remove_topic(self, topic: str) -> None:
        self.puts.remove([topic])
        for table in (self.gets, self.send_backs):
            table.remove([key for key in table.rows if key.startswith(f"{topic}@")])

    def remove_group(self, group: str) -> None:
        for table in (self.gets, self.send_backs):
            table.remove([key for key in table.rows if key.endswith(f"@{group}")])
