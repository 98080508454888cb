"""Our push consumers, with Apache's servers and ours: what Java's producers sent comes, as it was sent."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from apogeemq.client import Message
from apogeemq.runtime.clock import now_ms
from tests.interop.java_cluster import queue
from tests.interop.python_world import APACHES_4, Inbox, World, also_with_4_9, messages, played, reading, texts, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

UNICODE = "Ærø 漢字 😀"


async def begun(inbox: Inbox, topic: str, queues: int = 1) -> None:
    await until(lambda: len(inbox.assigned(topic)) == queues, f"it reads {queues} queues of {topic}")


# -- what comes ----------------------------------------------------------------------------------------------


@played
async def test_a_message_of_java_with_everything(world: World) -> None:
    topic = await world.make_topic("everything", 1)
    java = await world.java_producer()
    form = {"body": UNICODE, "tags": "paid", "keys": "k1 k2", "flag": 7, "properties": {"shop": UNICODE}}
    (sent,) = await world.do(java.send, topic, form)
    async with reading(world.consumer(world.name("readers"), topic)) as inbox:
        (message,) = await inbox.has(1)
    assert (message.body.decode(), message.tags, message.keys) == (UNICODE, "paid", ["k1", "k2"])
    assert (message.flag, message.properties["shop"], message.topic) == (7, UNICODE, topic)
    assert (message.message_id, message.offset_id) == (sent["msgId"], sent["offsetMsgId"])
    assert (message.queue.queue_id, message.queue_offset, message.reconsume_times) == (0, sent["offset"], 0)


@also_with_4_9
@played
async def test_batches_and_packed_bodies_of_java(world: World) -> None:
    """All three ways Java packs bodies; ours is told by the message which it was."""
    topic = await world.make_topic("packed", 4)
    plain = await world.java_producer()
    await world.do(plain.send, topic, *texts(30, "batch"), how="batch")
    for compression in ("ZLIB", "LZ4", "ZSTD"):
        java = await world.java_producer(compressType=compression, compressMsgBodyOverHowmuch=100)
        await world.do(java.send, topic, {"body": compression + UNICODE, "times": 500})
    async with reading(world.consumer(world.name("readers"), topic)) as inbox:
        found = await inbox.has(33)
    long = [(name + UNICODE).encode() * 500 for name in ("ZLIB", "LZ4", "ZSTD")]
    assert Counter(message.body for message in found) == Counter(
        [*(text.encode() for text in texts(30, "batch")), *long]
    )
    batch = [message for message in found if message.body.startswith(b"batch")]
    assert [message.body.decode() for message in sorted(batch, key=lambda m: m.queue_offset)] == texts(30, "batch")
    if world.kind != APACHES_4:  # there, Java's name of the batch has become that of each message
        assert len({message.message_id for message in batch}) == 30


@played
async def test_tags(world: World) -> None:
    """`Aa` and `BB` have one hash: brokers let both through, and the consumer tells them apart."""
    topic = await world.make_topic("tagged", 2)
    async with world.producer() as producer:
        for tags in ("Aa", "BB", "C", ""):
            for number in range(5):
                await producer.send(topic, f"{tags} {number}".encode(), tags=tags)
    expected = {"Aa": ["Aa"], "Aa || C": ["Aa", "C"], "*": ["Aa", "BB", "C", ""]}
    for expression, wanted in expected.items():
        async with reading(world.consumer(world.name("readers"), topic, tags=expression)) as inbox:
            await inbox.has(5 * len(wanted))
        assert Counter(inbox.bodies) == Counter(f"{tags} {number}" for tags in wanted for number in range(5))


@also_with_4_9
@played
async def test_broadcasting(world: World, tmp_path: Path) -> None:
    topic, group = await world.make_topic("broadcast", 4), world.name("everybody")
    options: dict[str, Any] = {"is_broadcasting": True, "local_offset_dir": str(tmp_path)}
    mine = world.consumer(group, topic, **options, client={"instance_name": "one"})
    other = world.consumer(group, topic, **options, client={"instance_name": "two"})
    theirs = await world.java_reader(group, topic, settings={"messageModel": "BROADCASTING"})
    async with reading(mine) as one, reading(other) as two, world.producer() as producer:
        await begun(one, topic, 4)
        await begun(two, topic, 4)
        for message in messages(topic, texts(40)):
            await producer.send(message)
        for inbox in (one, two):
            await inbox.has(40)
            assert Counter(inbox.bodies) == Counter(texts(40))
        found = await world.do(theirs.received, 40)
        assert Counter(message["body"] for message in found) == Counter(texts(40))
        await mine.stop()
        for message in messages(topic, texts(8, "meanwhile")):
            await producer.send(message)
        again = world.consumer(group, topic, **options, client={"instance_name": "one"})
        async with reading(again) as one_again:
            await one_again.has(8)
            assert Counter(one_again.bodies) == Counter(texts(8, "meanwhile"))


@played
async def test_a_consumer_of_a_namespace(world: World) -> None:
    topic = await world.make_topic("tenant%shop", 1)
    namespace, _, name = topic.partition("%")
    java = await world.java_producer(namespace=namespace)
    await world.do(java.send, name, "of the tenant")
    consumer = world.consumer(world.name("readers"), name, client={"namespace": namespace})
    async with reading(consumer) as inbox:
        (message,) = await inbox.has(1)
    assert (message.topic, message.body) == (name, b"of the tenant")


@played
async def test_many_messages_come_while_they_are_sent(world: World) -> None:
    topic, group = await world.make_topic("many", 4), world.name("readers")
    async with reading(world.consumer(group, topic)) as inbox, world.producer(linger_seconds=0.002) as producer:
        await begun(inbox, topic, 4)
        for message in messages(topic, texts(5_000)):
            await producer.send_soon(message)
        await inbox.has(5_000)
    assert Counter(inbox.bodies) == Counter(texts(5_000))


# -- where a group begins, and goes on -----------------------------------------------------------------------


@pytest.mark.parametrize("start", ["first", "last", 4_000_000_000_000])
@played
async def test_new_groups_begin_at_the_first_message_of_a_young_queue(world: World, start: str | int) -> None:
    """It never lost a message and is in memory: brokers let every new group begin there, as Java's."""
    topic = await world.make_topic("beginning", 1)
    async with world.producer() as producer:
        await producer.send(topic, b"first")
        async with reading(world.consumer(world.name("readers"), topic, start_from=start)) as inbox:
            await inbox.has(1)


