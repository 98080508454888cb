"""How far a micro-batch reads."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from apogeemq.model.queues import MessageQueue
from apogeemq.spark.source.ranges import OffsetRange, range_of
from apogeemq.spark.source.read_options import Limits
from apogeemq.spark.source.stream_plan import admitted, is_worth_a_batch, pending, up_to

QUEUES = [MessageQueue("b", number, "T") for number in range(4)]
OFFSETS = st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 50))


def of_100_bytes(ranges: list[OffsetRange]) -> Mapping[MessageQueue, float]:
    return {one.queue: 100.0 for one in ranges}


@given(OFFSETS, OFFSETS)
def test_pending_is_what_lies_between(positions: dict[MessageQueue, int], ends: dict[MessageQueue, int]) -> None:
    found = {one.queue: (one.start, one.end) for one in pending(positions, ends)}
    both = positions.keys() & ends.keys()
    assert found == {queue: (positions[queue], ends[queue]) for queue in both if positions[queue] != ends[queue]}


@given(OFFSETS, OFFSETS, OFFSETS)
def test_nothing_is_read_beyond_a_target(
    latest: dict[MessageQueue, int], positions: dict[MessageQueue, int], target: dict[MessageQueue, int]
) -> None:
    ends = up_to(latest, positions, target)
    assert ends.keys() == latest.keys()
    for queue, end in ends.items():
        position = positions.get(queue, end)
        assert end <= max(target.get(queue, end), position)
        assert end <= max(latest[queue], position)
        if latest[queue] >= position:
            assert end >= position  # it never goes back


@given(OFFSETS, OFFSETS, OFFSETS, st.integers(1, 30))
def test_a_target_is_reached_in_the_end(
    latest: dict[MessageQueue, int], positions: dict[MessageQueue, int], target: dict[MessageQueue, int], limit: int
) -> None:
    """Batch by batch, and then there is nothing more: a query of what is there now ends."""
    positions = {queue: min(offset, latest.get(queue, offset)) for queue, offset in positions.items()}
    for _ in range(250):
        ranges = pending(positions, up_to(latest, positions, target))
        if not ranges:
            break
        taken = admitted(ranges, Limits(max_messages=limit), of_100_bytes)
        assert 0 < sum(one.size for one in taken) <= limit
        positions = {**positions, **{one.queue: one.end for one in taken}}
    else:
        raise AssertionError("it does not end")
    for queue in positions.keys() & latest.keys() & target.keys():
        assert positions[queue] >= min(latest[queue], target[queue])


def test_limits_hold_together() -> None:
    ranges = [range_of(queue, 0, 1000) for queue in QUEUES]
    assert admitted(ranges, Limits(), of_100_bytes) == ranges
    assert sum(one.size for one in admitted(ranges, Limits(max_messages=100), of_100_bytes)) == 100
    assert sum(one.size for one in admitted(ranges, Limits(max_bytes=20_000), of_100_bytes)) == 200
    both = admitted(ranges, Limits(max_messages=100, max_bytes=4_000), of_100_bytes)
    assert [one.size for one in both] == [10] * 4


def test_a_batch_waits_for_enough_messages_but_not_for_ever() -> None:
    limits = Limits(min_messages=10, max_delay_ms=1000)
    assert is_worth_a_batch(9, limits, None)  # the first one
    assert not is_worth_a_batch(9, limits, 999)
    assert is_worth_a_batch(9, limits, 1000)
    assert is_worth_a_batch(10, limits, 0)
    assert is_worth_a_batch(0, Limits(), 0)
