"""A consumer whose connection is cut, wherever and however often: every message comes, in order where it has to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from apogeemq.client import Consumer
from apogeemq.client.consuming import membership, queue_reader
from apogeemq.client.consuming.offset_store import RemoteOffsets
from apogeemq.testing.fault_proxy import FaultProxy, Flow, How
from tests.robustness.faulty_cluster import HANG_SECONDS, IS_SOAK, endings, faulty, some, soon
from tests.unit.event_loop import in_loop
from tests.unit.transport.live import deaf_port

POSITIONS = 120
SEEDS = range(30 if IS_SOAK else 3)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that failed tries again at once: these tests make it fail hundreds of times."""
    monkeypatch.setattr(queue_reader, "_FAILURE_SECONDS", 0.001)
    monkeypatch.setattr(membership, "_RETRY_SECONDS", 0.01)


async def acknowledged(consumer: Consumer, body: bytes) -> None:
    """The next message is this one."""
    async with asyncio.timeout(HANG_SECONDS):
        message = await anext(consumer)
    assert message.body == body
    await message.ack()


@pytest.mark.parametrize("direction", ["requests", "answers"])
def test_a_pull_cut_anywhere_brings_its_message_once(tmp_path: Path, direction: str) -> None:
    """The reader asks again from where it was: nothing is passed over, and nothing comes twice."""

    async def run() -> None:
        async with (
            faulty(tmp_path) as at,
            at.consumer() as consumer,
            at.producer(client=at.options(address_map={})) as p,
        ):
            flow: Flow = getattr(at.broker, direction)
            await p.send("T", b"0000")
            await acknowledged(consumer, b"0000")
            before = flow.passed
            await p.send("T", b"0001")
            await acknowledged(consumer, b"0001")
            size = flow.passed - before
            for number, (count, how) in enumerate(some(endings(size), POSITIONS), start=2):
                flow.cut_after(count, how)
                await p.send("T", b"%04d" % number)
                await acknowledged(consumer, b"%04d" % number)
                flow.disarm()

    asyncio.run(run())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_consumer_starts_and_stops_though_everything_is_cut_now_and_then(tmp_path: Path, seed: int) -> None:
    """Each life of the consumer acknowledges some; the next one begins there, or a little before."""

    async def run() -> None:
        random = Random(seed)
        total = 60
        async with faulty(tmp_path, queues=2) as at:
            async with at.producer() as producer:
                for number in range(total):
                    await producer.send("T", b"%d" % number)
            seen: list[bytes] = []
            lives = 0
            async with asyncio.timeout(HANG_SECONDS):
                while len(set(seen)) < total:
                    consumer = at.consumer(client=at.options(request_timeout_seconds=1.0))
                    cut_somewhere(random, at.broker)
                    await consumer.start()
                    for _ in range(random.randrange(1, 20)):
                        if len(set(seen)) < total:
                            message = await anext(consumer)
                            seen.append(message.body)
                            await message.ack()
                    cut_somewhere(random, at.broker)
                    await consumer.stop()
                    lives += 1
            assert set(seen) == {b"%d" % number for number in range(total)}
            assert len(seen) <= total * lives

    asyncio.run(run())


def cut_somewhere(random: Random, proxy: FaultProxy) -> None:
    flow = random.choice((proxy.requests, proxy.answers))
    flow.cut_after(random.randrange(3000), random.choice(tuple(How)))


@pytest.mark.parametrize("seed", SEEDS)
def test_ordered_messages_stay_in_order(tmp_path: Path, seed: int) -> None:
    async def run() -> None:
        random = Random(seed)
        total = 100
        async with faulty(tmp_path) as at, at.producer(client=at.options(address_map={})) as producer:
            for number in range(total):
                await producer.send("T", b"%d" % number)
            async with at.consumer(ordered=True, pull_batch=3) as consumer:
                for number in range(total):
                    if random.random() < 0.3:
                        at.broker.cut_all(random.choice(tuple(How)))
                    await acknowledged(consumer, b"%d" % number)

    asyncio.run(run())


@in_loop
async def test_offsets_on_their_way_when_a_consumer_stops_are_not_lost(tmp_path: Path) -> None:
    """The round that keeps them waits for a connection when it is cancelled by the stop."""
    async with faulty(tmp_path) as at, deaf_port() as nowhere:
        async with at.producer() as producer:
            for number in range(10):
                await producer.send("T", b"%d" % number)
        broker = at.real.broker_address
        reached_at = {broker: at.broker.address}
        async with at.consumer(client=at.options(address_map=reached_at), offset_persist_seconds=0.02) as consumer:
            messages = [await anext(consumer) for _ in range(10)]
            reached_at[broker] = nowhere
            at.broker.cut_all()
            await soon(lambda: not at.broker.open_count)
            for message in messages:
                await message.ack()
            offsets = consumer._offsets
            assert isinstance(offsets, RemoteOffsets)
            await soon(lambda: not offsets.changed)  # they are on their way
            reached_at[broker] = at.broker.address
        await soon(lambda: at.real.committed("G", "T") == {0: 10})


@in_loop
async def test_what_was_acknowledged_is_committed_though_the_connection_was_cut(tmp_path: Path) -> None:
    async with faulty(tmp_path) as at:
        async with at.producer() as producer:
            for number in range(10):
                await producer.send("T", b"%d" % number)
        async with at.consumer() as consumer:
            for number in range(10):
                await acknowledged(consumer, b"%d" % number)
            at.broker.cut_all()
            await soon(lambda: not at.broker.open_count or at.broker.connection_count > 2)
        assert at.real.committed("G", "T") == {0: 10}
