"""Limits and partitions: nothing is lost, nothing is read twice, and limits hold."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.errors import ConfigError
from apogeemq.spark.source.ranges import OffsetRange, limited, limited_bytes, planned, shares

SIZES = st.lists(st.integers(0, 50_000), max_size=24)


def ranges_of(sizes: list[int]) -> list[OffsetRange]:
    """Of different queues that begin at different offsets."""
    return [OffsetRange("T", "b", number, 10 * number, 10 * number + size) for number, size in enumerate(sizes)]


def offsets(pieces: list[OffsetRange]) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for piece in sorted(pieces):
        if piece.size > 0:
            found.setdefault(piece.queue_id, []).append((piece.start, piece.end))
    return found


# -- limits --------------------------------------------------------------------------------------------------


@given(SIZES, st.integers(1, 400_000), st.integers(0, 5))
def test_shares_use_the_whole_limit(wanted: list[int], limit: int, turn: int) -> None:
    given_out = shares(wanted, limit, turn)
    assert sum(given_out) == min(limit, sum(wanted))
    assert all(0 <= got <= one for one, got in zip(wanted, given_out, strict=True))
    if limit >= len(wanted):
        assert all(got or not one for one, got in zip(wanted, given_out, strict=True))


@given(SIZES, st.integers(1, 400_000))
def test_shares_are_proportional(wanted: list[int], limit: int) -> None:
    """After the one that each gets."""
    waiting = sum(one > 0 for one in wanted)
    if waiting < limit < sum(wanted):
        rate = (limit - waiting) / (sum(wanted) - waiting)
        for one, got in zip(wanted, shares(wanted, limit), strict=True):
            assert not one or abs(got - 1 - (one - 1) * rate) < 1 + 1e-6


def test_shares_of_many_are_not_more_than_the_limit() -> None:
    assert shares([1] * 100, 10) == [1] * 10 + [0] * 90


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=24), st.integers(1, 24))
def test_no_queue_waits_for_ever(wanted: list[int], limit: int) -> None:
    """However full the others are kept."""
    served = {index for turn in range(len(wanted)) for index, got in enumerate(shares(wanted, limit, turn)) if got}
    assert served == set(range(len(wanted)))


@given(SIZES, st.integers(1, 400_000))
def test_limited_ranges_are_beginnings(sizes: list[int], limit: int) -> None:
    ranges = ranges_of(sizes)
    taken = limited(ranges, limit)
    assert [(one.queue, one.start) for one in taken] == [(one.queue, one.start) for one in ranges]
    assert all(one.start <= one.end <= whole.end for one, whole in zip(taken, ranges, strict=True))
    assert sum(one.size for one in taken) == min(limit, sum(sizes))


@given(SIZES, st.integers(1, 10**9), st.integers(1, 4096))
def test_limited_bytes_are_about_the_limit_and_go_on(sizes: list[int], max_bytes: int, mean: int) -> None:
    ranges = ranges_of(sizes)
    means = {one.queue: float(mean + one.queue_id) for one in ranges}
    taken = limited_bytes(ranges, means, max_bytes)
    count = sum(one.size for one in taken)
    assert all(one.start <= one.end <= whole.end for one, whole in zip(taken, ranges, strict=True))
    assert count > 0 or not sum(sizes)
    assert count <= 1 or sum(one.size * means[one.queue] for one in taken) <= max_bytes * (1 + 24 / mean)


# -- partitions ----------------------------------------------------------------------------------------------


@given(SIZES, st.integers(1, 60), st.none() | st.integers(100, 30_000))
def test_partitions_cover_everything_once_and_keep_to_the_limits(
    sizes: list[int], min_partitions: int, max_records: int | None
) -> None:
    ranges = ranges_of(sizes)
    tasks = planned(ranges, min_partitions, max_records)
    total = sum(sizes)
    for pieces in offsets([piece for task in tasks for piece in task]).values():
        assert all(one[1] == next_one[0] for one, next_one in pairwise(pieces))
    ends = {queue: (found[0][0], found[-1][1]) for queue, found in offsets([p for t in tasks for p in t]).items()}
    assert ends == {one.queue_id: (one.start, one.end) for one in ranges if one.size}
    assert sum(piece.size for task in tasks for piece in task) == total
    assert all(task and all(piece.size > 0 for piece in task) for task in tasks)
    assert len(tasks) >= min(min_partitions, total)
    if max_records is not None:
        assert all(sum(piece.size for piece in task) <= max_records for task in tasks)


@given(st.lists(st.integers(0, 50), max_size=64))
def test_small_ranges_share_one_task(sizes: list[int]) -> None:
    assert len(planned(ranges_of(sizes))) == (1 if sum(sizes) else 0)


@given(SIZES)
def test_there_are_no_more_tasks_than_queues_unless_asked_for(sizes: list[int]) -> None:
    assert len(planned(ranges_of(sizes))) <= sum(size > 0 for size in sizes)


@given(st.lists(st.integers(1, 9_999), min_size=2, max_size=64))
def test_joined_tasks_are_balanced(sizes: list[int]) -> None:
    loads = [sum(piece.size for piece in task) for task in planned(ranges_of(sizes))]
    assert max(loads) - min(loads) <= max(sizes)


def test_a_plan_is_the_same_whatever_the_order_of_queues() -> None:
    ranges = ranges_of([5, 20_000, 9_000, 7, 7, 12_000])
    assert planned(ranges) == planned(ranges[::-1])


def test_a_large_queue_is_one_task_and_cut_where_asked() -> None:
    ranges = ranges_of([100_000, 100_000])
    assert planned(ranges) == [(one,) for one in ranges]
    assert [task[0].size for task in planned(ranges, min_partitions=4)] == [50_000] * 4
    assert [task[0].size for task in planned(ranges, max_records=40_000)] == [33_333, 33_333, 33_334] * 2


@pytest.mark.parametrize(("queues", "size", "tasks"), [(8, 100, 1), (8, 5_000, 4), (64, 3_000, 8), (64, 15_000, 10)])
def test_tasks_are_few_before_they_are_large(queues: int, size: int, tasks: int) -> None:
    assert len(planned(ranges_of([size] * queues))) == tasks


def test_too_many_partitions_are_refused() -> None:
    with pytest.raises(ConfigError, match="maxRecordsPerPartition"):
        planned(ranges_of([1_000_000_000]), max_records=1)
