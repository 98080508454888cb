"""What may be committed: never anything beyond a message that is not finished."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from apogeemq.client.consuming.process_queue import NOTHING_TO_COMMIT, PULL_EXPIRES_MS, ProcessQueue
from tests.unit.client.consuming.messages import message


def test_nothing_came_nothing_to_commit() -> None:
    process = ProcessQueue(0)
    assert process.commit_offset == NOTHING_TO_COMMIT
    assert process.finish([message(3)]) == NOTHING_TO_COMMIT
    assert (len(process), process.size, process.span) == (0, 0, 0)


def test_the_first_unfinished_message_holds_the_offset_back() -> None:
    process = ProcessQueue(0)
    first, second, third = process.put([message(5), message(6), message(9)])
    assert process.commit_offset == 5
    assert process.finish([second]) == 5
    assert process.finish([first]) == 9
    assert process.finish([third]) == 10


def test_what_came_already_is_not_taken_again() -> None:
    process = ProcessQueue(0)
    (first,) = process.put([message(5)])
    assert process.put([message(5)]) == []
    process.finish([first])
    assert process.put([message(5), message(4)]) == []
    assert process.finish([first]) == 6  # again: nothing changes
    assert process.size == 0


def test_what_the_program_has() -> None:
    process = ProcessQueue(0)
    first, second, third = process.put([message(5), message(6), message(7)])
    for moment, each in enumerate((first, second, third)):
        process.take(each, 100 + moment)
    assert (process.taken_count, process.taken_at(second)) == (3, 101)
    assert process.taken_before(102) == [first, second]
    process.put_back(first)
    process.finish([second])
    assert (process.taken_count, process.taken_at(second), process.commit_offset) == (1, None, 5)
    process.take(first, 200)
    assert process.taken_before(1000) == [third, first]  # by when they were taken last


@pytest.mark.parametrize(
    ("is_leaving", "is_dropped", "may"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_whether_more_may_be_handed_out(is_leaving: bool, is_dropped: bool, may: bool) -> None:
    process = ProcessQueue(0)
    process.is_leaving, process.is_dropped = is_leaving, is_dropped
    assert process.may_hand_out is may


def test_the_offsets_that_are_here() -> None:
    process = ProcessQueue(0)
    assert process.cached_offsets == (0, 0)
    first, _, third = process.put([message(5), message(6), message(9)])
    process.finish([first])
    assert process.cached_offsets == (6, 9)
    process.finish([third])
    assert process.cached_offsets == (6, 6)


def test_the_size_is_that_of_the_bodies_as_they_came() -> None:
    process = ProcessQueue(0)
    first, second = process.put([message(1, b"12345"), message(2, b"123")])
    assert process.size == 8
    first.body = b"a program may do that"
    process.finish([first])
    assert process.size == 3
    process.finish([second])
    assert process.size == 0


def test_the_span_is_between_first_and_last() -> None:
    process = ProcessQueue(0)
    first, *_ = process.put([message(10), message(11), message(500)])
    assert process.span == 490
    process.finish([first])
    assert process.span == 489


def test_when_a_message_was_last_dealt_with() -> None:
    process = ProcessQueue(5000, 100)
    assert process.last_consume_ms(5000, 100) == 5000
    process.consumed_at_ms = 150
    assert process.last_consume_ms(9000, 350) == 8800


def test_cleared() -> None:
    process = ProcessQueue(0)
    process.put([message(1), message(2)])
    process.clear()
    assert (len(process), process.size, process.span) == (0, 0, 0)


def test_locks_and_pulls_expire() -> None:
    process = ProcessQueue(0, 1000)
    assert not process.is_pull_expired(1000 + PULL_EXPIRES_MS)
    assert process.is_pull_expired(1001 + PULL_EXPIRES_MS)
    assert not process.is_lock_valid(0)
    process.is_locked, process.locked_until_ms = True, 50
    assert process.is_lock_valid(49)
    assert not process.is_lock_valid(50)


@given(st.lists(st.integers(0, 60), unique=True), st.randoms(use_true_random=False))
def test_in_whatever_order_they_are_finished(offsets: list[int], random: object) -> None:
    process = ProcessQueue(0)
    messages = process.put(map(message, sorted(offsets)))
    shuffled = list(messages)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    committed = [process.finish([each]) for each in shuffled]
    assert committed == sorted(committed)
    assert not offsets or committed[-1] == max(offsets) + 1


class Consuming(RuleBasedStateMachine):
    """Pulls with gaps and repetitions, messages finished in any order and twice."""

    def __init__(self) -> None:
        super().__init__()
        self.process = ProcessQueue(0)
        self.next_offset = 0
        self.unfinished: dict[int, int] = {}
        self.came: set[int] = set()
        self.committed = NOTHING_TO_COMMIT

    @rule(gaps=st.lists(st.integers(0, 3), max_size=6), again=st.integers(0, 4))
    def pull(self, gaps: list[int], again: int) -> None:
        repeated = sorted(self.came)[-again:] if again else []
        offsets = []
        for gap in gaps:
            offsets.append(self.next_offset + gap)
            self.next_offset += gap + 1
        fresh = self.process.put([message(offset, bytes(offset % 7)) for offset in (*repeated, *offsets)])
        assert [each.queue_offset for each in fresh] == offsets
        self.came.update(offsets)
        self.unfinished.update((offset, offset % 7) for offset in offsets)

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        if self.came:
            offset = data.draw(st.sampled_from(sorted(self.came)))
            self.unfinished.pop(offset, None)
            offered = self.process.finish([message(offset)])
            assert offered >= self.committed
            self.committed = offered

    @invariant()
    def nothing_unfinished_is_passed(self) -> None:
        expected = min(self.unfinished, default=max(self.came, default=NOTHING_TO_COMMIT - 1) + 1)
        assert self.process.commit_offset == (expected if self.came else NOTHING_TO_COMMIT)
        assert len(self.process) == len(self.unfinished)
        assert self.process.size == sum(self.unfinished.values())


TestConsuming = Consuming.TestCase
