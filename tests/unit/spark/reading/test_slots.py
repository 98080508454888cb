"""Ranges cut into parts that are pulled side by side."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as some

from apogeemq.spark.reading.slots import PullSizes, slots_of
from tests.unit.spark.reading.stored import span


@given(
    some.lists(some.tuples(some.integers(0, 9999), some.integers(0, 5000)), max_size=4),
    some.lists(some.tuples(some.integers(1, 2000), some.integers(0, 10**7)), min_size=1),
    some.booleans(),
)
def test_every_offset_is_in_one_slot_whatever_is_learnt(
    ranges: list[tuple[int, int]], answers: list[tuple[int, int]], is_filtered: bool
) -> None:
    sizes = PullSizes(is_filtered=is_filtered)
    wanted = [span(start, start + count, number) for number, (start, count) in enumerate(ranges)]
    found = []
    for number, slot in enumerate(slots_of(wanted, sizes)):
        assert slot.size > 0
        found.append(slot)
        offsets, size = answers[number % len(answers)]
        sizes.learn(max(offsets, sizes.messages), offsets, size)
    for one in wanted:
        mine = [slot for slot in found if slot.queue_id == one.queue_id]
        assert [slot.start for slot in mine[:1]] == [one.start] * bool(one.size)
        assert all(before.end == after.start for before, after in pairwise(mine))
        assert [slot.end for slot in mine[-1:]] == [one.end] * bool(one.size)


def learnt(offsets: int, size: int, *, is_filtered: bool = False) -> int:
    sizes = PullSizes(is_filtered=is_filtered)
    sizes.learn(offsets, offsets, size)
    return sizes.offsets


def test_a_slot_brings_about_as_many_bytes_whatever_messages_weigh() -> None:
    assert PullSizes(is_filtered=False).offsets == 64
    assert learnt(32, 32 * 1024) == 512
    assert learnt(1, 4 * 1024 * 1024) == 1
    assert learnt(32, 32 * 100) == 1024
    assert learnt(800, 0) == 1024
    assert learnt(800, 0, is_filtered=True) == 16_384


def test_a_single_odd_answer_does_not_count_for_everything() -> None:
    sizes = PullSizes(is_filtered=False)
    for size in (1024, 1024, 4 * 1024 * 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024):
        sizes.learn(1, 1, size)
    assert 1 < sizes.offsets < 512


def test_pulls_ask_for_what_a_broker_brings() -> None:
    sizes = PullSizes(is_filtered=False)
    assert (sizes.messages, sizes.wish(), sizes.full_pulls(1024)) == (4096, 4096, 0)
    sizes.learn(1024, 32, 32 * 300)
    assert (sizes.messages, sizes.wish(), sizes.full_pulls(1024)) == (32, 32, 32)
    sizes.learn(7, 7, 7 * 300)  # no more was wanted
    assert sizes.messages == 32
    sizes.learn(32, 20, 20 * 300)
    assert sizes.messages == 20
    assert sizes.offsets == 1020  # so that no pull is smaller than the others


def test_now_and_then_a_pull_tries_to_get_more() -> None:
    sizes = PullSizes(is_filtered=False)
    sizes.learn(1024, 10, 3000)
    for _ in range(64):
        assert sizes.full_pulls(100) == 10
        sizes.learn(10, 10, 3000)
    assert sizes.full_pulls(100) == 0
    assert sizes.wish() == 40
    sizes.learn(40, 40, 12_000)
    assert (sizes.messages, sizes.full_pulls(100)) == (40, 2)


def test_a_filter_says_nothing_of_what_a_broker_brings() -> None:
    sizes = PullSizes(is_filtered=True)
    sizes.learn(1024, 800, 0)
    assert (sizes.messages, sizes.full_pulls(5000)) == (4096, 0)