@pytest.mark.parametrize("world", [APACHES_4], indirect=True)
@played
async def test_new_groups_begin_where_they_are_told_in_an_old_queue(world: World) -> None:
    """Brokers of the 4.9 line can be told that nothing is in memory."""
    topic = await world.make_topic("old", 1)
    command = f"updateBrokerConfig -b {world.cluster.broker.address} -k accessMessageInMemoryMaxRatio -v"
    assert "success" in await world.ask(f"{command} 0")
    try:
        async with world.producer() as producer:
            await producer.send(topic, b"first")
            sent_ms = now_ms()
            await until(lambda: now_ms() > sent_ms + 1, "the clock has moved")
            between = now_ms()
            await producer.send(topic, b"second")
            for start, expected in (("first", ["first", "second"]), (between, ["second"])):
                async with reading(world.consumer(world.name("readers"), topic, start_from=start)) as inbox:
                    await inbox.has(len(expected))
                    assert inbox.bodies == expected
            async with reading(world.consumer(world.name("readers"), topic, start_from="last")) as inbox:
                await begun(inbox, topic)
                await producer.send(topic, b"third")
                await inbox.has(1)
                assert inbox.bodies == ["third"]
    finally:
        assert "success" in await world.ask(f"{command} 40")


@also_with_4_9
@played
async def test_offsets_outlive_consumers(world: World) -> None:
    """What was acknowledged does not come again, to us or to Java; what was not comes."""
    topic, group = await world.make_topic("offsets", 2), world.name("readers")
    async with world.producer() as producer:
        for number, body in enumerate(texts(20)):
            await producer.send(topic, body.encode(), queue=world.queue(topic, number % 2))
        async with world.consumer(group, topic) as consumer:
            taken = [await anext(consumer) for _ in range(20)]
            for message in taken:
                if message.body != b"message 12":
                    await message.ack()
        async with reading(world.consumer(group, topic)) as inbox:
            await inbox.has(4)
        assert inbox.bodies == ["message 12", "message 14", "message 16", "message 18"]
        await producer.send(topic, b"one more", queue=world.queue(topic, 1))
        theirs = await world.java_reader(group, topic)
        assert [message["body"] for message in await world.do(theirs.received, 1)] == ["one more"]
        await world.settled(topic, group, theirs)
        await world.do(theirs.stop)
        await producer.send(topic, b"and one", queue=world.queue(topic, 1))
        async with reading(world.consumer(group, topic)) as inbox:
            await inbox.has(1)
        assert inbox.bodies == ["and one"]


