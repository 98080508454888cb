from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringEndsWith,
    StringStartsWith,
)

from apogeemq.spark.cold.push_down import narrowed
from apogeemq.spark.cold.wanted import Wanted
from tests.unit.spark.cold.conftest import STORED_MS, Filled, numbers, reader_of, scan_with

TOPIC, TIME = ("topic",), ("store_timestamp",)
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp()) * 1000
TICK = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("one", "start", "end"),
    [
        (GreaterThanOrEqual(TIME, NOON), NOON_MS, None),
        (GreaterThanOrEqual(TIME, NOON + TICK), NOON_MS + 1, None),
        (GreaterThan(TIME, NOON), NOON_MS + 1, None),
        (GreaterThan(TIME, NOON - TICK), NOON_MS, None),
        (LessThan(TIME, NOON), None, NOON_MS),
        (LessThan(TIME, NOON + TICK), None, NOON_MS + 1),
        (LessThanOrEqual(TIME, NOON), None, NOON_MS + 1),
        (LessThanOrEqual(TIME, NOON - TICK), None, NOON_MS),
        (EqualTo(TIME, NOON), NOON_MS, NOON_MS + 1),
        (EqualTo(TIME, NOON + TICK), NOON_MS + 1, NOON_MS + 1),
        (EqualTo(TIME, NOON.replace(tzinfo=None)), NOON_MS, NOON_MS + 1),
    ],
)
def test_times_are_taken_to_the_millisecond(one: Filter, start: int | None, end: int | None) -> None:
    wanted, rest = narrowed(Wanted(), [one])
    assert (wanted.start_ms, wanted.end_ms, rest) == (start, end, [])


def test_filters_and_options_hold_together() -> None:
    wanted, _ = narrowed(
        Wanted(start_ms=NOON_MS - 5, end_ms=NOON_MS + 5), [GreaterThan(TIME, NOON), LessThan(TIME, NOON + TICK)]
    )
    assert (wanted.start_ms, wanted.end_ms) == (NOON_MS + 1, NOON_MS + 1)
    wanted, _ = narrowed(Wanted(topics=frozenset("ab")), [In(TOPIC, ("b", "c"))])
    assert [topic for topic in "abc" if wanted.takes_topic(topic)] == ["b"]
    wanted, _ = narrowed(Wanted(), [In(TOPIC, ("b", "c")), EqualNullSafe(TOPIC, "c"), StringStartsWith(TOPIC, "c")])
    assert [topic for topic in "abc" if wanted.takes_topic(topic)] == ["c"]


def test_what_is_not_understood_is_left_to_spark() -> None:
    filters: list[Filter] = [
        Not(EqualTo(TOPIC, "a")),
        StringEndsWith(TOPIC, "a"),
        In(TOPIC, ("a", None)),
        IsNotNull(TIME),
        EqualTo(("tags",), "a"),
        EqualTo(("properties", "topic"), "a"),
    ]
    assert narrowed(Wanted(), filters) == (Wanted(), filters)


def test_a_filter_does_not_bring_what_was_not_asked_for() -> None:
    wanted, _ = narrowed(Wanted(), [EqualTo(TOPIC, "SCHEDULE_TOPIC_XXXX")])
    assert not wanted.takes_topic("SCHEDULE_TOPIC_XXXX")


def test_a_reader_takes_filters(filled: Filled) -> None:
    filled.fill("Orders", 100)
    filled.put("Bills", 100)
    reader = reader_of(filled.root)
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=STORED_MS + 97)
    left = EqualTo(("tags",), "T1")
    assert list(reader.pushFilters([EqualTo(TOPIC, "Orders"), left, GreaterThanOrEqual(TIME, time)])) == [left]
    assert numbers(scan_with(reader).to_pylist()) == [97, 98, 99]
