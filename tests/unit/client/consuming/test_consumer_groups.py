"""Several consumers of a group: they share, they all get everything, or they keep the order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from apogeemq.client import ConsumedMessage, Consumer, ConsumerOptions
from apogeemq.model.queues import MessageQueue
from tests.unit.client.cluster import FROM_FIRST, cluster, eventually, named
from tests.unit.client.consuming.programs import fill, handling, queues_of, settled, taken
from tests.unit.event_loop import in_loop

# -- several consumers ---------------------------------------------------------------------------------------


@in_loop
async def test_members_share_the_queues_and_each_message_comes_to_one(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 8)
        first, second = (
            Consumer(it.address, group="G", topic="T", options=FROM_FIRST, client=named(name)) for name in ("1", "2")
        )
        async with handling(first) as one:
            await eventually(lambda: queues_of(first) == set(range(8)))
            async with handling(second) as two:
                await eventually(lambda: (queues_of(first), queues_of(second)) == ({0, 1, 2, 3}, {4, 5, 6, 7}))
                await fill(it, "T", 40, queues=8)
                await eventually(lambda: len(one.bodies) + len(two.bodies) == 40)
                assert len(set(one.bodies + two.bodies)) == 40
                assert {message.queue.queue_id for message in two.messages} == {4, 5, 6, 7}
            await eventually(lambda: queues_of(first) == set(range(8)))
            await fill(it, "T", 8, queues=8, first=40)
            await eventually(lambda: len(one.bodies) + len(two.bodies) >= 48)
            assert len(set(one.bodies + two.bodies)) == 48
            assert len(one.bodies) + len(two.bodies) == 48  # nothing came twice across the hand-over
        assert it.committed("G", "T") == dict.fromkeys(range(8), 6)


@in_loop
async def test_more_members_than_queues(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 2)
        consumers = [Consumer(it.address, group="G", topic="T", client=named(str(number))) for number in range(3)]
        for consumer in consumers:
            await consumer.start()
        try:
            await eventually(lambda: [queues_of(consumer) for consumer in consumers] == [{0}, {1}, set()])
        finally:
            for consumer in consumers:
                await consumer.stop()


@pytest.mark.parametrize("rebalance", ["AVG_BY_CIRCLE", "CONSISTENT_HASH"])
def test_other_ways_to_share(tmp_path: Path, rebalance: str) -> None:
    async def run() -> None:
        options = ConsumerOptions(rebalance=rebalance)
        async with cluster(tmp_path) as it:
            await it.make_topic("T", 6)
            async with (
                Consumer(it.address, group="G", topic="T", options=options, client=named("1")) as one,
                Consumer(it.address, group="G", topic="T", options=options, client=named("2")) as two,
            ):
                await eventually(lambda: queues_of(one) | queues_of(two) == set(range(6)))
                await eventually(lambda: not queues_of(one) & queues_of(two))
                if rebalance == "AVG_BY_CIRCLE":
                    await eventually(lambda: queues_of(one) == {0, 2, 4} and queues_of(two) == {1, 3, 5})

    asyncio.run(run())


@in_loop
async def test_a_strategy_of_the_programs_own_that_fails_ends_nothing(tmp_path: Path) -> None:
    calls: list[str] = []

    def odd(own_id: str, queues: Any, client_ids: Any) -> list[MessageQueue]:
        calls.append(own_id)
        if len(calls) < 2:
            raise LookupError("not this time")
        return list(queues)

    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST, strategy=odd) as consumer:
            assert (await anext(consumer)).body == b"0"


@in_loop
async def test_new_queues_are_found(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            await eventually(lambda: queues_of(consumer) == {0})
            config = it.state.topics.get("T")
            assert config is not None
            more = msgspec.structs.replace(config, read_queue_nums=3, write_queue_nums=3)
            it.state.topics.put(more, it.state.now_ms())
            await eventually(lambda: queues_of(consumer) == {0, 1, 2})  # the name server tells of it


# -- broadcasting --------------------------------------------------------------------------------------------


@in_loop
async def test_broadcasting_every_member_gets_everything_and_keeps_its_own_offsets(tmp_path: Path) -> None:
    def member(name: str) -> Consumer:
        options = ConsumerOptions(start_from="first", is_broadcasting=True, local_offset_dir=str(tmp_path / name))
        return Consumer(it.address, group="G", topic="T", options=options, client=named(name))

    async with cluster(tmp_path) as it:
        await fill(it, "T", 8)
        async with member("1") as one, member("2") as two:
            for consumer in (one, two):
                messages = await taken(consumer, 8)
                assert len({message.body for message in messages}) == 8
                for message in messages:
                    await message.ack()
        assert it.committed("G", "T") == {}
        await fill(it, "T", 1, first=8)
        async with member("1") as one:
            assert (await anext(one)).body == b"8"


@in_loop
async def test_broadcasting_has_no_retries(tmp_path: Path) -> None:
    options = ConsumerOptions(start_from="first", is_broadcasting=True, local_offset_dir=str(tmp_path / "offsets"))
    async with cluster(tmp_path) as it:
        await fill(it, "T", 2, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=options) as consumer:
            for _ in range(2):
                await (await anext(consumer)).retry()
            assert consumer._offsets is not None
            assert consumer._offsets.known(it.queue("T")) == 2
        assert it.state.store.queue("%RETRY%G", 0).max_offset == 0


# -- ordered -------------------------------------------------------------------------------------------------


@in_loop
async def test_ordered_messages_wait_for_each_other_also_when_one_fails(tmp_path: Path) -> None:
    options = ConsumerOptions(start_from="first", suspend_seconds=0.01)
    async with cluster(tmp_path) as it:
        await fill(it, "T", 20, queues=2)
        consumer = Consumer(it.address, group="G", topic="T", ordered=True, options=options)
        seen: dict[int, list[int]] = {0: [], 1: []}
        busy: set[int] = set()
        failed: set[bytes] = set()

        @consumer.on_message
        async def handle(message: ConsumedMessage) -> None:
            queue_id = message.queue.queue_id
            assert queue_id not in busy
            busy.add(queue_id)
            await asyncio.sleep(0)
            busy.discard(queue_id)
            if message.body in (b"4", b"7") and message.body not in failed:
                failed.add(message.body)
                raise ValueError("once more")
            assert message.reconsume_times == (message.body in failed)
            seen[queue_id].append(int(message.body))

        async with consumer:
            running = asyncio.ensure_future(consumer.run(concurrency=8))
            await eventually(lambda: len(seen[0]) + len(seen[1]) == 20)
            await settled(consumer)
        await running
        assert seen == {0: list(range(0, 20, 2)), 1: list(range(1, 20, 2))}
        assert it.committed("G", "T") == {0: 10, 1: 10}


@in_loop
async def test_an_ordered_queue_is_read_by_the_holder_of_its_lock_only(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 4, queues=2)
        first, second = (
            Consumer(it.address, group="G", topic="T", ordered=True, options=FROM_FIRST, client=named(name))
            for name in ("1", "2")
        )
        async with first:
            await eventually(lambda: queues_of(first) == {0, 1})
            async with second:
                await eventually(lambda: (queues_of(first), queues_of(second)) == ({0}, {1}))
                got = await anext(second)
                assert got.queue.queue_id == 1
                await got.ack()
            await eventually(lambda: queues_of(first) == {0, 1})
        assert it.committed("G", "T")[1] == 1
