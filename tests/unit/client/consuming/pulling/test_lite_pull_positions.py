"""Positions of a program, and which of them may be committed."""

from __future__ import annotations

from pathlib import Path

from apogeemq.client.broker_calls import NO_OFFSET
from apogeemq.client.consuming.offset_store import LocalOffsets
from apogeemq.client.consuming.pulling.lite_pull_positions import LitePullPositions
from apogeemq.model.queues import MessageQueue
from tests.unit.event_loop import in_loop

ONE, TWO = MessageQueue("broker-a", 1, "T"), MessageQueue("broker-a", 2, "T")


def positions(folder: Path) -> tuple[LitePullPositions, LocalOffsets]:
    store = LocalOffsets(folder, "client", "G")
    return LitePullPositions(store), store


@in_loop
async def test_a_position_is_committed_when_the_program_is_done_with_it(tmp_path: Path) -> None:
    made, store = positions(tmp_path)
    made.update(ONE, 5)
    assert (made.known(ONE), store.known(ONE)) == (5, NO_OFFSET)
    made.settle()
    made.update(ONE, 8)
    assert (made.known(ONE), store.known(ONE)) == (8, 5)
    made.update(ONE, 3)  # late word
    assert made.known(ONE) == 8
    made.update(ONE, 3, only_forward=False)
    made.settle()
    assert (made.known(ONE), store.known(ONE)) == (3, 3)
    assert made.all_known() == {ONE: 3}


@in_loop
async def test_a_commit_leaves_what_was_given_since(tmp_path: Path) -> None:
    made, store = positions(tmp_path)
    made.update(ONE, 5)
    made.update(TWO, 5)
    await made.commit({ONE: 5, TWO: 3})
    assert (await made.committed(ONE), await made.committed(TWO)) == (5, 3)
    made.settle()
    assert (store.known(ONE), store.known(TWO)) == (5, 5)


@in_loop
async def test_where_a_reader_begins_is_a_position_that_needs_no_commit(tmp_path: Path) -> None:
    made, store = positions(tmp_path)
    assert await made.read(ONE) == NO_OFFSET == made.known(ONE)
    store.update(ONE, 7)
    await store.persist()
    assert await made.read(ONE) == 7 == made.known(ONE)
    made.settle()
    assert not store.changed


@in_loop
async def test_a_queue_that_is_left_keeps_only_what_was_settled(tmp_path: Path) -> None:
    made, store = positions(tmp_path)
    made.update(ONE, 5)
    made.settle()
    made.update(ONE, 9)
    await made.release(ONE)
    assert made.known(ONE) == NO_OFFSET
    made.settle()
    assert store.known(ONE) == 5
