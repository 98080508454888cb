"""How messages reach the program when those of a queue come one after the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.client.consuming.locks import mark_locked
from apogeemq.client.consuming.pushing import ordered_delivery
from apogeemq.model.queues import MessageQueue
from tests.unit.client.consuming.messages import QUEUE, idle_reader
from tests.unit.client.consuming.pushing.deliveries import OTHER, Back, committed, ordered, put, taken
from tests.unit.event_loop import in_loop


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
async def test_nothing_is_handed_out_under_a_lock_that_has_run_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered_delivery, "LOCK_SECONDS", 0.01)
    delivery, reader = ordered(), idle_reader(tmp_path, is_ordered=True)
    reader.process.is_locked = True  # since long ago
    put(delivery, reader, 0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(delivery.take(), 0.05)
    mark_locked(reader)
    assert (await taken(delivery)).queue_offset == 0
