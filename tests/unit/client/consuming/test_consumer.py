"""A consumer with brokers of ours: what comes, from where, and what becomes of failures."""

from __future__ import annotations

import asyncio
from pathlib import Path

from apogeemq.client import ConsumedMessage, Consumer, ConsumerOptions, Producer
from tests.unit.client.cluster import FROM_FIRST, cluster, eventually, named
from tests.unit.client.consuming.programs import fill, settled, taken
from tests.unit.event_loop import in_loop

# -- one consumer --------------------------------------------------------------------------------------------


@in_loop
async def test_messages_come_and_what_was_acknowledged_does_not_come_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 20)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            for message in await taken(consumer, 20):
                assert (message.topic, message.reconsume_times) == ("T", 0)
                await message.ack()
        assert it.committed("G", "T") == {0: 5, 1: 5, 2: 5, 3: 5}
        await fill(it, "T", 4, first=20)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            assert sorted(message.body for message in await taken(consumer, 4)) == [b"20", b"21", b"22", b"23"]


@in_loop
async def test_a_consumer_may_be_there_before_its_topic(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        async with (
            Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer,
            Producer(it.address, group="P") as producer,
        ):
            await producer.send("T", b"the first of all")
            message = await anext(consumer)
            assert message.body == b"the first of all"
            await message.ack()
        assert sum(it.committed("G", "T").values()) == 1


@in_loop
async def test_stop_keeps_offsets_only_up_to_what_is_unfinished(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 6, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            messages = await taken(consumer, 6)
            for message in (*messages[:2], *messages[3:]):
                await message.ack()
        assert it.committed("G", "T") == {0: 2}
        async with Consumer(it.address, group="G", topic="T") as consumer:
            assert (await anext(consumer)).body == b"2"


@in_loop
async def test_a_new_group_begins_where_it_is_told(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 40, queues=1)
        it.state.offsets.commit("LAST", "T", 0, 40)  # what a broker answers of an old queue
        async with Consumer(it.address, group="LAST", topic="T") as last:
            await settled(last)
            await fill(it, "T", 1, queues=1, first=40)
            assert (await anext(last)).body == b"40"
        options = ConsumerOptions(start_from=it.state.now_ms() + 3_600_000)
        async with Consumer(it.address, group="FIRST", topic="T", options=FROM_FIRST) as first:
            assert (await anext(first)).body == b"0"
        async with Consumer(it.address, group="TIME", topic="T", options=options) as timed:
            await settled(timed)
            await fill(it, "T", 1, queues=1, first=41)
            assert (await anext(timed)).body in (b"0", b"40", b"41")  # the broker has the last word on young queues


@in_loop
async def test_tags(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        for number, tags in enumerate(("paid", "new", "shipped", "", "new")):
            await fill(it, "T", 1, queues=1, first=number, tags=tags)
        async with Consumer(it.address, group="G", topic="T", tags="paid || shipped", options=FROM_FIRST) as consumer:
            messages = await taken(consumer, 2)
            assert [message.tags for message in messages] == ["paid", "shipped"]
            for message in messages:
                await message.ack()
        assert it.committed("G", "T") == {0: 3}


@in_loop
async def test_several_topics(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        for topic in ("T", "U"):
            await fill(it, topic, 2, queues=1, tags=topic.lower())
        wanted = {"T": "t", "U": "*"}
        async with Consumer(it.address, group="G", subscriptions=wanted, options=FROM_FIRST) as consumer:
            assert sorted(message.topic for message in await taken(consumer, 4)) == ["T", "T", "U", "U"]


@in_loop
async def test_pulling_pauses_when_too_much_is_unfinished(tmp_path: Path) -> None:
    options = ConsumerOptions(start_from="first", pull_batch=2, max_cached_per_queue=4)
    async with cluster(tmp_path) as it:
        await fill(it, "T", 20, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=options) as consumer:
            messages = await taken(consumer, 4)
            assert consumer._membership is not None
            (reader,) = [reader for queue, reader in consumer._membership.readers.items() if queue.topic == "T"]
            waiting = asyncio.ensure_future(anext(consumer))
            await eventually(lambda: reader.progress.is_waited_for)
            assert (len(reader.process), waiting.done()) == (4, False)
            await messages[0].ack()
            assert (await waiting).body == b"4"
            for message in messages[1:]:
                await message.ack()
            assert [message.body for message in await taken(consumer, 2)] == [b"5", b"6"]


@in_loop
async def test_an_offset_that_is_not_there(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 3, queues=1)
        it.state.offsets.commit("G", "T", 0, 1000)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            await settled(consumer)
            await eventually(lambda: consumer._offsets is not None and 0 <= consumer._offsets.known(it.queue("T")) <= 3)
            await fill(it, "T", 1, queues=1, first=3)
            assert (await anext(consumer)).body in (b"0", b"3")


@in_loop
async def test_namespaces(tmp_path: Path) -> None:
    client = named("c", namespace="NS")
    async with cluster(tmp_path) as it, Producer(it.address, group="P", client=client) as producer:
        await producer.send("T", b"x")
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST, client=client) as consumer:
            message = await anext(consumer)
            assert (message.topic, consumer.group) == ("T", "NS%G")
            await message.ack()
        assert sum(it.committed("NS%G", "NS%T").values()) == 1


# -- failures of the program ---------------------------------------------------------------------------------


@in_loop
async def test_a_message_that_failed_comes_again(tmp_path: Path) -> None:
    async with cluster(tmp_path, messageDelayLevel="1s 1s 1s") as it:
        await fill(it, "T", 1, queues=1, tags="paid", keys=["42"])
        async with Consumer(it.address, group="G", topic="T", tags="paid", options=FROM_FIRST) as consumer:
            first = await anext(consumer)
            await first.retry(1)
            again = await anext(consumer)
            assert (again.body, again.topic, again.tags, again.keys) == (b"0", "T", "paid", ["42"])
            assert (again.reconsume_times, again.queue.topic) == (1, "%RETRY%G")
            assert again.message_id == first.message_id
            await again.retry(2)
            third = await anext(consumer)
            assert third.reconsume_times == 2
            await third.ack()
        assert it.committed("G", "T") == {0: 1}
        assert it.committed("G", "%RETRY%G") == {0: 2}


@in_loop
async def test_a_handler_that_raises(tmp_path: Path) -> None:
    async with cluster(tmp_path, messageDelayLevel="1s 1s 1s") as it:
        await fill(it, "T", 3, queues=1)
        consumer = Consumer(it.address, group="G", topic="T", options=FROM_FIRST)
        seen: list[tuple[bytes, int]] = []

        @consumer.on_message
        async def handle(message: ConsumedMessage) -> None:
            seen.append((message.body, message.reconsume_times))
            if message.body == b"1" and not message.reconsume_times:
                raise ValueError("not now")

        async with consumer:
            running = asyncio.ensure_future(consumer.run())
            await eventually(lambda: len(seen) == 4)
        await running
        assert sorted(seen) == [(b"0", 0), (b"1", 0), (b"1", 1), (b"2", 0)]


@in_loop
async def test_after_so_many_times_it_is_a_dead_letter(tmp_path: Path) -> None:
    options = ConsumerOptions(start_from="first", max_retries=1)
    async with cluster(tmp_path, messageDelayLevel="1s 1s 1s") as it:
        await fill(it, "T", 1, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=options) as consumer:
            for _ in range(2):
                await (await anext(consumer)).retry()
            await eventually(lambda: it.state.topics.get("%DLQ%G") is not None)
            await eventually(lambda: it.state.store.queue("%DLQ%G", 0).max_offset == 1)