# -- failures ------------------------------------------------------------------------------------------------


@also_with_4_9
@played
async def test_what_fails_comes_again_and_ends_in_the_dead_letter_queue(world: World) -> None:
    topic, group = await world.make_topic("refused", 1), world.name("readers")
    async with world.producer() as producer:
        sent = await producer.send(topic, b"bad", tags="T", keys=["k"])
        await producer.send(topic, b"good")
    async with reading(world.consumer(group, topic, max_retries=2)) as inbox:
        inbox.refuses = lambda message: message.body == b"bad"
        await until(lambda: inbox.bodies.count("bad") == 3, "it came three times")
        bad = [message for message in inbox.messages if message.body == b"bad"]
        assert [message.reconsume_times for message in bad] == [0, 1, 2]
        assert {(message.topic, message.tags, *message.keys) for message in bad} == {(topic, "T", "k")}
        assert {message.message_id for message in bad} == {sent.message_id}
        assert inbox.bodies.count("good") == 1
        letter = await dead_letter(world, group)
    assert (letter["body"], letter["msgId"], letter["reconsumeTimes"]) == ("bad", sent.message_id, 3)
    assert letter["properties"]["RETRY_TOPIC"] == topic


@played
async def test_a_dead_letter_at_once(world: World) -> None:
    topic, group = await world.make_topic("hopeless", 1), world.name("readers")
    async with world.producer() as producer, world.consumer(group, topic) as consumer:
        await producer.send(topic, b"hopeless")
        await (await anext(consumer)).retry(delay_level=-1)
        letter = await dead_letter(world, group)
    assert (letter["body"], letter["properties"]["RETRY_TOPIC"]) == ("hopeless", topic)


async def dead_letter(world: World, group: str) -> dict[str, Any]:
    """The one in the dead letter queue of a group, as Java reads it."""
    topic = f"%DLQ%{group}"

    async def exists() -> bool:
        return topic in (await world.ask("topicList")).split()

    async def is_filled() -> bool:
        return len(await world.do(reader.call, "drain", topic=topic)) == 1

    await until(exists, "there is a dead letter topic")
    reader = await world.do(world.java.pull, world.name("inspectors"))
    await until(is_filled, "the dead letter is there")
    answer = await world.do(reader.call, "pullFrom", queue=queue(topic), offset=0, expression="*")
    (letter,) = answer["messages"]
    found: dict[str, Any] = letter
    return found


@also_with_4_9
@played
async def test_ordered_messages(world: World) -> None:
    """One queue: each waits for the one before, and one that fails is tried again in its place."""
    topic = await world.make_topic("ordered", 1)
    async with world.producer() as producer:
        await producer.send_batch([Message(topic, body.encode()) for body in ("a", "refused", "b")])
    failures = 2

    def refuses(message: object) -> bool:
        return inbox.bodies[-1] == "refused" and inbox.bodies.count("refused") <= failures

    async with reading(world.consumer(world.name("readers"), topic, ordered=True)) as inbox:
        inbox.refuses = refuses
        await inbox.has(3)
    assert inbox.bodies == ["a", "refused", "refused", "refused", "b"]


@played
async def test_an_ordered_message_that_fails_too_often_is_a_dead_letter(world: World) -> None:
    """It holds its queue up until then."""
    topic, group = await world.make_topic("obstinate", 1), world.name("readers")
    async with world.producer() as producer:
        for body in ("a", "bad", "b"):
            await producer.send(topic, body.encode())
    consumer = world.consumer(group, topic, ordered=True, max_retries=2, suspend_seconds=0.05)
    async with reading(consumer) as inbox:
        inbox.refuses = lambda message: message.body == b"bad"
        await inbox.has(3)
        assert inbox.bodies == ["a", "bad", "bad", "bad", "b"]
        letter = await dead_letter(world, group)
    assert (letter["body"], letter["properties"]["RETRY_TOPIC"]) == ("bad", topic)
