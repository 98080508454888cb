"""How messages reach the program when any may come at any time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.client.consuming.incoming import ConsumedMessage
from apogeemq.client.consuming.pushing import delivery as delivery_module
from apogeemq.client.consuming.pushing.delivery import Delivery, MessageIterator
from apogeemq.client.consuming.pushing.ordered_delivery import OrderedDelivery
from tests.unit.client.consuming.messages import idle_reader
from tests.unit.client.consuming.pushing.deliveries import OTHER, Back, committed, ordered, put, taken
from tests.unit.event_loop import in_loop


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_module, "LOCAL_RETRY_SECONDS", 0.0)


@in_loop
async def test_all_may_be_out_at_once(tmp_path: Path) -> None:
    delivery, reader = Delivery(Back()), idle_reader(tmp_path)
    put(delivery, reader, 0, 1, 2)
    first, second, third = [await taken(delivery) for _ in range(3)]
    await second.ack()
    await third.ack()
    assert committed(reader) == 0
    await first.ack()
    assert committed(reader) == 3


@in_loop
async def test_whoever_waits_is_woken(tmp_path: Path) -> None:
    delivery, reader = Delivery(Back()), idle_reader(tmp_path)
    takers = [asyncio.ensure_future(taken(delivery)) for _ in range(3)]
    await asyncio.sleep(0)
    put(delivery, reader, 0, 1, 2)
    assert {(await taker).queue_offset for taker in takers} == {0, 1, 2}


@in_loop
async def test_a_message_is_not_lost_with_a_taker_that_was_cancelled(tmp_path: Path) -> None:
    delivery, reader = Delivery(Back()), idle_reader(tmp_path)
    first, second = (asyncio.ensure_future(taken(delivery)) for _ in range(2))
    await asyncio.sleep(0)
    put(delivery, reader, 0)
    first.cancel()  # it has been woken, but has not run
    assert (await second).queue_offset == 0
    assert first.cancelled()


@in_loop
async def test_takers_that_gave_up_leave_nothing_behind() -> None:
    delivery = Delivery(Back())
    for _ in range(10):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(delivery.take(), 0.001)
    assert not delivery._takers


@in_loop
async def test_closed(tmp_path: Path) -> None:
    delivery, reader = Delivery(Back()), idle_reader(tmp_path)
    put(delivery, reader, 0, 1)
    out = await taken(delivery)
    takers = [asyncio.ensure_future(delivery.take()) for _ in range(3)]
    delivery.close()
    await asyncio.sleep(0)
    got = [await taker for taker in takers]
    assert got == [None, None, None]
    assert await delivery.take() is None
    await out.ack()  # what is out may still be settled
    assert committed(reader) == 1


@in_loop
async def test_a_failed_message_goes_back_to_the_broker(tmp_path: Path) -> None:
    back = Back()
    delivery, reader = Delivery(back), idle_reader(tmp_path)
    put(delivery, reader, 0)
    await (await taken(delivery)).retry(3)
    assert back.sent == [(0, 3)]
    assert committed(reader) == 1


@in_loop
async def test_what_cannot_be_sent_back_is_tried_here_again(tmp_path: Path) -> None:
    back = Back(works=False)
    delivery, reader = Delivery(back), idle_reader(tmp_path)
    put(delivery, reader, 0, 1)
    first, second = await taken(delivery), await taken(delivery)
    await second.ack()
    await first.retry()
    assert committed(reader) == 0
    again = await taken(delivery)
    assert again is first
    await again.ack()
    assert committed(reader) == 2


@in_loop
async def test_a_cancelled_retry_leaves_no_message_unsettled_for_ever(tmp_path: Path) -> None:
    started = asyncio.Event()

    class Hanging(Back):
        async def send_back(self, message: ConsumedMessage, delay_level: int) -> bool:
            started.set()
            await asyncio.Event().wait()
            return True

    delivery, reader = Delivery(Hanging()), idle_reader(tmp_path)
    put(delivery, reader, 0)
    first = await taken(delivery)
    retrying = asyncio.ensure_future(first.retry())
    await started.wait()
    retrying.cancel()
    again = await taken(delivery)
    assert again is first and not again.is_settled
    await again.ack()
    assert committed(reader) == 1


@in_loop
async def test_messages_of_a_queue_that_was_given_away_are_not_handed_out_nor_counted(tmp_path: Path) -> None:
    delivery, gone, own = Delivery(Back()), idle_reader(tmp_path), idle_reader(tmp_path, OTHER)
    put(delivery, gone, 0, 1)
    out = await taken(delivery)
    await gone.stop()
    put(delivery, own, 7)
    assert (await taken(delivery)).queue_offset == 7
    await out.ack()
    assert committed(gone) == -1


@in_loop
async def test_a_queue_that_leaves_hands_out_nothing_more_and_what_is_out_counts(tmp_path: Path) -> None:
    for delivery, is_ordered in ((Delivery(Back()), False), (ordered(), True)):
        reader = idle_reader(tmp_path, is_ordered=is_ordered)
        put(delivery, reader, 0, 1)
        out = await taken(delivery)
        draining = asyncio.ensure_future(reader.drain(60))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not draining.done()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(delivery.take(), 0.01)
        await out.ack()
        await draining
        assert committed(reader) == 1
        if isinstance(delivery, OrderedDelivery):
            assert not delivery._lines


@in_loop
async def test_a_failure_after_the_queue_was_given_away_is_the_next_ones(tmp_path: Path) -> None:
    for is_ordered in (False, True):
        back = Back(most=0)
        delivery = ordered(back) if is_ordered else Delivery(back)
        reader = idle_reader(tmp_path, is_ordered=is_ordered)
        put(delivery, reader, 0)
        out = await taken(delivery)
        await reader.stop()
        await out.retry()
        assert (back.sent, back.anew, delivery._timers) == ([], [], set())


@in_loop
async def test_what_expires_is_sent_back_once(tmp_path: Path) -> None:
    back = Back()
    delivery, reader = Delivery(back), idle_reader(tmp_path)
    put(delivery, reader, 0, 1)
    late, _ = await taken(delivery), await taken(delivery)
    reader.process._taken[0] = (-10_000, late)
    await delivery.give_back_expired([reader], timeout_ms=5000)
    await delivery.give_back_expired([reader], timeout_ms=5000)
    assert (back.sent, committed(reader)) == ([(0, 3)], 1)
    await late.retry()
    assert back.sent == [(0, 3)]


@in_loop
async def test_what_expires_and_cannot_be_sent_back_is_the_programs_still(tmp_path: Path) -> None:
    back = Back(works=False)
    delivery, reader = Delivery(back), idle_reader(tmp_path)
    put(delivery, reader, 0)
    late = await taken(delivery)
    reader.process._taken[0] = (-10_000, late)
    await delivery.give_back_expired([reader], timeout_ms=5000)
    assert not late.is_settled
    await late.ack()
    assert committed(reader) == 1


@in_loop
async def test_what_is_settled_while_it_waits_to_be_tried_again_is_not_handed_out(tmp_path: Path) -> None:
    delivery, reader = Delivery(Back(works=False)), idle_reader(tmp_path)
    put(delivery, reader, 0)
    out = await taken(delivery)
    await out.retry()
    while not delivery.waiting_count:
        await asyncio.sleep(0)
    await out.ack()
    assert delivery.take_now() is None
    assert (committed(reader), reader.process.taken_count) == (1, 0)


@in_loop
async def test_an_iterator_ends_with_the_delivery(tmp_path: Path) -> None:
    delivery, reader = Delivery(Back()), idle_reader(tmp_path)
    put(delivery, reader, 0)
    found = []
    async for each in MessageIterator(delivery):
        found.append(each.queue_offset)
        asyncio.get_running_loop().call_soon(delivery.close)
    assert found == [0]
