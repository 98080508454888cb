"""Brokers killed with `kill -9` while clients use them: what was acknowledged is there, and everything is read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any, NamedTuple

import pytest

from apogeemq.client import (
    ClientOptions,
    ConsumedMessage,
    Consumer,
    ConsumerOptions,
    Message,
    Producer,
    ProducerOptions,
)
from apogeemq.errors import ApogeeError, NoRoute
from tests.peers.ours import Broker, NameServer
from tests.robustness.faulty_cluster import HANG_SECONDS, IS_SOAK, PATIENCE_SECONDS, soon
from tests.unit.event_loop import in_loop

ROUNDS = 10 if IS_SOAK else 1
SENDERS = 16
RETRIES = 2
CLIENT = ClientOptions(instance_name="killed", heartbeat_seconds=1.0)


class Processes(NamedTuple):
    names: NameServer
    brokers: tuple[Broker, Broker]

    @property
    def address(self) -> str:
        return self.names.address

    @asynccontextmanager
    async def producer(self, **options: Any) -> AsyncIterator[Producer]:
        chosen = ProducerOptions(retries=RETRIES, **{"send_timeout_seconds": PATIENCE_SECONDS, **options})
        async with Producer(self.address, group="P", options=chosen, client=CLIENT) as producer:
            yield producer

    def consumer(self, topic: str, group: str) -> Consumer:
        options = ConsumerOptions(start_from="first", offset_persist_seconds=0.2, suspend_ms=1000)
        client = ClientOptions(instance_name=f"reads-{group}")
        return Consumer(self.address, group=group, topic=topic, options=options, client=client)

    async def make_topic(self, topic: str) -> None:
        """On both brokers, and known to the name server."""
        async with self.producer() as producer:
            await producer.create_topic(topic, 4)
            async with asyncio.timeout(HANG_SECONDS):
                while len(await brokers_of(producer, topic)) < 2:
                    await asyncio.sleep(0.01)

    async def read_all(self, topic: str, count: int) -> Counter[tuple[str, bytes]]:
        """What a new group finds, until so many different ones have come and no more do."""
        found: Counter[tuple[str, bytes]] = Counter()
        async with self.consumer(topic, f"all-of-{topic}") as consumer:
            while True:
                seconds = 0.5 if len(found) >= count else HANG_SECONDS
                try:
                    async with asyncio.timeout(seconds):
                        message = await anext(consumer)
                except TimeoutError:
                    return found
                found[message.message_id, message.body] += 1
                await message.ack()


async def brokers_of(producer: Producer, topic: str) -> set[str]:
    try:
        return {queue.broker_name for queue in await producer.publish_queues(topic)}
    except NoRoute:
        return set()


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with ExitStack() as stack:
        names = stack.enter_context(NameServer(work_dir=tmp_path_factory.mktemp("names")))
        brokers = tuple(
            Broker(names.address, work_dir=tmp_path_factory.mktemp(name), name=name)
            for name in ("broker-a", "broker-b")
        )
        for broker in brokers:
            stack.callback(broker.kill)
            broker.launch()
        for broker in brokers:
            broker.wait_until_ready()
        yield Processes(names, (brokers[0], brokers[1]))


class Sent:
    """Senders that never rest, and what became of what they sent."""

    def __init__(self, producer: Producer, topic: str, *, soon: bool) -> None:
        self.acknowledged: dict[str, bytes] = {}
        self.failed: list[ApogeeError] = []
        self.brokers: list[str] = []
        self._producer = producer
        self._topic = topic
        self._is_soon = soon
        self._is_ending = False
        self._number = 0

    async def _send(self) -> None:
        while not self._is_ending:
            self._number += 1
            body = b"%d" % self._number
            try:
                if self._is_soon:
                    result = await (await self._producer.send_soon(Message(self._topic, body)))
                else:
                    result = await self._producer.send(self._topic, body)
            except ApogeeError as error:
                self.failed.append(error)
            else:
                self.acknowledged[result.message_id] = body
                self.brokers.append(result.queue.broker_name)

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        async with asyncio.timeout(6 * HANG_SECONDS), asyncio.TaskGroup() as senders:
            for _ in range(SENDERS):
                senders.create_task(self._send())
            try:
                yield
            finally:
                self._is_ending = True

    async def more(self, count: int = 200) -> None:
        target = len(self.acknowledged) + count
        await soon(lambda: len(self.acknowledged) >= target or self.failed)


async def kill(broker: Broker) -> None:
    await asyncio.to_thread(broker.kill)


async def start(broker: Broker) -> None:
    broker.launch()  # here, for a child ends with the thread that made it
    await asyncio.to_thread(broker.wait_until_ready)


@pytest.mark.parametrize("way", ["send", "send_soon", "batches"])
def test_a_broker_killed_among_sends_costs_none_of_them(processes: Processes, way: str) -> None:
    """All end well on the other one; what was acknowledged is there, at most once for each attempt."""
    topic = f"killed-{way}"

    async def run() -> None:
        await processes.make_topic(topic)
        linger = {"linger_seconds": 0.001} if way == "batches" else {}
        async with processes.producer(**linger) as producer:
            sent = Sent(producer, topic, soon=way != "send")
            async with sent.sending():
                for number in range(ROUNDS):
                    victim = processes.brokers[number % 2]
                    await sent.more()
                    await kill(victim)
                    await sent.more()
                    assert set(sent.brokers[-100:]) == {processes.brokers[(number + 1) % 2].broker_name}
                    await start(victim)
                    await soon(lambda: victim.broker_name in sent.brokers[-50:])  # noqa: B023  it is used again
            assert sent.failed == []
        found = await processes.read_all(topic, len(sent.acknowledged))
        assert set(sent.acknowledged.items()) <= set(found)
        assert max(found.values()) <= 1 + RETRIES

    asyncio.run(run())


class Reading:
    """A consumer's program: notes what comes."""

    def __init__(self, consumer: Consumer) -> None:
        self.seen: Counter[bytes] = Counter()
        consumer.on_message(self._note)

    async def _note(self, message: ConsumedMessage) -> None:
        self.seen[message.body] += 1


