"""What our clients may ask of topics, offsets and messages is answered as it is to Java's client."""

from __future__ import annotations

from typing import Any

import pytest

from apogeemq.client import Message, MessageQueue, ReceivedMessage
from tests.interop.java_cluster import queue
from tests.interop.python_world import World, also_with_4_9, played, queued, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


def described(message: ReceivedMessage) -> dict[str, Any]:
    return {
        "body": message.body.decode(),
        "topic": message.topic,
        "tags": message.tags,
        "keys": " ".join(message.keys),
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "msgId": message.message_id,
        "born": message.born_time_ms,
        "stored": message.store_time_ms,
        "reconsumeTimes": message.reconsume_times,
    }


def as_javas(mine: ReceivedMessage, theirs: dict[str, Any]) -> bool:
    form = described(mine)
    return form == {name: theirs[name] for name in form}


@also_with_4_9
@played
async def test_a_topic_is_made(world: World) -> None:
    topic = world.name("made")
    java = await world.java_producer()
    async with world.producer() as producer:
        await producer.create_topic(topic, 3)
        await world.do(world.cluster.wait_for_route, topic)
        expected = [MessageQueue("broker-a", queue_id, topic) for queue_id in range(3)]
        assert list(await producer.publish_queues(topic)) == list(await producer.subscribe_queues(topic)) == expected
        assert await world.do(java.call, "queues", topic=topic) == [[topic, "broker-a", n] for n in range(3)]
        result = await producer.send(topic, b"to the new topic")
        assert result.queue.topic == topic


@played
async def test_offsets(world: World) -> None:
    topic = await world.make_topic("offsets", 1)
    java = await world.java_producer()
    async with world.producer() as producer:
        await queued(producer, await producer.send(topic, b"first"), await producer.send(topic, b"second"))
        where = world.queue(topic)
        earliest = await producer.earliest_message_time(where)
        for time in (0, earliest, earliest + 1, earliest + 100_000):
            theirs = await world.do(java.call, "offsets", queue=queue(topic), time=time)
            assert theirs == {
                "min": await producer.min_offset(where),
                "max": await producer.max_offset(where),
                "earliest": earliest,
                "search": await producer.search_offset(where, time),
            }
        assert await producer.max_offset(where) == 2


@also_with_4_9
@played
async def test_messages_by_id_and_key(world: World) -> None:
    topic = await world.make_topic("asked", 2)
    java = await world.java_producer()
    async with world.producer() as producer:
        results = [
            await producer.send(Message(topic, b"%d" % number, tags="T", keys=["all", f"k{number}"]))
            for number in range(5)
        ]

        async def are_indexed() -> bool:
            return len(await producer.query_messages(topic, "all")) == 5

        await until(are_indexed, "the index follows the log")
        for result in results[:2]:
            for message_id in (result.offset_id, result.message_id):
                mine = await producer.view_message(topic, message_id)
                theirs = await world.do(java.call, "view", topic=topic, message=message_id)
                assert mine is not None and as_javas(mine, theirs), (mine and described(mine), theirs)
        assert await producer.view_message(topic, results[0].message_id[:-4] + "FFFF") is None
        for key, count in (("all", 5), ("k3", 1), ("all", 2)):
            mine_found = await producer.query_messages(topic, key, max_count=count)
            args = {"topic": topic, "key": key, "max": count, "begin": 0, "end": 2**62}
            theirs_found = await world.do(java.call, "query", **args)
            assert len(mine_found) == count
            by_id = {form["msgId"]: form for form in theirs_found}
            assert all(as_javas(message, by_id[message.message_id]) for message in mine_found)
        assert await producer.query_messages(topic, "no such key") == []
