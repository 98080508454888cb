"""Topics, offsets and stored messages, asked for by our client: of Apache's servers and of ours."""

from __future__ import annotations

from functools import partial

import pytest

from apogeemq.client import MessageQueue, Producer
from apogeemq.errors import NoRoute, RouteCause
from tests.interop.java_cluster import BROKER, CLUSTER
from tests.interop.python_world import World, played, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


async def has_queues(producer: Producer, topic: str, count: int) -> bool:
    try:
        return len(await producer.subscribe_queues(topic)) == count
    except NoRoute:
        return False


@played
async def test_a_topic_is_made_changed_and_seen_by_mqadmin(world: World) -> None:
    topic = world.name("made")
    async with world.producer() as producer:
        for queues in (3, 5):
            await producer.create_topic(topic, queues)
            await until(partial(has_queues, producer, topic, queues), f"{queues} queues")
        expected = tuple(MessageQueue(BROKER, queue_id, topic) for queue_id in range(5))
        assert await producer.publish_queues(topic) == await producer.subscribe_queues(topic) == expected
        by_cluster = world.name("by-cluster")
        await producer.create_topic(by_cluster, 2, like=CLUSTER, attributes={"message.type": "FIFO"})
        await until(lambda: has_queues(producer, by_cluster, 2), "the other topic")
    assert '"writeQueueNums":5' in "".join((await world.ask(f"topicRoute -t {topic}")).split())


@played
async def test_offsets_by_time(world: World) -> None:
    topic = await world.make_topic("times", 1)
    queue = world.queue(topic)
    async with world.producer() as producer:
        assert (await producer.min_offset(queue), await producer.max_offset(queue)) == (0, 0)
        results = [await producer.send(topic, b"%d" % number) for number in range(5)]
        assert (await producer.min_offset(queue), await producer.max_offset(queue)) == (0, 5)
        times = []
        for result in results:
            seen = await producer.view_message(topic, result.offset_id)
            assert seen is not None
            times.append(seen.store_time_ms)
        assert await producer.earliest_message_time(queue) <= times[0]  # Apache's is that of the whole log
        for time_ms in times:
            assert await producer.search_offset(queue, time_ms) == times.index(time_ms)
            last = len(times) - 1 - times[::-1].index(time_ms)
            assert await producer.search_offset(queue, time_ms, is_upper=True) == last
        assert await producer.search_offset(queue, times[0] - 60_000) == 0
        assert await producer.search_offset(queue, times[-1] + 60_000) == 5


@played
async def test_messages_by_id_and_by_key(world: World) -> None:
    topic = await world.make_topic("keys", 2)
    async with world.producer() as producer:
        results = [await producer.send(topic, b"%d" % number, keys=["all", f"k{number}"]) for number in range(6)]

        async def all_are_found() -> bool:
            return len(await producer.query_messages(topic, "all")) == 6

        await until(all_are_found, "all are in the index")
        found = await producer.query_messages(topic, "all")
        assert sorted(message.body for message in found) == [b"%d" % number for number in range(6)]
        assert len(await producer.query_messages(topic, "all", max_count=4)) == 4
        (one,) = await producer.query_messages(topic, "k3")
        assert (one.message_id, one.offset_id) == (results[3].message_id, results[3].offset_id)
        assert await producer.query_messages(topic, "unknown") == []
        assert await producer.query_messages(topic, "all", end_ms=found[0].store_time_ms - 60_000) == []
        for message_id in (results[2].message_id, results[2].offset_id):
            seen = await producer.view_message(topic, message_id)
            assert seen is not None
            assert (seen.body, seen.queue, seen.queue_offset) == (b"2", results[2].queue, results[2].queue_offset)
        assert await producer.view_message(topic, "7F" * 16) is None


@played
async def test_what_a_java_producer_sent_is_found(world: World) -> None:
    topic = await world.make_topic("javas", 1)
    java = await world.java_producer()
    (sent,) = await world.do(java.send, topic, {"body": "from Java", "keys": "j"})
    async with world.producer() as producer:

        async def is_found() -> bool:
            return bool(await producer.query_messages(topic, "j"))

        await until(is_found, "it is in the index")
        for message_id in (sent["msgId"], sent["offsetMsgId"]):
            seen = await producer.view_message(topic, message_id)
            assert seen is not None and seen.body == b"from Java"


@played
async def test_within_a_namespace(world: World) -> None:
    topic = world.name("tenants")
    async with world.producer(client={"namespace": "NS"}) as producer, world.producer() as outside:
        await producer.create_topic(topic, 1)
        await until(lambda: has_queues(producer, topic, 1), "the topic")
        assert await has_queues(outside, f"NS%{topic}", 1)
        result = await producer.send(topic, b"x", keys=["k"])
        assert result.queue == MessageQueue(BROKER, 0, topic)
        assert await producer.max_offset(result.queue) == 1

        async def is_found() -> bool:
            return bool(await producer.query_messages(topic, "k"))

        await until(is_found, "it is in the index")
        for seen in (
            *await producer.query_messages(topic, "k"),
            await producer.view_message(topic, result.message_id),
            await producer.view_message(topic, result.offset_id),
        ):
            assert seen is not None and (seen.topic, seen.queue) == (topic, result.queue)


@played
async def test_topics_that_are_not_there(world: World) -> None:
    topic = world.name("never-made")
    async with world.producer() as producer:
        for ask in (
            producer.publish_queues(topic),
            producer.subscribe_queues(topic),
            producer.view_message(topic, "x"),
        ):
            with pytest.raises(NoRoute, match="made by the first message") as caught:
                await ask
            assert caught.value.cause is RouteCause.NOT_YET
