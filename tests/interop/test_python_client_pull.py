"""Our lite pull and plain pull consumers with Apache's servers and ours; beside Java's of the same kinds."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from apogeemq.client import LitePullConsumer, Message, PullStatus, ReceivedMessage
from apogeemq.errors import OffsetIllegal
from apogeemq.runtime.clock import now_ms
from tests.interop.java_cluster import bodies, queue
from tests.interop.python_world import APACHES_4, World, also_with_4_9, messages, played, queued, texts, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


async def fill(world: World, topic: str, words: list[str], queues: int = 1) -> None:
    async with world.producer() as producer:
        sent = [
            await producer.send(message, queue=world.queue(topic, number % queues))
            for number, message in enumerate(messages(topic, words))
        ]
        await queued(producer, *sent)


async def polled(consumer: LitePullConsumer, count: int) -> list[str]:
    found: list[ReceivedMessage] = []
    while len(found) < count:
        found += await consumer.poll(timeout_seconds=30)
    return [message.body.decode() for message in found]


# -- lite pull -----------------------------------------------------------------------------------------------


@played
async def test_a_lite_pull_group_of_java_and_us(world: World) -> None:
    """They share the queues, and each goes on where the other has committed."""
    topic, group = await world.make_topic("lite", 4), world.name("mixed")
    await fill(world, topic, texts(20), 4)
    async with world.lite(group, topic, auto_commit_seconds=0.1) as ours:
        assert Counter(await polled(ours, 20)) == Counter(texts(20))
        await ours.commit()
        theirs = await world.do(world.java.lite, group, {topic: "*"})
        await until(lambda: len(ours.assignment) == 2, "we have given two queues up")

        async def has_the_others() -> bool:
            return len(await world.do(theirs.assigned, topic)) == 2

        await until(has_the_others, "Java has the others")
        await fill(world, topic, texts(20, "shared"), 4)
        mine = await polled(ours, 10)
        others = bodies(await world.do(theirs.call, "poll", count=10, timeoutMs=30_000))
        assert Counter(mine + others) == Counter(texts(20, "shared"))
        owned = await world.do(theirs.assigned, topic)
        await world.do(theirs.call, "commit", queues=[queue(topic, queue_id) for queue_id in owned])
        await world.do(theirs.stop)
        await until(lambda: len(ours.assignment) == 4, "we have all of them again")
        await fill(world, topic, texts(8, "alone"), 4)
        assert Counter(await polled(ours, 8)) == Counter(texts(8, "alone"))


@also_with_4_9
@played
async def test_assign_seek_pause_and_commit(world: World) -> None:
    topic, group = await world.make_topic("assigned", 2), world.name("readers")
    await fill(world, topic, texts(10), 2)
    first, second = world.queue(topic, 0), world.queue(topic, 1)
    async with world.lite(group, auto_commit=False) as ours:
        await ours.assign([first])
        assert await polled(ours, 5) == [f"message {number}" for number in (0, 2, 4, 6, 8)]
        await ours.seek(first, 3)
        assert await polled(ours, 2) == ["message 6", "message 8"]
        await ours.seek_to_beginning(first)
        assert (await polled(ours, 5))[0] == "message 0"
        with pytest.raises(OffsetIllegal):
            await ours.seek(first, 6)
        await ours.assign([first, second])
        assert await polled(ours, 5) == [f"message {number}" for number in (1, 3, 5, 7, 9)]
        ours.pause(second)
        await fill(world, topic, ["to the first", "to the second"], 2)
        assert await polled(ours, 1) == ["to the first"]
        ours.resume(second)
        assert await polled(ours, 1) == ["to the second"]
        # Brokers of the 4.9 line cannot be asked not to make a 0 of nothing.
        assert await ours.committed(first) == (0 if world.kind == APACHES_4 else None)
        await ours.commit()
        assert (await ours.committed(first), await ours.committed(second)) == (6, 6)
        await ours.seek_to_end(second)
        await fill(world, topic, ["-", "the end"], 2)
        assert sorted(await polled(ours, 2)) == ["-", "the end"]
    if world.kind == APACHES_4:
        return  # which Java's lite pull consumer of 5.5 cannot read from
    theirs = await world.do(world.java.lite, group, None, [queue(topic, 0), queue(topic, 1)])
    found = bodies(await world.do(theirs.call, "poll", count=2, timeoutMs=30_000))
    assert sorted(found) == ["-", "the end"]


@played
async def test_a_group_without_offsets_begins_where_it_is_told(world: World) -> None:
    """A lite pull consumer that seeks to a time."""
    topic = await world.make_topic("times", 1)
    await fill(world, topic, ["old"])
    sent_ms = now_ms()
    await until(lambda: now_ms() > sent_ms + 1, "the clock has moved")
    between = now_ms()
    await fill(world, topic, ["new"])
    async with world.lite(world.name("readers")) as ours:
        await ours.assign([world.queue(topic)])
        await ours.seek_to_time(between)
        assert await polled(ours, 1) == ["new"]
        await ours.seek_to_time(0)
        assert await polled(ours, 2) == ["old", "new"]


# -- plain pull ----------------------------------------------------------------------------------------------


@played
async def test_pulls_are_answered_as_javas(world: World) -> None:
    """Status, offsets and messages of each pull are those Java's consumer has."""
    topic = await world.make_topic("pulled", 1)
    async with world.producer() as producer:
        for number in range(6):
            await queued(producer, await producer.send(Message(topic, b"%d" % number, tags="AB"[number % 2])))
    theirs = await world.do(world.java.pull, world.name("java-pullers"))
    asked = [(0, "*"), (2, "A"), (4, "A || B"), (5, "A"), (6, "*"), (7, "*"), (100, "*"), (0, "C")]
    async with world.puller() as ours:
        for offset, tags in asked:
            mine = await ours.pull(world.queue(topic), offset, tags=tags)
            other = await world.do(theirs.call, "pullFrom", queue=queue(topic), offset=offset, expression=tags)
            assert (mine.status.name, mine.next_offset, mine.min_offset, mine.max_offset) == (
                other["status"],
                other["next"],
                other["min"],
                other["max"],
            ), (offset, tags)
            assert [message.body.decode() for message in mine.messages] == bodies(other["messages"])
        assert (await ours.pull(world.queue(topic), 7)).status is PullStatus.OFFSET_ILLEGAL


