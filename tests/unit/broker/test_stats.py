"""Counters and histograms."""

from __future__ import annotations

import pytest

from apogeemq.broker import stats as stats_module
from apogeemq.broker.stats import BrokerStats, CountTable, Histogram


def test_puts_and_gets_are_counted_by_key_and_in_all() -> None:
    stats = BrokerStats()
    stats.put("T", 2, 100)
    stats.put("T", 1, 50)
    stats.put("U", 1, 10)
    stats.got("T@G", 5, 500)
    row = stats.puts.rows["T"]
    assert (row.messages, row.size, row.times) == (3, 150, 2)
    assert (stats.put_total.messages, stats.put_total.size, stats.put_total.times) == (4, 160, 3)
    assert stats.gets.rows["T@G"].messages == 5


def test_keys_beyond_the_limit_share_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_module, "MAX_KEYS", 2)
    table = CountTable()
    for key in ("a", "b", "c", "d"):
        table.add(key, 1, 1)
    assert set(table.rows) == {"a", "b"}


def test_deleted_topics_and_groups_are_forgotten() -> None:
    stats = BrokerStats()
    stats.put("T", 1, 1)
    for key in ("T@G", "T@H", "TT@G"):
        stats.got(key, 1, 1)
        stats.send_backs.add(key, 1, 1)
    stats.remove_topic("T")
    assert (set(stats.puts.rows), set(stats.gets.rows), set(stats.send_backs.rows)) == (set(), {"TT@G"}, {"TT@G"})
    stats.remove_group("G")
    assert (set(stats.gets.rows), set(stats.send_backs.rows)) == (set(), set())


def test_percentiles_of_a_histogram() -> None:
    histogram = Histogram((0.001, 0.01, 0.1))
    assert histogram.percentile(0.99) == 0.0
    histogram.observe(0.0005, 98)
    histogram.observe(0.05)
    histogram.observe(3.0)
    assert histogram.percentile(0.5) == 0.001
    assert histogram.percentile(0.99) == 0.1
    assert histogram.percentile(0.999) == 3.0
    assert (histogram.counts, histogram.max_seconds) == ([98, 0, 1, 1], 3.0)
