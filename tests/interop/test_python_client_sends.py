"""What our producer sends, Apache's Java client reads: from Apache's servers and from ours."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter

import pytest

from apogeemq.client import Message, SendStatus
from apogeemq.errors import MessageIllegal, NoRoute, RemoteRefused
from apogeemq.model.flags import COMPRESSED
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.compression import FLAGS, LZ4, ZLIB, ZSTD
from tests.interop.java_cluster import bodies
from tests.interop.python_world import World, also_with_4_9, messages, played, texts

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

MIB = 1024 * 1024
WAYS = {"awaited": 50, "soon": 200, "batched": 200, "one way": 20, "batch": 30}
UNICODE = "Ærø 漢字 😀"


def described(body: bytes) -> str:
    """As the Java program tells of a long body."""
    return f"{len(body)} bytes, sha1 {hashlib.sha1(body).hexdigest()}"


@also_with_4_9
@played
async def test_a_message_with_everything(world: World) -> None:
    topic = await world.make_topic("everything", 2)
    async with world.producer() as producer:
        message = Message(topic, UNICODE.encode(), tags="paid", keys=["k1", "k2"], properties={"shop": UNICODE}, flag=7)
        result = await producer.send(message, queue=world.queue(topic, 1))
    assert result.status is SendStatus.SEND_OK
    (found,) = await world.java_sees(topic, 1)
    assert (found["body"], found["tags"], found["keys"], found["flag"]) == (UNICODE, "paid", "k1 k2", 7)
    assert found["properties"]["shop"] == UNICODE
    assert (found["queue"], found["offset"]) == (1, 0) == (result.queue.queue_id, result.queue_offset)
    assert (found["msgId"], found["offsetMsgId"]) == (result.message_id, result.offset_id)
    assert found["sysFlag"] == 0


@also_with_4_9
@played
async def test_all_ways_to_send(world: World) -> None:
    topic = await world.make_topic("ways")
    async with world.producer() as producer, world.producer(linger_seconds=0.005) as batching:
        await asyncio.gather(*(producer.send(topic, body.encode()) for body in texts(50, "awaited")))
        soon = [await producer.send_soon(message) for message in messages(topic, texts(200, "soon"))]
        batched = [await batching.send_soon(message) for message in messages(topic, texts(200, "batched"), tags="B")]
        for message in messages(topic, texts(20, "one way")):
            await producer.send_one_way(message)
        batch = await producer.send_batch(messages(topic, texts(30, "batch")), queue=world.queue(topic, 3))
        results = await asyncio.gather(*soon, *batched)
    found = await world.java_sees(topic, 500)
    assert Counter(bodies(found)) == Counter([text for word, count in WAYS.items() for text in texts(count, word)])
    by_id = {message["msgId"]: message for message in found}
    assert len(by_id) == 500
    for result in results:
        stored = by_id[result.message_id]
        assert (stored["queue"], stored["offset"]) == (result.queue.queue_id, result.queue_offset)
    assert {message["tags"] for message in found if message["body"].startswith("batched")} == {"B"}
    in_batch = sorted((one for one in found if one["body"].startswith("batch ")), key=lambda one: int(one["offset"]))
    assert bodies(in_batch) == texts(30, "batch")
    assert [message["msgId"] for message in in_batch] == batch.message_id.split(",")


@played
async def test_a_sharding_key_chooses_the_queue_that_javas_selector_chooses(world: World) -> None:
    topic = await world.make_topic("sharded", 7)
    keys = [f"order-{number}" for number in range(20)] + [UNICODE, "polygenelubricants"]  # the last: hash -2**31
    java = await world.java_producer()
    forms = [{"body": f"java {key}", "key": key} for key in keys]
    theirs = await world.do(java.send, topic, *forms, how="hash")
    async with world.producer() as producer:
        ours = [await producer.send(topic, key.encode(), sharding_key=key) for key in keys]
        chosen = await producer.send(topic, b"chosen", queue=lambda queues, message: queues[len(message.body)])
    assert [result.queue.queue_id for result in ours] == [result["queue"] for result in theirs]
    assert len({result.queue.queue_id for result in ours}) > 3
    assert chosen.queue.queue_id == 6


@played
async def test_a_delayed_message(world: World) -> None:
    topic = await world.make_topic("delayed", 1)
    reader = await world.java_reader(world.name("java-readers"), topic)
    async with world.producer() as producer:
        await producer.send(topic, b"late", delay_level=1)
        await producer.send(topic, b"at once")
    found = await world.do(reader.received, 2)
    assert bodies(found) == ["at once", "late"]
    assert found[1]["stored"] - found[1]["born"] >= 1_000


@pytest.mark.parametrize("compression", [ZLIB, LZ4, ZSTD])
@also_with_4_9
@played
async def test_compressed_bodies(world: World, compression: str) -> None:
    topic = await world.make_topic("compressed", 1)
    long, short = UNICODE.encode() * 1_000, b"x" * 4095
    async with world.producer(compression=compression) as producer:
        for body in (long, short):
            await producer.send(topic, body)
    found = await world.java_sees(topic, 2)
    assert bodies(found) == [described(long), described(short)]
    assert found[0]["storeSize"] < 1_000 and found[1]["storeSize"] > 4095
    # Java takes the flag away when it has unpacked the body; which packing it was stays.
    assert found[0]["sysFlag"] & ~COMPRESSED == FLAGS[compression]
    assert found[1]["sysFlag"] == 0


@played
async def test_a_namespace(world: World) -> None:
    topic = await world.make_topic("tenant%shop", 1)
    name = topic.partition("%")[2]
    async with world.producer(client={"namespace": topic.partition("%")[0]}) as producer:
        result = await producer.send(name, b"ours")
        await producer.send_batch(messages(name, ["batch"]))
    assert result.queue.topic == name
    settings = {"namespace": topic.partition("%")[0]}
    reader = await world.do(world.java.push, world.name("tenants"), {name: "*"}, settings)
    found = await world.do(reader.received, 2)
    assert sorted((message["body"], message["topic"]) for message in found) == [("batch", name), ("ours", name)]


@also_with_4_9
@played
async def test_the_largest_message(world: World) -> None:
    topic = await world.make_topic("large", 1)
    body = random.Random(1).randbytes(4 * MIB)
    async with world.producer() as producer, world.producer(max_message_size=5 * MIB) as generous:
        await producer.send(topic, body)
        with pytest.raises(MessageIllegal):
            await producer.send(topic, body + b"x")
        with pytest.raises(RemoteRefused) as refused:
            await generous.send(topic, random.Random(1).randbytes(5 * MIB))
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert bodies(await world.java_sees(topic, 1)) == [described(body)]


@also_with_4_9
@played
async def test_a_topic_is_made_by_the_first_message(world: World) -> None:
    topic = world.name("unheard-of")
    async with world.producer(default_topic_queues=3) as producer:
        results = [await producer.send(topic, body.encode()) for body in texts(6)]
        assert len(await producer.queues(topic)) == 3
    assert Counter(result.queue.queue_id for result in results) == {0: 2, 1: 2, 2: 2}
    assert Counter(bodies(await world.java_sees(topic, 6))) == Counter(texts(6))
    route = await world.ask(f"topicRoute -t {topic}")
    assert '"readQueueNums":3' in route.replace(" ", ""), route


@played
async def test_a_topic_that_may_not_be_written_to(world: World) -> None:
    topic = await world.make_topic("read-only", 1, "-p 4")
    async with world.producer() as producer:
        with pytest.raises(NoRoute, match="may not be written to"):
            await producer.send(topic, b"no")


@played
async def test_everything_over_tls(world: World) -> None:
    """Servers that have no certificate make one for tests, and take connections of both kinds."""
    topic = await world.make_topic("secret", 1)
    client = {"tls": {"tls.enable": "true", "tls.test.mode.enable": "true"}}
    async with world.producer(client=client) as producer:
        await producer.send(topic, b"secret")
        async with world.consumer(world.name("readers"), topic, client=client) as consumer:
            message = await anext(consumer)
            await message.ack()
    assert message.body == b"secret"
