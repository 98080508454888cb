"""Results of a batch's messages: as asyncio's own futures, in every way programs use those."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, cast

import pytest

from apogeemq.client.producing.batch_results import BatchOutcome, BatchResults, PendingResult
from apogeemq.errors import ConnectionLost
from apogeemq.model.ids import UniqueIdRange
from apogeemq.model.messages import SendResult, SendStatus
from apogeemq.model.queues import MessageQueue
from tests.unit.event_loop import in_loop

QUEUE = MessageQueue("a", 1, "T")
TURN: ContextVar[str] = ContextVar("TURN", default="nobody's")


def whole(offset_ids: str) -> SendResult:
    return SendResult(SendStatus.SEND_OK, "", offset_ids, QUEUE, 100)


def results() -> BatchResults:
    return BatchResults(whole("O0,O1"), UniqueIdRange("U", 0, 2))


class Batch:
    """One of two messages, whose outcome the test decides."""

    def __init__(self) -> None:
        self.outcome = BatchOutcome(asyncio.get_running_loop())
        self.first, self.second = (
            cast("asyncio.Future[SendResult]", PendingResult(self.outcome, number)) for number in range(2)
        )

    def stored(self) -> None:
        self.outcome.set_results(results())

    def failed(self) -> None:
        self.outcome.set_error(ConnectionLost("gone"))


def test_each_message_has_its_own_ids_and_offset() -> None:
    made = results()
    assert [made.of(number) for number in (1, 0)] == [
        SendResult(SendStatus.SEND_OK, "U0001", "O1", QUEUE, 101),
        SendResult(SendStatus.SEND_OK, "U0000", "O0", QUEUE, 100),
    ]


def test_a_broker_that_names_one_place_for_all() -> None:
    made = BatchResults(whole("PLACE"), UniqueIdRange("U", 0, 2))
    assert [made.of(number).offset_id for number in range(2)] == ["PLACE", "PLACE"]
    assert made.of(1).queue_offset == 101


def test_the_only_message_has_the_result_of_the_whole() -> None:
    assert BatchResults(whole("O"), None).of(0) == whole("O")


@in_loop
async def test_before_there_is_an_outcome() -> None:
    batch = Batch()
    assert asyncio.isfuture(batch.first)
    assert batch.first.get_loop() is asyncio.get_running_loop()
    assert not batch.first.done() and not batch.first.cancelled()
    for ask in (batch.first.result, batch.first.exception):
        with pytest.raises(asyncio.InvalidStateError):
            ask()
    assert "open" in repr(batch.first)


@in_loop
async def test_the_outcome_is_everybodys() -> None:
    batch = Batch()
    batch.stored()
    assert batch.first.done() and batch.first.exception() is None
    assert (batch.first.result().message_id, (await batch.second).message_id) == ("U0000", "U0001")
    assert "stored" in repr(batch.first)


WAYS: dict[str, Callable[[Any], Any]] = {
    "await": lambda future: future,
    "gather": lambda future: _first_of(asyncio.gather(future)),
    "wait": lambda future: _waited(future),
    "wait_for": lambda future: asyncio.wait_for(future, 60),
    "shield": asyncio.shield,
    "as_completed": lambda future: next(iter(asyncio.as_completed([future]))),
    "a task": lambda future: asyncio.ensure_future(_awaited(future)),
}


async def _awaited(future: asyncio.Future[SendResult]) -> SendResult:
    return await future


async def _first_of(gathering: asyncio.Future[list[SendResult]]) -> SendResult:
    return (await gathering)[0]


async def _waited(future: asyncio.Future[SendResult]) -> SendResult:
    done, _ = await asyncio.wait([future])
    return done.pop().result()


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_all_ways_of_waiting(way: str, is_early: bool) -> None:
    @in_loop
    async def waits() -> None:
        for decide in (Batch.stored, Batch.failed):
            batch = Batch()
            if is_early:
                decide(batch)
            else:
                asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, decide, batch)
            try:
                assert (await WAYS[way](batch.second)).message_id == "U0001"
                assert decide is Batch.stored
            except ConnectionLost:
                assert decide is Batch.failed

    waits()


@in_loop
async def test_an_error_is_raised_as_it_came_each_time() -> None:
    batch = Batch()
    batch.failed()
    depths = []
    for _ in range(3):
        with pytest.raises(ConnectionLost) as caught:
            await batch.first
        depths.append(len(caught.traceback))
    assert len(set(depths)) == 1
    assert isinstance(batch.second.exception(), ConnectionLost)
    assert "failed" in repr(batch.first)


@in_loop
async def test_who_gives_up_gives_up_for_himself() -> None:
    batch = Batch()
    waiting = [asyncio.ensure_future(_awaited(future)) for future in (batch.first, batch.second)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    assert batch.first.cancelled() and not batch.second.done()
    assert not batch.first.cancel()
    batch.stored()
    assert (await waiting[1]).message_id == "U0001"
    for ask in (batch.first.result, batch.first.exception):
        with pytest.raises(asyncio.CancelledError):
            ask()
    with pytest.raises(asyncio.CancelledError):
        await batch.first
    assert not batch.second.cancel() and not batch.second.cancelled()
    assert "cancelled" in repr(batch.first)


@in_loop
async def test_a_batch_that_is_given_up_cancels_all() -> None:
    batch = Batch()
    waiting = asyncio.ensure_future(_awaited(batch.first))
    await asyncio.sleep(0)
    batch.outcome.cancel()
    batch.stored()  # too late
    batch.failed()
    assert batch.second.cancelled()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@in_loop
async def test_callbacks_are_called_once_in_order_in_their_context() -> None:
    batch, called = Batch(), list[tuple[str, str]]()

    def note(name: str) -> Callable[[object], None]:
        return lambda _: called.append((name, TURN.get()))

    removed = note("removed")
    TURN.set("one's")
    batch.first.add_done_callback(note("one"))
    TURN.set("two's")
    batch.first.add_done_callback(note("two"))
    batch.first.add_done_callback(removed)
    batch.first.add_done_callback(removed)
    TURN.set("test's")
    assert batch.first.remove_done_callback(removed) == 2
    assert batch.first.remove_done_callback(removed) == 0
    batch.stored()
    assert called == []  # not within the call that decides
    await asyncio.sleep(0)
    batch.first.add_done_callback(note("late"))
    await asyncio.sleep(0)
    assert called == [("one", "one's"), ("two", "two's"), ("late", "test's")]


@pytest.mark.parametrize("is_seen", [True, False])
def test_an_error_nobody_asks_for_is_told_once(is_seen: bool) -> None:
    told: list[Any] = []

    @in_loop
    async def fails() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        batch = Batch()
        batch.failed()
        if is_seen:
            batch.second.exception()
        del batch
        gc.collect()

    fails()
    assert [type(each) for each in told] == ([] if is_seen else [ConnectionLost])
