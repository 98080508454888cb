"""Rates over a minute, an hour and a day, without waiting for any of them."""

from __future__ import annotations

from datetime import date

from apogeemq.broker.services.stat_windows import Gain, StatWindows
from apogeemq.broker.stats import BrokerStats

DAY = date(2024, 5, 1)


class Clock:
    """Ten seconds a step."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.stats = BrokerStats()
        self.windows = StatWindows(self.stats, self.now_ms, DAY)

    def step(self, puts: int = 0, day: date = DAY) -> None:
        self.now_ms += 10_000
        for _ in range(puts):
            self.stats.put("T", 2, 100)
        self.windows.sample(self.now_ms, day)


def test_nothing_is_known_before_the_first_sample() -> None:
    clock = Clock()
    clock.stats.put("T", 1, 1)
    assert clock.windows.puts.messages_per_second("T") == 0.0
    assert clock.windows.rates(60) == (0.0, 0.0, 0.0, 0.0)


def test_minute_holds_the_last_six_steps() -> None:
    clock = Clock()
    clock.step(puts=3)
    assert clock.windows.puts.minute.sum("T") == Gain(6, 300, 3)
    assert clock.windows.puts.messages_per_second("T") == 0.6
    for _ in range(5):
        clock.step()
    assert clock.windows.puts.messages_per_second("T") == 0.1
    clock.step()
    assert clock.windows.puts.minute.sum("T") == Gain()


def test_hour_and_day_are_made_of_longer_steps() -> None:
    clock = Clock()
    for _ in range(360):
        clock.step(puts=1)
    puts = clock.windows.puts
    assert (puts.hour.sum("T"), puts.hour.length_seconds) == (Gain(720, 36_000, 360), 3600.0)
    assert (puts.day.sum("T"), puts.day.length_seconds) == (Gain(720, 36_000, 360), 3600.0)
    for _ in range(360):
        clock.step()
    assert puts.hour.sum("T") == Gain()
    assert puts.day.sum("T") == Gain(720, 36_000, 360)


def test_keys_that_gain_nothing_take_no_room() -> None:
    clock = Clock()
    clock.step(puts=1)
    clock.step()
    assert list(clock.windows.puts.minute._steps[-1]) == []


def test_rates_of_all_topics_over_what_time_there_was() -> None:
    clock = Clock()
    clock.stats.got("T@G", 30, 1)
    clock.stats.get_miss_count += 20
    clock.step(puts=5)
    assert clock.windows.rates(10) == (1.0, 3.0, 0.1, 2.0)
    assert clock.windows.rates(600) == (1.0, 3.0, 0.1, 2.0)
    clock.step()
    assert clock.windows.rates(10) == (0.0, 0.0, 0.0, 0.0)
    assert clock.windows.rates(60) == (0.5, 1.5, 0.05, 1.0)


def test_mornings() -> None:
    clock = Clock()
    clock.step(puts=1)
    clock.step(day=date(2024, 5, 2))
    clock.step(puts=2, day=date(2024, 5, 2))
    windows = clock.windows
    assert (windows.yesterday_morning.put_messages, windows.this_morning.put_messages) == (0, 2)
    clock.step(day=date(2024, 5, 3))
    assert (windows.yesterday_morning.put_messages, windows.this_morning.put_messages) == (2, 6)
    assert windows.totals().put_messages == 6


def test_topic_made_again_is_counted_from_nothing() -> None:
    clock = Clock()
    clock.step(puts=1)
    clock.stats.remove_topic("T")
    clock.step(puts=1)
    assert clock.windows.puts.minute.sum("T") == Gain(4, 200, 2)
