"""Lite pull consumers that seek, pause and commit."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.client import LitePullOptions
from apogeemq.errors import OffsetIllegal, WrongState
from tests.unit.client.cluster import cluster, eventually
from tests.unit.client.consuming.programs import fill
from tests.unit.client.consuming.pulling.polling import lite, numbers, options, polled
from tests.unit.client.consuming.test_membership import refusing_none
from tests.unit.event_loop import in_loop

# -- seek ----------------------------------------------------------------------------------------------------


@in_loop
async def test_a_seek_leaves_nothing_stale_behind(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 50, queues=1)
        async with lite(it) as consumer:
            assert await polled(consumer, 5) == numbers(*range(5))
            cached = consumer._running_session.readers[it.queue("T")]
            await eventually(lambda: len(cached.process) == 45)
            await consumer.seek(it.queue("T"), 20)
            assert consumer.position(it.queue("T")) == 20
            assert await polled(consumer, 10) == numbers(*range(20, 30))
            await consumer.seek_to_beginning()
            assert await polled(consumer, 2) == numbers(0, 1)
            await consumer.seek_to_end(it.queue("T"))
            assert await consumer.poll(0) == []
            await fill(it, "T", 1, queues=1, first=50)
            assert await polled(consumer, 1) == numbers(50)
            assert await consumer.poll(0) == []
            await consumer.seek(it.queue("T"), 40)  # a pull waits at the end of the queue: it is not waited for
            assert await polled(consumer, 11) == numbers(*range(40, 51))
        assert it.committed("G", "T") == {0: 51}


@in_loop
async def test_a_seek_back_is_kept_too(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 10, queues=1)
        async with lite(it) as consumer:
            await polled(consumer, 10)
            await consumer.seek(it.queue("T"), 3)
        assert it.committed("G", "T") == {0: 3}


@in_loop
async def test_a_seek_to_a_time(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 3, queues=1)
        middle = it.state.now_ms() + 1
        await eventually(lambda: it.state.now_ms() > middle)
        await fill(it, "T", 3, queues=1, first=3)
        async with lite(it) as consumer:
            assert await consumer.offset_for_time(it.queue("T"), middle) == 3
            await consumer.seek_to_time(middle)
            assert await polled(consumer, 3) == numbers(3, 4, 5)


@in_loop
async def test_seeks_that_cannot_be(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 3, queues=1)
        async with lite(it) as consumer:
            for offset in (-1, 4):
                with pytest.raises(OffsetIllegal, match=f"to {offset}: it has the offsets 0 to 3"):
                    await consumer.seek(it.queue("T"), offset)
            other = it.queue("T", 7)
            for seek in (consumer.seek(other, 0), consumer.seek_to_end(other), consumer.seek_to_time(0, other)):
                with pytest.raises(WrongState, match="not assigned to the consumer G"):
                    await seek
            assert await polled(consumer, 3) == numbers(0, 1, 2)


# -- pause ---------------------------------------------------------------------------------------------------


@in_loop
async def test_a_paused_queue_gives_nothing_also_of_what_was_pulled(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 20, queues=2)
        async with lite(it) as consumer:
            readers = consumer._running_session.readers
            await eventually(lambda: [len(reader.process) for reader in readers.values()] == [10, 10])
            consumer.pause(it.queue("T", 0))
            assert consumer.paused == {it.queue("T", 0)}
            assert sorted(map(int, await polled(consumer, 10))) == list(range(1, 20, 2))
            assert await consumer.poll(0) == []
            await fill(it, "T", 2, queues=2, first=20)
            assert await polled(consumer, 1) == numbers(21)
            waiting = asyncio.ensure_future(polled(consumer, 11))
            consumer.resume(it.queue("T", 0))
            assert await waiting == numbers(*range(0, 21, 2))
            assert consumer.paused == set()
            with pytest.raises(WrongState, match="not assigned"):
                consumer.pause(it.queue("T", 0), it.queue("T", 9))
            assert consumer.paused == set()  # all or none


@in_loop
async def test_a_seek_of_a_paused_queue(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 20, queues=1)
        async with lite(it) as consumer:
            await eventually(lambda: len(consumer._running_session.readers[it.queue("T")].process) == 20)
            consumer.pause(it.queue("T"))
            assert await consumer.poll(0) == []
            await consumer.seek(it.queue("T"), 18)
            assert await consumer.poll(0) == []
            consumer.resume(it.queue("T"))
            assert await polled(consumer, 2) == numbers(18, 19)


# -- commits -------------------------------------------------------------------------------------------------


@in_loop
async def test_a_commit_survives_a_restart_and_what_was_not_committed_comes_again(tmp_path: Path) -> None:
    manual = options(auto_commit=False)
    async with cluster(tmp_path) as it:
        await fill(it, "T", 10, queues=1)
        async with lite(it, options=manual) as consumer:
            assert await consumer.committed(it.queue("T")) is None
            await polled(consumer, 4)
            await consumer.commit()
            assert it.committed("G", "T") == {0: 4}  # when it returns, the broker has it
            assert await consumer.committed(it.queue("T")) == 4
            assert await polled(consumer, 2) == numbers(4, 5)
        assert it.committed("G", "T") == {0: 4}
        async with lite(it, options=manual) as consumer:
            assert await polled(consumer, 6) == numbers(*range(4, 10))


@in_loop
async def test_commits_of_chosen_queues_and_offsets(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 12, queues=3)
        async with lite(it, options=options(auto_commit=False)) as consumer:
            await polled(consumer, 12)
            await consumer.commit([it.queue("T", 1)])
            assert it.committed("G", "T") == {1: 4}
            await consumer.commit({it.queue("T", 2): 3, it.queue("T", 1): 2})
            assert it.committed("G", "T") == {1: 2, 2: 3}
            for wrong in ([it.queue("T", 1), it.queue("T", 5)], {it.queue("T", 5): 1, it.queue("T", 0): 1}):
                with pytest.raises(WrongState, match="not assigned"):
                    await consumer.commit(wrong)
            assert it.committed("G", "T") == {1: 2, 2: 3}
            await consumer.commit()
            assert it.committed("G", "T") == {0: 4, 1: 4, 2: 4}


@in_loop
async def test_auto_commit_keeps_what_earlier_polls_gave(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 10, queues=1)
        async with lite(it, options=options(auto_commit_seconds=0.01)) as consumer:
            await polled(consumer, 4)
            await consumer.poll(60, max_messages=2)
            await eventually(lambda: it.committed("G", "T").get(0) == 4)
            await consumer.poll(60, max_messages=1)
            await eventually(lambda: it.committed("G", "T") == {0: 6})


@in_loop
async def test_what_a_program_failed_over_is_not_committed_at_the_end(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 10, queues=1)
        with pytest.raises(LookupError):
            async with lite(it) as consumer:
                await polled(consumer, 3)
                async for _ in consumer:
                    raise LookupError("not this one")
        assert it.committed("G", "T") == {0: 3}
        async with lite(it) as consumer:
            assert await polled(consumer, 1) == numbers(3)
        assert it.committed("G", "T") == {0: 4}


@in_loop
async def test_a_new_group_that_begins_at_the_end_misses_nothing_after_a_restart(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 3, queues=1)
        async with refusing_none(it), lite(it, options=LitePullOptions()) as consumer:
            assert consumer.position(it.queue("T")) == 3
        await fill(it, "T", 1, queues=1, first=3)
        async with lite(it, options=LitePullOptions()) as consumer:
            assert await polled(consumer, 1) == numbers(3)
