"""Rates from counters: what was added to each in the last minute, hour and day.

Every ten seconds the counters are looked at, and what each has gained since is noted; keys that gained nothing take no
room. Time is an argument.
"""

from __future__ import annotations

from collections import deque
from datetime import date
from typing import Final, NamedTuple

from apogeemq.broker.stats import BrokerStats, CountTable

SAMPLE_SECONDS: Final = 10
_SAMPLE_MS: Final = SAMPLE_SECONDS * 1000
_HOUR_STEP_MS: Final = 600_000
_DAY_STEP_MS: Final = 3_600_000


class Gain(NamedTuple):
    messages: int = 0
    size: int = 0
    times: int = 0

    def plus(self, other: Gain) -> Gain:
        return Gain(self.messages + other.messages, self.size + other.size, self.times + other.times)


class Window:
    """The newest steps of equal length; each holds what keys gained in it."""

    def __init__(self, step_ms: int, step_count: int) -> None:
        self.step_ms = step_ms
        self._steps: deque[dict[str, Gain]] = deque(maxlen=step_count)

    def push(self, gains: dict[str, Gain]) -> None:
        self._steps.append(gains)

    @property
    def length_seconds(self) -> float:
        """That the steps together last; 0 before the first."""
        return len(self._steps) * self.step_ms / 1000

    def sum(self, key: str) -> Gain:
        total = Gain()
        for step in self._steps:
            gain = step.get(key)
            if gain is not None:
                total = total.plus(gain)
        return total


class TableWindows:
    """The windows of one table of counters."""

    def __init__(self, table: CountTable, now_ms: int) -> None:
        self.table = table
        self.minute = Window(_SAMPLE_MS, 6)
        self.hour = Window(_HOUR_STEP_MS, 6)
        self.day = Window(_DAY_STEP_MS, 24)
        self._hour_step: dict[str, Gain] = {}
        self._day_step: dict[str, Gain] = {}
        self._hour_step_since = self._day_step_since = now_ms

    def sample(self, now_ms: int) -> None:
        gains = {
            key: Gain(row.messages - before[0], row.size - before[1], row.times - before[2])
            for key, row in self.table.rows.items()
            if (before := row.take_sample()) is not None
        }
        self.minute.push(gains)
        _add(self._hour_step, gains)
        _add(self._day_step, gains)
        if now_ms - self._hour_step_since >= _HOUR_STEP_MS:
            self.hour.push(self._hour_step)
            self._hour_step, self._hour_step_since = {}, now_ms
        if now_ms - self._day_step_since >= _DAY_STEP_MS:
            self.day.push(self._day_step)
            self._day_step, self._day_step_since = {}, now_ms

    def messages_per_second(self, key: str) -> float:
        """Of the last minute."""
        seconds = self.minute.length_seconds
        return self.minute.sum(key).messages / seconds if seconds else 0.0


class Totals(NamedTuple):
    """All counters of the broker together, at a moment."""

    put_messages: int = 0
    got_messages: int = 0
    found_pulls: int = 0
    missed_pulls: int = 0


class StatWindows:
    """`sample` is called every SAMPLE_SECONDS, with the local day."""

    def __init__(self, stats: BrokerStats, now_ms: int, day: date) -> None:
        self._stats = stats
        self.puts = TableWindows(stats.puts, now_ms)
        self.gets = TableWindows(stats.gets, now_ms)
        self.send_backs = TableWindows(stats.send_backs, now_ms)
        self._totals: deque[Totals] = deque([self.totals()], maxlen=600 // SAMPLE_SECONDS + 1)
        self._day = day
        # What the totals were when the day, and the one before it, began.
        self.this_morning = self.yesterday_morning = Totals()

    def totals(self) -> Totals:
        stats = self._stats
        return Totals(stats.put_total.messages, stats.get_total.messages, stats.get_total.times, stats.get_miss_count)

    def sample(self, now_ms: int, day: date) -> None:
        for windows in (self.puts, self.gets, self.send_backs):
            windows.sample(now_ms)
        self._totals.append(self.totals())
        if day != self._day:
            self._day = day
            self.yesterday_morning, self.this_morning = self.this_morning, self._totals[-1]

    def rates(self, seconds: int) -> tuple[float, float, float, float]:
        """The totals' growth a second, over that time or as much of it as there was."""
        steps = min(seconds // SAMPLE_SECONDS, len(self._totals) - 1)
        if steps == 0:
            return 0.0, 0.0, 0.0, 0.0
        before, after = self._totals[-1 - steps], self._totals[-1]
        put, got, found, missed = (
            (now - then) / (steps * SAMPLE_SECONDS) for now, then in zip(after, before, strict=True)
        )
        return put, got, found, missed


def _add(step: dict[str, Gain], gains: dict[str, Gain]) -> None:
    for key, gain in gains.items():
        known = step.get(key)
        step[key] = gain if known is None else known.plus(gain)
