"""Consumers that are cancelled anywhere: nothing is lost, nothing acknowledged is undone, nothing runs on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.client import ConsumedMessage, Consumer, ConsumerOptions
from tests.unit.client.cluster import Cluster, client_tasks, cluster, eventually
from tests.unit.client.consuming.programs import fill
from tests.unit.event_loop import in_loop

OPTIONS = ConsumerOptions(start_from="first", stop_grace_seconds=0.05, suspend_seconds=0.01)
COUNT = 12


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def nothing_is_left(where: Cluster, group: str = "G") -> None:
    await eventually(lambda: not client_tasks())
    await eventually(lambda: (found := where.state.clients.consumer_group(group)) is None or not found.client_ids)


async def everything_comes(where: Cluster, acknowledged: set[bytes], *, ordered: bool = False) -> None:
    """Whoever comes next gets all that was not acknowledged; what was, only where it follows something that was not."""
    seen: set[bytes] = set()
    committed = where.committed("G", "T")
    missing = {b"%d" % number for number in range(COUNT)} - acknowledged
    async with Consumer(where.address, group="G", topic="T", ordered=ordered, options=OPTIONS) as consumer:
        while not missing <= seen:
            message = await anext(consumer)
            assert message.queue_offset >= committed.get(message.queue.queue_id, 0)
            seen.add(message.body)
            await message.ack()
    assert where.committed("G", "T") == {0: COUNT // 2, 1: COUNT // 2}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("after", [*range(0, 40, 4), 60, 90, 150, 250])
def test_a_program_cancelled_after_so_many_turns(tmp_path: Path, after: int, ordered: bool) -> None:
    @in_loop
    async def run() -> None:
        acknowledged: set[bytes] = set()

        async def program() -> None:
            async with Consumer(it.address, group="G", topic="T", ordered=ordered, options=OPTIONS) as consumer:
                async for message in consumer:
                    await asyncio.sleep(0)
                    await message.ack()
                    acknowledged.add(message.body)

        async with cluster(tmp_path) as it:
            await fill(it, "T", COUNT, queues=2)
            running = asyncio.ensure_future(program())
            await turns(after)
            running.cancel()
            await asyncio.wait((running,))
            assert running.cancelled()
            await nothing_is_left(it)
            await everything_comes(it, acknowledged, ordered=ordered)

    run()


@pytest.mark.parametrize("after", [1, 2, 3, 5, 8, 13, 21, 34])
def test_a_stop_that_is_cancelled_after_so_many_turns(tmp_path: Path, after: int) -> None:
    """Twice, even. (A task that is cancelled before its first turn has not begun to stop.)"""

    @in_loop
    async def run() -> None:
        acknowledged: set[bytes] = set()
        async with cluster(tmp_path) as it:
            await fill(it, "T", COUNT, queues=2)
            consumer = Consumer(it.address, group="G", topic="T", ordered=True, options=OPTIONS)

            @consumer.on_message
            async def handle(message: ConsumedMessage) -> None:
                if len(acknowledged) < COUNT // 2:
                    await message.ack()
                    acknowledged.add(message.body)
                else:
                    await asyncio.Event().wait()

            await consumer.start()
            running = asyncio.ensure_future(consumer.run())
            await eventually(lambda: len(acknowledged) == COUNT // 2)
            stopping = asyncio.ensure_future(consumer.stop())
            await turns(after)
            stopping.cancel()
            await turns(after // 2)
            stopping.cancel()
            await asyncio.wait((stopping,))
            running.cancel()
            await asyncio.wait((running,))
            await nothing_is_left(it)
            await everything_comes(it, acknowledged, ordered=True)

    run()


@pytest.mark.parametrize("after", range(0, 12, 2))
def test_a_retry_that_is_cancelled_after_so_many_turns(tmp_path: Path, after: int) -> None:
    """The message comes again, from here or from the broker, whichever had it."""

    @in_loop
    async def run() -> None:
        async with cluster(tmp_path, messageDelayLevel="1s 1s 1s") as it:
            await fill(it, "T", 1, queues=1)
            async with Consumer(it.address, group="G", topic="T", options=OPTIONS) as consumer:
                message = await anext(consumer)
                retrying = asyncio.ensure_future(message.retry(1))
                await turns(after)
                retrying.cancel()
                await asyncio.wait((retrying,))
            async with Consumer(it.address, group="G", topic="T", options=OPTIONS) as consumer:
                again = await anext(consumer)
                assert again.body == b"0"
                await again.ack()

    run()


@pytest.mark.parametrize("after", range(0, 30, 3))
def test_whoever_loses_patience_with_the_next_message_loses_no_message(tmp_path: Path, after: int) -> None:
    @in_loop
    async def run() -> None:
        async with cluster(tmp_path) as it:
            await it.make_topic("T", 2)
            async with Consumer(it.address, group="G", topic="T", options=OPTIONS) as consumer:
                waiting = asyncio.ensure_future(anext(consumer))
                filling = asyncio.ensure_future(fill(it, "T", COUNT, queues=2))
                seen: set[bytes] = set()
                while len(seen) < COUNT:
                    await turns(after)
                    if not waiting.done():
                        waiting.cancel()
                        await asyncio.wait((waiting,))
                    if not waiting.cancelled():
                        message = waiting.result()
                        seen.add(message.body)
                        await message.ack()
                    waiting = asyncio.ensure_future(anext(consumer))
                    await asyncio.sleep(0.001)
                waiting.cancel()
                await filling
            assert it.committed("G", "T") == {0: COUNT // 2, 1: COUNT // 2}

    run()
