"""Somebody sets the clock of the client's machine by an hour while it works; the servers keep theirs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

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
from apogeemq.client.consuming.rebalance import averagely
from apogeemq.model.queues import MessageQueue
from apogeemq.runtime import clock
from tests.peers.ours import Broker, NameServer
from tests.robustness.faulty_cluster import HANG_SECONDS, IS_SOAK, PATIENCE_SECONDS, soon

HOUR_SECONDS = 3600
JUMPS = (HOUR_SECONDS, -HOUR_SECONDS, 0, 5 * HOUR_SECONDS, -40 * 24 * HOUR_SECONDS, 0) * (10 if IS_SOAK else 1)
MESSAGES = 100
PATIENT = ProducerOptions(send_timeout_seconds=PATIENCE_SECONDS)


class SetClock:
    """Stands where the product asks for the time; only the wall clock can be set."""

    def __init__(self) -> None:
        self.ahead_seconds = 0

    def time_ns(self) -> int:
        return time.time_ns() + self.ahead_seconds * 1_000_000_000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    made = SetClock()
    monkeypatch.setattr(clock, "time", made)
    return made


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a name server with a broker."""
    with ExitStack() as stack:
        names = stack.enter_context(NameServer(work_dir=tmp_path_factory.mktemp("names")))
        stack.enter_context(Broker(names.address, work_dir=tmp_path_factory.mktemp("broker")))
        yield names.address


async def made_topic(producer: Producer, topic: str, queues: int = 2) -> None:
    await producer.send(topic, b"first")
    async with asyncio.timeout(HANG_SECONDS):
        while len(await producer.publish_queues(topic)) < queues:
            await asyncio.sleep(0.01)


class Rebalances:
    """The usual way to share queues, counted."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, own_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        self.count += 1
        return averagely(own_id, queues, client_ids)


def reader(address: str, topic: str, *, ordered: bool = False, rebalances: Rebalances | None = None) -> Consumer:
    return Consumer(
        address,
        group=f"group-{topic}",
        topic=topic,
        ordered=ordered,
        options=ConsumerOptions(
            start_from="first", suspend_ms=1000, rebalance_seconds=0.02, offset_persist_seconds=0.1
        ),
        client=ClientOptions(instance_name=f"reads-{topic}", heartbeat_seconds=0.2, route_poll_seconds=0.2),
        strategy=rebalances,
    )


class Program:
    """Notes what comes, and in which order it comes from each queue."""

    def __init__(self, consumer: Consumer) -> None:
        self.seen: Counter[bytes] = Counter()
        self.offsets: dict[int, list[int]] = {}
        consumer.on_message(self._note)

    async def _note(self, message: ConsumedMessage) -> None:
        self.offsets.setdefault(message.queue.queue_id, []).append(message.queue_offset)
        await asyncio.sleep(0)
        self.seen[message.body] += 1


@pytest.mark.parametrize("way", ["send", "send_soon", "batches"])
def test_sends_while_the_clock_is_set(address: str, wall: SetClock, way: str) -> None:
    """None fails or waits; no two messages have one id, though hours are lived through twice."""

    async def run() -> None:
        options = ProducerOptions(
            linger_seconds=0.001 if way == "batches" else 0.0,
            avoids_slow_brokers=True,
            send_timeout_seconds=PATIENCE_SECONDS,
        )
        client = ClientOptions(heartbeat_seconds=0.05, route_poll_seconds=0.05)
        async with Producer(address, group="P", options=options, client=client) as producer:
            ids: list[str] = []
            for jump in JUMPS:
                sends = [
                    asyncio.ensure_future(producer.send("clock", b"x"))
                    if way == "send"
                    else await producer.send_soon(Message("clock", b"x"))
                    for _ in range(MESSAGES)
                ]
                await asyncio.sleep(0)
                wall.ahead_seconds = jump  # while they are on their way
                async with asyncio.timeout(HANG_SECONDS):
                    ids += [result.message_id for result in await asyncio.gather(*sends)]
            assert len(set(ids)) == len(ids) == len(JUMPS) * MESSAGES

    asyncio.run(run())


@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "ordered"])
def test_reading_while_the_clock_is_set(address: str, wall: SetClock, ordered: bool) -> None:
    """Everything comes, once and without a pause: no queue is taken for stuck, and no lock for lost."""
    topic = f"read-{ordered}"

    async def run() -> None:
        async with Producer(address, group="P", options=PATIENT) as producer:
            await made_topic(producer, topic)
            rebalances = Rebalances()
            consumer = reader(address, topic, ordered=ordered, rebalances=rebalances)
            program = Program(consumer)
            async with consumer:
                running = asyncio.ensure_future(consumer.run())
                await soon(lambda: program.seen[b"first"])
                assert consumer._membership is not None
                readers = dict(consumer._membership.readers)
                for number, jump in enumerate(JUMPS):
                    bodies = {b"%d-%d" % (number, index) for index in range(MESSAGES)}
                    sends = [asyncio.ensure_future(producer.send(topic, body)) for body in bodies]
                    await asyncio.sleep(0)
                    wall.ahead_seconds = jump
                    await asyncio.gather(*sends)
                    await soon(lambda: bodies <= set(program.seen))  # noqa: B023
                    wall.ahead_seconds = -jump  # while pulls wait for more
                    before = rebalances.count
                    await soon(lambda: rebalances.count > before + 3)  # noqa: B023
                assert {queue: consumer._membership.readers[queue] for queue in readers} == readers
            await running
            assert set(program.seen.values()) == {1}
            if ordered:
                assert all(offsets == sorted(offsets) for offsets in program.offsets.values())

    asyncio.run(run())


def test_failed_messages_come_again_while_the_clock_is_set(address: str, wall: SetClock) -> None:
    async def run() -> None:
        async with Producer(address, group="P", options=PATIENT) as producer:
            await made_topic(producer, "again")
            async with reader(address, "again") as consumer:
                async with asyncio.timeout(HANG_SECONDS):
                    first = await anext(consumer)
                    wall.ahead_seconds = -HOUR_SECONDS
                    await first.retry(1)
                    wall.ahead_seconds = HOUR_SECONDS
                    again = await anext(consumer)
                assert (again.body, again.reconsume_times) == (b"first", 1)
                await again.ack()

    asyncio.run(run())
