"""Filters only ever narrow: whatever passes them is read."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from apogeemq.model.queues import MessageQueue
from apogeemq.spark.source.message_filter import MessageFilter
from apogeemq.spark.source.push_down import CLOCK_MARGIN_MS, Pushed, holds
from apogeemq.spark.source.ranges import OffsetRange

A = MessageQueue("broker-a", 1, "orders")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_767_268_800_000

_NUMBER_FILTERS = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)


def by_offset(kind: type[Any], value: object) -> Filter:
    found: Filter = kind(("queue_offset",), value)
    return found


OFFSET_FILTERS = st.one_of(
    st.builds(by_offset, st.sampled_from(_NUMBER_FILTERS), st.integers(-5, 25)),
    st.builds(lambda values: In(("queue_offset",), tuple(values)), st.lists(st.integers(0, 25), max_size=3)),
    st.builds(lambda value: Not(EqualTo(("queue_offset",), value)), st.integers(0, 20)),
    st.just(IsNotNull(("queue_offset",))),
)


def passes(one: Filter, offset: int) -> bool:
    return holds(one, offset) is not False


@given(st.lists(OFFSET_FILTERS, max_size=3), st.integers(0, 20), st.integers(0, 20))
def test_every_offset_that_passes_is_read(filters: list[Filter], one: int, other: int) -> None:
    start, end = sorted((one, other))
    narrowed = Pushed.read(filters).narrowed(OffsetRange("T", "b", 0, start, end))
    read = set(range(narrowed.start, narrowed.end))
    assert read <= set(range(start, end))
    assert {offset for offset in range(start, end) if all(passes(f, offset) for f in filters)} <= read


def test_offsets_are_narrowed() -> None:
    whole = OffsetRange("T", "b", 0, 0, 100)
    filters = [GreaterThanOrEqual(("queue_offset",), 10), LessThan(("queue_offset",), 20)]
    assert Pushed.read(filters).narrowed(whole) == whole._replace(start=10, end=21)
    assert Pushed.read([EqualTo(("queue_offset",), 7)]).narrowed(whole).size == 1
    assert Pushed.read([In(("queue_offset",), (7, 9))]).narrowed(whole).size == 3
    assert Pushed.read([EqualTo(("queue_offset",), 700)]).narrowed(whole).size == 0


@pytest.mark.parametrize(
    ("one", "is_taken"),
    [
        (EqualTo(("topic",), "orders"), True),
        (EqualTo(("topic",), "Orders"), False),
        (EqualNullSafe(("topic",), "bills"), False),
        (EqualTo(("topic",), None), True),  # not understood: Spark finds out
        (In(("topic",), ("bills", "orders")), True),
        (In(("topic",), ("bills",)), False),
        (In(("topic",), ("bills", None)), True),
        (Not(EqualTo(("topic",), "orders")), False),
        (Not(In(("topic",), ("bills",))), True),
        (StringStartsWith(("topic",), "ord"), True),
        (StringEndsWith(("topic",), "ord"), False),
        (StringContains(("topic",), "rde"), True),
        (Not(StringContains(("topic",), "rde")), False),
        (IsNull(("topic",)), False),
        (IsNotNull(("topic",)), True),
        (GreaterThan(("topic",), "p"), False),
        (EqualTo(("broker",), "broker-b"), False),
        (EqualTo(("queue_id",), 1), True),
        (EqualTo(("queue_id",), 2), False),
        (GreaterThan(("queue_id",), 1), False),
        (LessThanOrEqual(("queue_id",), 1), True),
        (EqualTo(("queue_id",), "2"), True),
        (EqualTo(("queue_id",), True), True),
        (EqualTo(("body",), b"x"), True),
        (EqualTo(("properties", "topic"), "x"), True),
    ],
)
def test_queues_that_cannot_pass_are_not_read(one: Filter, is_taken: bool) -> None:
    assert Pushed.read([one]).takes(A) is is_taken


def test_times_are_looked_up_with_a_margin() -> None:
    pushed = Pushed.read([GreaterThan(("store_timestamp",), NOON), LessThanOrEqual(("store_timestamp",), NOON)])
    assert pushed.search_from_ms == NOON_MS - CLOCK_MARGIN_MS
    assert pushed.search_to_ms == NOON_MS + CLOCK_MARGIN_MS + 1


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=50),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, CLOCK_MARGIN_MS),
)
def test_times_of_a_clock_that_was_set_back_are_found(times: list[int], one: int, other: int, back_ms: int) -> None:
    """Binary search over times that are not quite in order still finds all that pass."""
    least, most = sorted((one, other))
    stored = [max(0, time_ms - (back_ms if index % 3 == 2 else 0)) for index, time_ms in enumerate(sorted(times))]
    moments = [datetime.fromtimestamp(time_ms / 1000, UTC) for time_ms in (least, most)]
    pushed = Pushed.read(
        [GreaterThanOrEqual(("store_timestamp",), moments[0]), LessThanOrEqual(("store_timestamp",), moments[1])]
    )
    start = 0 if pushed.search_from_ms is None else first_at(stored, pushed.search_from_ms)
    end = len(stored) if pushed.search_to_ms is None else first_at(stored, pushed.search_to_ms)
    wanted = {index for index, time_ms in enumerate(stored) if least <= time_ms <= most}
    assert wanted <= set(range(start, end))


def first_at(stored: list[int], time_ms: int) -> int:
    """As brokers search."""
    low, high = 0, len(stored)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if stored[middle] < time_ms else (low, middle)
    return low


def test_without_times_nothing_is_looked_up() -> None:
    naive = EqualTo(("store_timestamp",), NOON.replace(tzinfo=None))
    for pushed in (Pushed(), Pushed.read([naive]), Pushed.read([Not(EqualTo(("store_timestamp",), NOON))])):
        assert (pushed.search_from_ms, pushed.search_to_ms) == (None, None)


@pytest.mark.parametrize(
    ("filters", "given_tags", "expected"),
    [
        ([EqualTo(("tags",), "a")], "*", "a"),
        ([In(("tags",), ("b", "a"))], "*", "a || b"),
        ([In(("tags",), ("b", "a")), EqualTo(("tags",), "b")], "*", "b"),
        ([In(("tags",), ("b", "a"))], "b || c", "b"),
        ([EqualTo(("tags",), "a")], "b", "b"),  # nothing can pass; Spark finds out
        ([EqualTo(("tags",), "a || b")], "*", "*"),
        ([EqualTo(("tags",), "*")], "*", "*"),
        ([EqualTo(("tags",), " a")], "*", "*"),
        ([EqualTo(("tags",), "")], "*", "*"),
        ([IsNull(("tags",))], "*", "*"),
        ([Not(EqualTo(("tags",), "a"))], "*", "*"),
        ([StringStartsWith(("tags",), "a")], "*", "*"),
    ],
)
def test_tags(filters: list[Filter], given_tags: str, expected: str) -> None:
    found = Pushed.read(filters).filter(MessageFilter(tags=given_tags), ["orders"])
    assert found == MessageFilter(tags=expected)


def test_tags_are_left_to_spark_where_brokers_cannot_look() -> None:
    pushed = Pushed.read([EqualTo(("tags",), "a")])
    assert pushed.filter(MessageFilter(sql="x > 1"), ["orders"]) == MessageFilter(sql="x > 1")
    assert pushed.filter(MessageFilter(), ["orders", "SCHEDULE_TOPIC_XXXX"]).is_everything


def test_they_travel() -> None:
    pushed = Pushed.read([EqualTo(("topic",), "a"), EqualTo(("tags",), "a")])
    assert pickle.loads(pickle.dumps(pushed)) == pushed
