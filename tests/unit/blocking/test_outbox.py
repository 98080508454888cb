"""The way from a program's threads to the producer."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from apogeemq.blocking.outbox import MAX_WAITING, Outbox
from apogeemq.errors import MessageIllegal, WrongState
from apogeemq.model.messages import Message, SendResult, SendStatus
from apogeemq.model.queues import MessageQueue
from tests.unit.event_loop import in_loop

RESULT = SendResult(SendStatus.SEND_OK, "id", "place", MessageQueue("broker-a", 0, "T"), 0)


class Sender:
    """Takes messages one after the other while it is open."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.taken: list[bytes] = []
        self.futures: list[asyncio.Future[SendResult]] = []

    async def send_soon(self, message: Message) -> asyncio.Future[SendResult]:
        if not self.is_open.is_set():
            await self.is_open.wait()
        if message.body == b"illegal":
            raise MessageIllegal("no")
        self.taken.append(message.body)
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]


def message(number: int) -> Message:
    return Message("T", b"%d" % number)


def put(outbox: Outbox, what: Message) -> Future[SendResult]:
    result = outbox.put(what, asyncio.get_running_loop())
    assert result is not None
    return result


@in_loop
async def test_messages_keep_their_order_and_get_their_own_results() -> None:
    sender = Sender()
    outbox = Outbox(sender.send_soon)
    results = [await asyncio.to_thread(outbox.put, message(number), asyncio.get_running_loop()) for number in range(9)]
    await outbox.emptied()
    assert sender.taken == [b"%d" % number for number in range(9)]
    sender.futures[3].set_result(RESULT)
    sender.futures[4].set_exception(MessageIllegal("late"))
    sender.futures[5].cancel()
    await asyncio.sleep(0)
    assert [result.done() for result in results if result] == [number in (3, 4, 5) for number in range(9)]
    third, fourth, fifth = results[3:6]
    assert third and fourth and fifth
    assert third.result() is RESULT
    assert isinstance(fourth.exception(), MessageIllegal)
    assert isinstance(fifth.exception(), WrongState)
    assert not third.cancel()


@in_loop
async def test_a_failure_is_the_messages_own() -> None:
    sender = Sender()
    outbox = Outbox(sender.send_soon)
    results = [put(outbox, what) for what in (message(1), Message("T", b"illegal"), message(2))]
    await asyncio.sleep(0)
    await outbox.emptied()
    assert sender.taken == [b"1", b"2"]
    with pytest.raises(MessageIllegal):
        results[1].result()


@in_loop
async def test_there_is_room_for_so_many_while_the_sender_waits() -> None:
    sender = Sender()
    sender.is_open.clear()
    outbox = Outbox(sender.send_soon)
    loop = asyncio.get_running_loop()
    for number in range(MAX_WAITING):
        put(outbox, message(number))
    assert outbox.put(message(0), loop) is None
    await asyncio.sleep(0)
    busy = [outbox.is_busy]
    sender.is_open.set()
    await outbox.emptied()
    assert [*busy, outbox.is_busy] == [True, False]
    assert sender.taken == [b"%d" % number for number in range(MAX_WAITING)]
    put(outbox, message(0))
    await asyncio.sleep(0)
    await outbox.emptied()


@in_loop
async def test_the_end_leaves_nobody_waiting() -> None:
    for turns in (1, 2, 3):  # cancelled before it began, or later
        sender = Sender()
        sender.is_open.clear()
        outbox = Outbox(sender.send_soon)
        results = [put(outbox, message(number)) for number in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in tuple(outbox._emptying):
            task.cancel()
        await outbox.emptied()
        await asyncio.sleep(0)
        assert {type(result.exception(0)) for result in results} == {WrongState}
