"""Pulls that wait for messages, beside a real store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from apogeemq.broker.services.held_pulls import HeldPulls
from apogeemq.filter.tags import java_hash
from apogeemq.store.config import StoreConfig
from apogeemq.store.message_store import MessageStore
from tests.unit.event_loop import in_loop
from tests.unit.store.conftest import message, tags_code_of

LONG = 1000.0  # seconds; no test waits for it


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    config = StoreConfig(
        store_path_root_dir=str(tmp_path),
        mapped_file_size_commit_log=64 * 1024,
        mapped_file_size_consume_queue=2000,
        max_hash_slot_num=100,
        max_index_num=1000,
    )
    made = MessageStore(config, tags_code_of)
    yield made
    made.close()


class Puller:
    """Counts how often it was asked to look again; finds something when it was told to."""

    def __init__(self) -> None:
        self.looks: list[bool] = []
        self.found: bytes | None = b"found"

    def look(self, is_last: bool) -> bytes | None:
        self.looks.append(is_last)
        return self.found if self.found is not None or not is_last else b"nothing"


async def turn() -> None:
    """Let everything that is due on the loop happen."""
    for _ in range(3):
        await asyncio.sleep(0)


def put(store: MessageStore, number: int, topic: str = "T", queue_id: int = 0) -> None:
    store.put(message(topic, queue_id, number), 0)


def held(store: MessageStore, most: int = 100) -> HeldPulls:
    return HeldPulls(asyncio.get_running_loop(), store, most)


@in_loop
async def test_a_message_wakes_those_who_want_it_and_no_others(store: MessageStore) -> None:
    pulls = held(store)
    wanting = {tag: Puller() for tag in ("T0", "T1", "*")}
    answers = {
        tag: pulls.hold(("T", 0), 0, None if tag == "*" else {java_hash(tag)}, LONG, puller.look)
        for tag, puller in wanting.items()
    }
    other_queue, other_topic = Puller(), Puller()
    assert pulls.hold(("T", 1), 0, None, LONG, other_queue.look) is not None
    assert pulls.hold(("U", 0), 0, None, LONG, other_topic.look) is not None
    put(store, 0)  # T0
    await turn()
    assert {tag for tag, answer in answers.items() if answer is not None and answer.done()} == {"T0", "*"}
    assert wanting["T1"].looks == other_queue.looks == other_topic.looks == []
    assert pulls.count == 3
    put(store, 1)  # T1
    await turn()
    answer = answers["T1"]
    assert answer is not None
    assert answer.result() == b"found"
    assert set(store.waiting) == {("T", 1), ("U", 0)}


@in_loop
async def test_messages_that_come_together_are_looked_at_once(store: MessageStore) -> None:
    pulls, puller = held(store), Puller()
    answer = pulls.hold(("T", 0), 0, None, LONG, puller.look)
    for number in range(10):
        put(store, number)
    assert puller.looks == []
    await turn()
    assert puller.looks == [False]
    assert answer is not None
    assert answer.done()


@in_loop
async def test_a_message_before_the_offset_asked_for_wakes_nobody(store: MessageStore) -> None:
    pulls, puller = held(store), Puller()
    answer = pulls.hold(("T", 0), 2, None, LONG, puller.look)
    assert answer is not None
    for number, looks in enumerate(([], [], [False])):
        put(store, number)
        await turn()
        assert puller.looks == looks


@in_loop
async def test_who_finds_nothing_after_all_goes_on_waiting(store: MessageStore) -> None:
    pulls, puller = held(store), Puller()
    puller.found = None
    answer = pulls.hold(("T", 0), 0, None, LONG, puller.look)
    assert answer is not None
    put(store, 0)
    await turn()
    assert puller.looks == [False]
    assert not answer.done()
    puller.found = b"now"
    put(store, 1)
    await turn()
    assert answer.result() == b"now"
    assert (pulls.count, store.waiting) == (0, {})


@in_loop
async def test_when_its_time_is_over_a_pull_is_answered_whatever_there_is(store: MessageStore) -> None:
    pulls, puller = held(store), Puller()
    puller.found = None
    answer = pulls.hold(("T", 0), 0, None, 0.0, puller.look)
    assert answer is not None
    assert await answer == b"nothing"
    assert puller.looks == [True]
    await turn()
    assert (pulls.count, store.waiting) == (0, {})


@in_loop
async def test_whose_connection_is_gone_is_forgotten(store: MessageStore) -> None:
    pulls, gone, stays = held(store), Puller(), Puller()
    first = pulls.hold(("T", 0), 0, None, LONG, gone.look)
    second = pulls.hold(("T", 0), 0, None, LONG, stays.look)
    assert first is not None
    assert second is not None
    first.cancel()
    await turn()
    assert pulls.count == 1
    put(store, 0)
    await turn()
    assert (gone.looks, stays.looks) == ([], [False])
    assert (pulls.count, store.waiting) == (0, {})


@in_loop
async def test_gone_after_being_woken_and_before_being_served(store: MessageStore) -> None:
    pulls, gone = held(store), Puller()
    answer = pulls.hold(("T", 0), 0, None, LONG, gone.look)
    assert answer is not None
    put(store, 0)
    answer.cancel()
    await turn()
    assert (gone.looks, pulls.count) == ([], 0)


@in_loop
async def test_there_is_a_most(store: MessageStore) -> None:
    pulls = held(store, most=2)
    first, second, third = (pulls.hold(("T", 0), 0, None, LONG, Puller().look) for _ in range(3))
    assert third is None
    assert first is not None
    first.cancel()
    await turn()
    assert second is not None
    assert pulls.hold(("T", 0), 0, None, LONG, Puller().look) is not None


@in_loop
async def test_all_pulls_of_one_queue_are_served(store: MessageStore) -> None:
    pulls = held(store, most=1000)
    answers = [pulls.hold(("T", 0), 0, None, LONG, Puller().look) for _ in range(1000)]
    put(store, 0)
    await turn()
    assert all(answer is not None and answer.done() for answer in answers)
    await turn()
    assert (pulls.count, store.waiting) == (0, {})


@in_loop
async def test_a_pull_that_fails_is_its_own_affair(store: MessageStore) -> None:
    pulls, fine = held(store), Puller()

    def fail(is_last: bool) -> bytes | None:
        raise RuntimeError("broke")

    broken = pulls.hold(("T", 0), 0, None, LONG, fail)
    whole = pulls.hold(("T", 0), 0, None, LONG, fine.look)
    put(store, 0)
    await turn()
    assert broken is not None
    assert isinstance(broken.exception(), RuntimeError)
    assert whole is not None
    assert whole.result() == b"found"


@in_loop
async def test_a_change_of_the_topic_wakes_all_of_it(store: MessageStore) -> None:
    pulls, first, second, other = held(store), Puller(), Puller(), Puller()
    for key, puller in ((("T", 0), first), (("T", 5), second), (("TT", 0), other)):
        pulls.hold(key, 7, {1}, LONG, puller.look)
    pulls.wake_all("T")
    await turn()
    assert (first.looks, second.looks, other.looks) == ([False], [False], [])


@in_loop
async def test_nobody_waits_for_a_broker_that_stops(store: MessageStore) -> None:
    pulls, puller = held(store), Puller()
    puller.found = None
    answers = [pulls.hold((topic, 0), 0, None, LONG, puller.look) for topic in ("T", "T", "U")]
    pulls.release_all()
    assert [answer.result() for answer in answers if answer is not None] == [b"nothing"] * 3
    await turn()
    assert pulls.count == 0
    assert pulls.hold(("T", 0), 0, None, LONG, puller.look) is None  # who asks again is not held either
