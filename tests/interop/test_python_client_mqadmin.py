"""Apache's `mqadmin` sees our clients, asks them how they are, and moves them, as it does Java's."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from apogeemq.client import SendResult
from tests.interop.java_cluster import Client
from tests.interop.python_world import Inbox, World, also_with_4_9, messages, played, reading, texts, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


class Pair:
    """A consumer of Java's and one of ours in one group, each with one of the two queues; 3 messages in each."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.group = world.name("pair")
        self.producer_group = world.name("writers")
        self.topic = ""
        self.stack = AsyncExitStack()
        self.theirs: Client
        self.ours: Inbox
        self.sent: list[SendResult] = []

    async def __aenter__(self) -> Pair:
        world = self.world
        self.topic = await world.make_topic("seen", 2)
        self.producer = await self.stack.enter_async_context(world.producer(self.producer_group))
        self.theirs = await world.java_reader(self.group, self.topic)
        consumer = world.consumer(self.group, self.topic, offset_persist_seconds=0.1)
        self.ours = await self.stack.enter_async_context(reading(consumer))
        await until(self._is_shared, "each has a queue")
        for number, message in enumerate(messages(self.topic, texts(6))):
            self.sent.append(await self.producer.send(message, queue=world.queue(self.topic, number % 2)))
        await self.ours.has(3)
        await world.do(self.theirs.received, 3)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stack.aclose()

    async def _is_shared(self) -> bool:
        theirs = await self.world.do(self.theirs.assigned, self.topic)
        return sorted(self.ours.assigned(self.topic) + theirs) == [0, 1]

    @property
    def our_id(self) -> str:
        instance = self.ours.consumer._instance
        assert instance is not None
        return instance.client_id

    @property
    def our_first(self) -> SendResult:
        (mine,) = self.ours.assigned(self.topic)
        return next(result for result in self.sent if result.queue.queue_id == mine)


@played
async def test_who_is_there(world: World) -> None:
    async with Pair(world) as pair:
        seen = await world.ask(f"consumerConnection -g {pair.group}")
        assert re.search(rf"^{pair.our_id} +127\.0\.0\.1:\d+ +PYTHON +V5_5_0$", seen, re.M), seen
        assert re.search(rf"^127\.0\.0\.1@{pair.theirs.name} +127\.0\.0\.1:\d+ +JAVA +V5_5_0$", seen, re.M), seen
        assert re.search(rf"^{pair.topic} +\*$", seen, re.M), seen
        assert "ConsumeType: CONSUME_PASSIVELY\nMessageModel: CLUSTERING\n" in seen
        assert "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET" in seen
        producers = await world.ask(f"producerConnection -g {pair.producer_group} -t {pair.topic}")
        assert re.search(r"^0001 +127\.0\.0\.1@Py-producer-\d+ +127\.0\.0\.1:\d+ +PYTHON +V5_5_0", producers), producers
        our_id = pair.our_id
    seen = await world.ask(f"consumerConnection -g {pair.group}")
    assert our_id not in seen and pair.theirs.name in seen, seen


@also_with_4_9
@played
async def test_how_they_are(world: World) -> None:
    async with Pair(world) as pair:
        status = await world.ask(f"consumerStatus -g {pair.group}")
        assert "Same subscription in the same group of consumer" in status and "Rebalance OK" in status, status
        mine = await world.ask(f"consumerStatus -g {pair.group} -i {pair.our_id} -s true")
        (queue_id,) = pair.ours.assigned(pair.topic)
        for line in (
            r"PROP_CONSUME_TYPE +: CONSUME_PASSIVELY",
            r"PROP_CONSUMEORDERLY +: false",
            rf"\d+ Topic: {pair.topic} +ClassFilter: false +SubExpression: \*",
            rf"{pair.topic} +broker-a +{queue_id} +3 *",
            rf"{pair.topic} +broker-a +{queue_id} +ProcessQueueInfo \[commitOffset=3, .*cachedMsgCount=0, .*\]",
        ):
            assert re.search(f"^{line}$", mine, re.M), (line, mine)
        assert "QueueReader._run" in mine.partition("#Consumer jstack#")[2]
        # The same sections, in the same order, as of Java's.
        theirs = await world.ask(f"consumerStatus -g {pair.group} -i 127.0.0.1@{pair.theirs.name} -s true")
        assert re.findall("^#.*", mine, re.M) == re.findall("^#.*", theirs, re.M)


@played
async def test_how_far_they_are(world: World) -> None:
    async with Pair(world) as pair:
        (queue_id,) = pair.ours.assigned(pair.topic)

        async def is_known() -> bool:
            seen = await world.ask(f"consumerProgress -g {pair.group} -s true")
            return re.search(rf"^{pair.topic} +broker-a +{queue_id} +3 +3 +127\.0\.0\.1 +0 ", seen, re.M) is not None

        await until(is_known, "the broker knows how far we are")


@played
async def test_a_message_is_handed_to_us_alone(world: World) -> None:
    async with Pair(world) as pair:
        offset_id = pair.our_first.offset_id
        command = f"queryMsgById -t {pair.topic} -i {offset_id} -g {pair.group} -d {pair.our_id}"
        assert "consumeResult=CR_SUCCESS" in await world.ask(command)
        assert Counter(message.offset_id for message in pair.ours.messages)[offset_id] == 2
        pair.ours.refuses = lambda message: True
        answer = await world.ask(command)
        assert "consumeResult=CR_THROW_EXCEPTION" in answer or "consumeResult=CR_LATER" in answer, answer


@also_with_4_9
@played
async def test_offsets_are_reset_while_we_read(world: World) -> None:
    """Everything comes again. Brokers of the 4.9 line tell the consumer so; those of 5.x answer its next pull."""
    topic, group = await world.make_topic("reset", 2), world.name("readers")
    consumer = world.consumer(group, topic, offset_persist_seconds=0.1)
    async with world.producer() as producer, reading(consumer) as inbox:
        for number, message in enumerate(messages(topic, texts(6))):
            await producer.send(message, queue=world.queue(topic, number % 2))
        await inbox.has(6)
        await world.settled(topic, group)
        answer = await world.ask(f"resetOffsetByTime -g {group} -t {topic} -s 0")
        assert len(re.findall(r"^broker-a +[01] +0 *$", answer, re.M)) == 2, answer
        for queue_id in range(2):  # which may be one that is held for long, unless something comes
            await producer.send(topic, b"wake up", queue=world.queue(topic, queue_id))
        await until(lambda: set(texts(6)) <= set(inbox.bodies[6:]), "all come again")
    assert {body: count for body, count in Counter(inbox.bodies).items() if body != "wake up"} == dict.fromkeys(
        texts(6), 2
    )


@played
async def test_offsets_of_a_group_that_is_away_are_reset(world: World) -> None:
    topic, group = await world.make_topic("away", 1), world.name("readers")
    async with world.producer() as producer:
        for message in messages(topic, texts(3)):
            await producer.send(message)
        async with reading(world.consumer(group, topic)) as inbox:
            await inbox.has(3)
        await world.ask(f"resetOffsetByTime -g {group} -t {topic} -s 0")
        async with reading(world.consumer(group, topic)) as inbox:
            await inbox.has(3)
            assert inbox.bodies == texts(3)
        await producer.send(topic, b"skipped")
        await world.ask(f"resetOffsetByTime -g {group} -t {topic} -s now")
        async with reading(world.consumer(group, topic)) as inbox:
            await until(lambda: inbox.assigned(topic) == [0], "it has its queue")
            await producer.send(topic, b"after")
            await inbox.has(1)
            assert inbox.bodies == ["after"]
