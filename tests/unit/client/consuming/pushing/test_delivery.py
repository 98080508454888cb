"""How messages reach the program: at once, or the messages of a queue one after the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.client.consuming.incoming import ConsumedMessage
from apogeemq.client.consuming.locks import mark_locked
from apogeemq.client.consuming.pushing import delivery as delivery_module
from apogeemq.client.consuming.pushing.delivery import Delivery, OrderedDelivery
from apogeemq.client.consuming.queue_reader import QueueReader
from apogeemq.model.queues import MessageQueue
from tests.unit.client.consuming.messages import QUEUE, idle_reader, message
from tests.unit.event_loop import in_loop

OTHER = MessageQueue("broker-a", 3, "T")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_module, "LOCAL_RETRY_SECONDS", 0.0)


class Back:
    """Where messages are sent back to."""

    def __init__(self, *, works: bool = True, most: int = 16) -> None:
        self.works = works
        self.most = most
        self.sent: list[tuple[int, int]] = []
        self.anew: list[int] = []

    async def send_back(self, message: ConsumedMessage, delay_level: int) -> bool:
        self.sent.append((message.queue_offset, delay_level))
        return self.works

    async def send_anew(self, message: ConsumedMessage) -> bool:
        self.anew.append(message.queue_offset)
        return self.works


def ordered(back: Back | None = None) -> OrderedDelivery:
    return OrderedDelivery(back or Back(), suspend_seconds=0.0)


def put(delivery: Delivery, reader: QueueReader, *offsets: int) -> None:
    delivery.deliver(reader, reader.process.put([message(offset, queue=reader.queue) for offset in offsets]))


async def taken(delivery: Delivery) -> ConsumedMessage:
    found = await delivery.take()
    assert found is not None
    return found


def committed(reader: QueueReader) -> int:
    return reader._reading.offsets.known(reader.queue)


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


# -- ordered -------------------------------------------------------------------------------------------------


@in_loop
async def test_in_order_the_next_comes_when_the_one_before_is_finished(tmp_path: Path) -> None:
    delivery, reader = ordered(), idle_reader(tmp_path, is_ordered=True)
    put(delivery, reader, 0, 1)
    put(delivery, reader, 2)
    for offset in range(3):
        assert delivery.waiting_count == 1
        current = await taken(delivery)
        assert (current.queue_offset, delivery.waiting_count) == (offset, 0)
        await current.ack()
    assert committed(reader) == 3
    assert not delivery._lines
    put(delivery, reader, 3)
    assert (await taken(delivery)).queue_offset == 3


@in_loop
async def test_queues_do_not_wait_for_each_other(tmp_path: Path) -> None:
    delivery = ordered()
    one, other = (idle_reader(tmp_path, queue, is_ordered=True) for queue in (QUEUE, OTHER))
    put(delivery, one, 0, 1)
    put(delivery, other, 5, 6)
    got = [await taken(delivery), await taken(delivery)]
    assert [(each.queue, each.queue_offset) for each in got] == [(QUEUE, 0), (OTHER, 5)]
    await got[1].ack()
    assert (await taken(delivery)).queue_offset == 6


@in_loop
async def test_an_ordered_message_that_failed_comes_again_before_the_next(tmp_path: Path) -> None:
    back = Back()
    delivery, reader = ordered(back), idle_reader(tmp_path, is_ordered=True)
    put(delivery, reader, 0, 1)
    for times in range(3):
        current = await taken(delivery)
        assert (current.queue_offset, current.reconsume_times) == (0, times)
        await current.retry()
    await (await taken(delivery)).ack()
    assert (await taken(delivery)).queue_offset == 1
    assert back.sent == []


@in_loop
async def test_an_ordered_message_may_be_given_up(tmp_path: Path) -> None:
    back = Back()
    delivery, reader = ordered(back), idle_reader(tmp_path, is_ordered=True)
    put(delivery, reader, 0, 1)
    await (await taken(delivery)).retry(-1)
    assert back.sent == [(0, -1)]
    assert (await taken(delivery)).queue_offset == 1


@in_loop
async def test_nothing_is_kept_of_an_ordered_queue_that_was_given_away(tmp_path: Path) -> None:
    delivery = ordered()
    acked, retried, ready = (
        idle_reader(tmp_path, MessageQueue("b", queue_id, "T"), is_ordered=True) for queue_id in range(3)
    )
    for reader in (acked, retried, ready):
        put(delivery, reader, 0, 1, 2)
    one, two = await taken(delivery), await taken(delivery)
    for reader in (acked, retried, ready):
        await reader.stop()
    await one.ack()
    await two.retry()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(delivery.take(), 0.05)
    assert not delivery._lines and not delivery._timers


@in_loop
async def test_no_timer_is_left_when_closed(tmp_path: Path) -> None:
    delivery, reader = ordered(), idle_reader(tmp_path, is_ordered=True)
    put(delivery, reader, 0)
    out = await taken(delivery)
    delivery.close()
    await out.retry()
    assert not delivery._timers and not delivery._lines


@in_loop
async def test_an_ordered_message_that_failed_too_often_is_sent_anew(tmp_path: Path) -> None:
    back = Back(most=2)
    delivery, reader = ordered(back), idle_reader(tmp_path, is_ordered=True)
    put(delivery, reader, 0, 1)
    for times in range(3):
        current = await taken(delivery)
        assert (current.queue_offset, current.reconsume_times) == (0, times)
        await current.retry()
    assert back.anew == [0]
    assert (await taken(delivery)).queue_offset == 1


@in_loop
async def test_an_ordered_message_that_cannot_be_sent_anew_is_tried_here_on(tmp_path: Path) -> None:
    back = Back(works=False, most=0)
    delivery, reader = ordered(back), idle_reader(tmp_path, is_ordered=True)
    put(delivery, reader, 0, 1)
    for times in range(3):
        current = await taken(delivery)
        assert (current.queue_offset, current.reconsume_times) == (0, times)
        await current.retry()
    assert back.anew == [0, 0, 0]


@in_loop
async def test_a_queue_that_is_begun_anew_waits_for_the_message_that_is_out(tmp_path: Path) -> None:
    delivery, reader = ordered(), idle_reader(tmp_path, is_ordered=True)
    put(delivery, reader, 5, 6)
    out = await taken(delivery)
    reader.seek(0)
    put(delivery, reader, 0, 1)
    assert delivery.waiting_count == 0
    await out.ack()  # it counts no more, but the order does
    assert (await taken(delivery)).queue_offset == 0
    assert committed(reader) == 0


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
async def test_a_program_that_does_not_settle_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    delivery, reader = ordered(), idle_reader(tmp_path, is_ordered=True)
    put(delivery, reader, 0)
    await taken(delivery)
    await reader.drain(0.01)
    assert reader.process.taken_count == 1
    draining = asyncio.ensure_future(reader.drain(60))
    await asyncio.sleep(0)
    reader.cancel()  # nor when there is no time left
    await draining


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
async def test_nothing_is_handed_out_under_a_lock_that_has_run_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_module, "LOCK_SECONDS", 0.01)
    delivery, reader = ordered(), idle_reader(tmp_path, is_ordered=True)
    reader.process.is_locked = True  # since long ago
    put(delivery, reader, 0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(delivery.take(), 0.05)
    mark_locked(reader)
    assert (await taken(delivery)).queue_offset == 0
