from __future__ import annotations

from datetime import date, timedelta

from apogeemq.broker.services.stat_windows import SAMPLE_SECONDS, StatWindows
from apogeemq.broker.stats import BrokerStats

START_MS = 1_700_000_000_000
STEP_MS = SAMPLE_SECONDS * 1000
TODAY = date(2026, 11, 16)


def test_rates_are_what_was_added_in_the_last_minute() -> None:
    stats = BrokerStats()
    windows = StatWindows(stats, START_MS, TODAY)
    for step in range(1, 13):
        if step <= 6:
            stats.put("T", 30, 3000)
        windows.sample(START_MS + step * STEP_MS, TODAY)
        if step == 6:
            assert windows.puts.messages_per_second("T") == 3.0
    assert windows.puts.messages_per_second("T") == 0.0
    assert windows.puts.messages_per_second("never seen") == 0.0
    assert windows.rates(600)[0] == 180 / 120


def test_hours_and_days_are_made_of_the_same_samples() -> None:
    stats = BrokerStats()
    windows = StatWindows(stats, START_MS, TODAY)
    for step in range(1, 361):
        stats.got("T@G", 1, 100)
        windows.sample(START_MS + step * STEP_MS, TODAY)
    assert windows.gets.hour.sum("T@G").messages == 360
    assert windows.gets.day.sum("T@G").size == 36_000


def test_the_totals_of_the_morning_are_those_at_the_first_sample_of_the_day() -> None:
    stats = BrokerStats()
    windows = StatWindows(stats, START_MS, TODAY)
    stats.put("T", 5, 500)
    windows.sample(START_MS + STEP_MS, TODAY + timedelta(days=1))
    stats.put("T", 2, 200)
    windows.sample(START_MS + 2 * STEP_MS, TODAY + timedelta(days=2))
    assert (windows.yesterday_morning.put_messages, windows.this_morning.put_messages) == (5, 7)
    assert windows.totals().put_messages == 7


def test_what_was_forgotten_stays_in_the_totals() -> None:
    stats = BrokerStats()
    windows = StatWindows(stats, START_MS, TODAY)
    stats.put("T", 5, 500)
    windows.sample(START_MS + STEP_MS, TODAY)
    stats.remove_topic("T")
    windows.sample(START_MS + 2 * STEP_MS, TODAY)
    assert windows.totals().put_messages == 5
