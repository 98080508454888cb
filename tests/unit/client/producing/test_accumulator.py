"""Messages put together into batches."""

from __future__ import annotations

import asyncio

import pytest

from apogeemq.client.producing.accumulator import Accumulator
from apogeemq.client.producing.batch_results import BatchResults
from apogeemq.client.producing.gathered import Gathered
from apogeemq.errors import ConnectionLost
from apogeemq.model.ids import UniqueIdRange
from apogeemq.model.messages import Message, SendResult, SendStatus
from apogeemq.model.queues import MessageQueue
from tests.unit.event_loop import in_loop

QUEUE = MessageQueue("a", 1, "T")
NEVER = 3600.0


def results(count: int) -> BatchResults:
    offset_ids = ",".join(f"O{number}" for number in range(count))
    return BatchResults(SendResult(SendStatus.SEND_OK, "", offset_ids, QUEUE, 100), UniqueIdRange("U", 0, count))


class Sent:
    """Takes batches; waits while `gate` is closed."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.problem: Exception | None = None

    async def __call__(self, messages: Gathered) -> BatchResults:
        self.batches.append(messages.bodies)
        await self.gate.wait()
        if self.problem is not None:
            raise self.problem
        return results(len(messages))


def bodies(*given: bytes, topic: str = "T") -> list[Message]:
    return [Message(topic, body) for body in given]


@in_loop
async def test_a_batch_goes_when_it_has_waited_long_enough() -> None:
    sent = Sent()
    accumulator = Accumulator(sent, 0.005, 1000)
    futures = [accumulator.add(message) for message in bodies(b"a", b"b")]
    assert sent.batches == []
    sent_ones = await asyncio.gather(*futures)
    assert sent.batches == [[b"a", b"b"]]
    assert [(each.message_id, each.offset_id, each.queue_offset) for each in sent_ones] == [
        ("U0000", "O0", 100),
        ("U0001", "O1", 101),
    ]


@in_loop
async def test_a_batch_goes_when_it_is_large_enough() -> None:
    sent = Sent()
    accumulator = Accumulator(sent, NEVER, 10)
    await asyncio.gather(*(accumulator.add(message) for message in bodies(b"12345", b"67890")))
    assert sent.batches == [[b"12345", b"67890"]]


@in_loop
async def test_a_message_that_does_not_fit_begins_the_next_batch() -> None:
    sent = Sent()
    accumulator = Accumulator(sent, NEVER, 10)
    first, second = (accumulator.add(message) for message in bodies(b"123456", b"78901"))
    await first
    assert sent.batches == [[b"123456"]]
    await accumulator.flush()
    assert (await second).message_id == "U0000"
    assert sent.batches[1:] == [[b"78901"]]


@in_loop
async def test_topics_and_ways_of_waiting_are_kept_apart() -> None:
    sent = Sent()
    accumulator = Accumulator(sent, NEVER, 1000)
    for message in (
        *bodies(b"1"),
        *bodies(b"2", topic="other"),
        Message("T", b"3", waits_for_store=False),
        *bodies(b"4"),
    ):
        accumulator.add(message)
    await accumulator.flush()
    assert sorted(sent.batches) == [[b"1", b"4"], [b"2"], [b"3"]]


@in_loop
async def test_a_failure_is_everybodys() -> None:
    sent = Sent()
    sent.problem = ConnectionLost("gone")
    accumulator = Accumulator(sent, NEVER, 1000)
    futures = [accumulator.add(message) for message in bodies(b"a", b"b")]
    await accumulator.flush()
    for future in futures:
        with pytest.raises(ConnectionLost):
            await future


@in_loop
async def test_who_gives_up_changes_nothing_for_the_others() -> None:
    sent = Sent()
    accumulator = Accumulator(sent, NEVER, 1000)
    first, second = (accumulator.add(message) for message in bodies(b"a", b"b"))
    first.cancel()
    await accumulator.flush()
    assert (await second).message_id == "U0001"
    assert first.cancelled()


@in_loop
async def test_flush_waits_for_the_answers() -> None:
    sent = Sent()
    sent.gate.clear()
    accumulator = Accumulator(sent, NEVER, 1000)
    future = accumulator.add(bodies(b"a")[0])
    flushing = asyncio.ensure_future(accumulator.flush())
    while not sent.batches:
        await asyncio.sleep(0)
    assert not flushing.done() and not future.done()
    sent.gate.set()
    await flushing
    assert future.done()
    await accumulator.flush()  # nothing to do
    assert not accumulator._growing and not accumulator._sending