@played
async def test_a_pull_waits_for_a_message(world: World) -> None:
    topic = await world.make_topic("awaited", 1)
    async with world.puller() as ours, world.producer() as producer:
        await queued(producer, await producer.send(topic, b"first"))

        async def pulled() -> None:
            result = await ours.pull(world.queue(topic), 1, wait_seconds=30)
            assert [message.body for message in result.messages] == [b"second"]

        pulling = asyncio.ensure_future(pulled())
        await asyncio.sleep(0)
        await producer.send(topic, b"second")
        await pulling


@played
async def test_offsets_and_messages_sent_back(world: World) -> None:
    """Offsets we keep are Java's too; what we send back comes again to the group's consumers."""
    topic, group = await world.make_topic("kept", 1), world.name("group")
    async with world.producer() as producer, world.puller(group) as ours:
        await queued(producer, await producer.send(topic, b"returned"), await producer.send(topic, b"left"))
        result = await ours.pull(world.queue(topic), 0)
        await ours.update_consume_offset(world.queue(topic), 1)
        assert await ours.fetch_consume_offset(world.queue(topic)) == 1
        theirs = await world.do(world.java.pull, group)
        assert await world.do(theirs.call, "committed", queue=queue(topic)) == 1
        await world.do(theirs.stop)
        await ours.send_back(result.messages[0])
    reader = await world.java_reader(group, topic, refuse="nothing")
    assert sorted(bodies(await world.do(reader.received, 2))) == ["left", "returned"]
