"""What waits for a poll: turns of the queues, pauses, and lines that are dropped."""

from __future__ import annotations

import asyncio
from pathlib import Path

from apogeemq.client.consuming.pulling.lite_pull_cache import LitePullCache
from apogeemq.client.consuming.queue_reader import QueueReader
from apogeemq.model.queues import MessageQueue
from tests.unit.client.consuming.messages import idle_reader, message
from tests.unit.event_loop import in_loop


def queue(number: int) -> MessageQueue:
    return MessageQueue("broker-a", number, "T")


def pulled(cache: LitePullCache, reader: QueueReader, *offsets: int) -> None:
    messages = reader.process.put([message(offset, queue=reader.queue) for offset in offsets])
    reader.next_offset = offsets[-1] + 1
    cache.deliver(reader, messages)


async def taken(cache: LitePullCache, count: int = 100) -> list[tuple[int, int]]:
    return [(one.queue.queue_id, one.queue_offset) for one in await cache.take(count, 0)]


@in_loop
async def test_queues_take_turns_and_keep_their_order(tmp_path: Path) -> None:
    cache = LitePullCache()
    one, two = idle_reader(tmp_path / "1", queue(1)), idle_reader(tmp_path / "2", queue(2))
    pulled(cache, one, 0, 1, 2, 3)
    pulled(cache, two, 7, 8)
    pulled(cache, one, 4)
    assert await taken(cache, 2) == [(1, 0), (1, 1)]
    assert await taken(cache, 3) == [(2, 7), (2, 8), (1, 2)]
    assert (len(one.process), len(two.process)) == (2, 0)  # what was given makes room
    pulled(cache, two, 9)
    assert await taken(cache) == [(1, 3), (1, 4), (2, 9)]
    assert await taken(cache) == []
    assert not cache._lines and not cache._turns


@in_loop
async def test_what_is_given_moves_the_position_to_the_next_that_waits(tmp_path: Path) -> None:
    cache = LitePullCache()
    reader = idle_reader(tmp_path, queue(1))
    pulled(cache, reader, 3, 6)
    reader.next_offset = 9  # the ones between and after are not for us
    await taken(cache, 1)
    assert reader._reading.offsets.known(queue(1)) == 6
    await taken(cache, 1)
    assert reader._reading.offsets.known(queue(1)) == 9


@in_loop
async def test_a_dropped_line_is_not_given_and_a_new_one_is(tmp_path: Path) -> None:
    cache = LitePullCache()
    reader = idle_reader(tmp_path, queue(1))
    pulled(cache, reader, 0, 1, 2)
    reader.seek(1)
    pulled(cache, reader, 1)
    assert await taken(cache) == [(1, 1)]
    assert not cache._lines


@in_loop
async def test_a_paused_line_waits_until_it_is_resumed_or_dropped(tmp_path: Path) -> None:
    cache = LitePullCache()
    one, two = idle_reader(tmp_path / "1", queue(1)), idle_reader(tmp_path / "2", queue(2))
    for reader in (one, two):
        pulled(cache, reader, 0)
        reader.pause()
    assert await taken(cache) == []
    pulled(cache, one, 1)  # was on its way
    assert await taken(cache) == []
    two.cancel()
    one.resume()
    cache.resume()
    assert await taken(cache) == [(1, 0), (1, 1)]
    assert not cache._lines


@in_loop
async def test_paused_lines_that_are_dropped_do_not_pile_up(tmp_path: Path) -> None:
    cache = LitePullCache()
    reader = idle_reader(tmp_path, queue(1))
    reader.pause()
    for offset in range(10):
        pulled(cache, reader, offset)
        assert await taken(cache) == []
        reader.seek(offset + 1)
    assert len(cache._paused) == len(cache._lines) == 1


@in_loop
async def test_whoever_waits_is_woken_by_messages_and_by_the_end(tmp_path: Path) -> None:
    cache = LitePullCache()
    reader = idle_reader(tmp_path, queue(1))
    waiting = asyncio.ensure_future(cache.take(10, None))
    await asyncio.sleep(0)
    pulled(cache, reader, 0)
    assert len(await waiting) == 1
    waiting = asyncio.ensure_future(cache.take(10, None))
    await asyncio.sleep(0)
    pulled(cache, reader, 1)
    cache.close()
    assert await waiting == [] == await cache.take(10, None)