@in_loop
async def test_a_consumer_whose_broker_is_killed_and_comes_back_misses_nothing(processes: Processes) -> None:
    """What was handed on and not committed when the broker went may come again, and no more than that."""
    topic, count = "back", 300
    await processes.make_topic(topic)
    consumer = processes.consumer(topic, "reads-on")
    reading = Reading(consumer)
    async with processes.producer() as producer, consumer:
        running = asyncio.ensure_future(consumer.run())
        expected: set[bytes] = set()
        for number in range(ROUNDS):
            victim = processes.brokers[number % 2]
            bodies = {b"%d-%d" % (number, index) for index in range(count)}
            expected |= bodies
            sending = asyncio.gather(*(producer.send(topic, body, timeout_seconds=10.0) for body in bodies))
            await kill(victim)
            await sending
            await start(victim)
            async with asyncio.timeout(3 * HANG_SECONDS):
                await soon(lambda: expected <= set(reading.seen))  # noqa: B023
        await consumer.stop()
        await running
    # Of a round each message may be in both brokers, and each copy may have come before the kill and after it.
    assert max(reading.seen.values()) <= 2 * (1 + RETRIES)
    assert reading.seen.total() <= 2 * count * ROUNDS


@in_loop
async def test_with_no_broker_left_sends_fail_clearly_until_one_is_back(processes: Processes) -> None:
    topic = "none-left"
    await processes.make_topic(topic)
    async with processes.producer(send_timeout_seconds=1.0) as producer:
        await producer.send(topic, b"before")
        for broker in processes.brokers:
            await kill(broker)
        async with asyncio.timeout(HANG_SECONDS):
            for _ in range(5):
                with pytest.raises(ApogeeError) as why:
                    await producer.send(topic, b"nobody is there")
                assert why.value.retriable
        for broker in processes.brokers:
            await start(broker)

        async def is_sent() -> bool:
            try:
                await producer.send(topic, b"after")
            except ApogeeError:
                await asyncio.sleep(0.05)
                return False
            return True

        async with asyncio.timeout(HANG_SECONDS):
            while not await is_sent():
                pass
