"""Callers that lose patience at any moment, while connections are cut as well: others are not harmed, nothing is lost,
nothing is acknowledged twice, and no task or connection is left (which the cluster looks for at its end)."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from apogeemq.client import ConsumedMessage, Consumer, Message, SendResult
from apogeemq.client.consuming import membership, queue_reader
from apogeemq.client.consuming.pushing import delivery
from apogeemq.errors import ApogeeError
from apogeemq.testing.fault_proxy import How
from tests.robustness.faulty_cluster import HANG_SECONDS, IS_SOAK, Faulty, faulty, soon

RETRIES = 20  # so many cuts are never in the way of one message
SEEDS = range(60 if IS_SOAK else 5)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_reader, "_FAILURE_SECONDS", 0.01)
    monkeypatch.setattr(membership, "_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(delivery, "LOCAL_RETRY_SECONDS", 0.02)


async def turns(random: Random, most: int) -> None:
    for _ in range(random.randrange(most)):
        await asyncio.sleep(0)


def disturb(random: Random, at: Faulty, chance: float) -> None:
    """Now and then a connection is cut, somewhere."""
    if random.random() < chance:
        flow = random.choice((at.broker.requests, at.broker.answers))
        flow.cut_after(random.randrange(1500), random.choice(tuple(How)))


@pytest.mark.parametrize("linger_seconds", [0.0, 0.001], ids=["single", "batched"])
@pytest.mark.parametrize("seed", SEEDS)
def test_sends_cancelled_at_random(tmp_path: Path, seed: int, linger_seconds: float) -> None:
    """Those who wait get their own result; those who gave up may find their message stored, once for each attempt."""

    async def run() -> None:
        random = Random(seed)
        async with (
            faulty(tmp_path, queues=2) as at,
            at.producer(
                linger_seconds=linger_seconds, max_in_flight=8, send_timeout_seconds=10.0, retries=RETRIES
            ) as producer,
        ):

            async def send(body: bytes) -> SendResult:
                if random.random() < 0.5:
                    return await producer.send("T", body)
                return await (await producer.send_soon(Message("T", body)))

            sends: dict[bytes, asyncio.Task[SendResult]] = {}
            for number in range(150):
                disturb(random, at, 0.05)
                body = b"%d" % number
                sends[body] = asyncio.ensure_future(send(body))
                await turns(random, 8)
                random.choice(list(sends.values())[-10:]).cancel() if random.random() < 0.5 else None
            async with asyncio.timeout(HANG_SECONDS):
                await asyncio.wait(sends.values())
                await producer.flush()
            assert (producer._window.count, producer._window.size) == (0, 0)
            stored = at.stored()
            for body, task in sends.items():
                if not task.cancelled():
                    assert 1 <= stored[task.result().message_id, body] <= 1 + RETRIES
            assert len(stored) == len({body for _, body in stored})  # one id for each message, however often stored
            assert max(stored.values()) <= 1 + RETRIES

    asyncio.run(run())


class Program:
    """Ordered messages fail now and then; others would be kept by the broker for ten seconds."""

    def __init__(self, random: Random, *, fails: bool = False) -> None:
        self.acknowledged: Counter[bytes] = Counter()
        self._random = random
        self._fails = fails

    async def handle(self, message: ConsumedMessage) -> None:
        await turns(self._random, 20)
        if self._fails and self._random.random() < 0.05:
            raise LookupError("not this time")
        await message.ack()
        self.acknowledged[message.body] += 1


async def cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    async with asyncio.timeout(HANG_SECONDS):
        await asyncio.wait((task,))


async def fill(at: Faulty, count: int) -> set[bytes]:
    async with at.producer() as producer:
        for number in range(count):
            await producer.send("T", b"%d" % number)
    return {b"%d" % number for number in range(count)}


@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "ordered"])
@pytest.mark.parametrize("seed", SEEDS)
def test_running_cancelled_and_begun_again(tmp_path: Path, seed: int, ordered: bool) -> None:
    """Handlers at work finish; what they failed at comes again, to the next who runs the consumer."""

    async def run() -> None:
        random = Random(seed)
        async with faulty(tmp_path, queues=2) as at:
            expected = await fill(at, 40)
            program = Program(random, fails=ordered)
            async with at.consumer(ordered=ordered, suspend_seconds=0.02, max_retries=1000) as consumer:
                consumer.on_message(program.handle)
                async with asyncio.timeout(HANG_SECONDS):
                    while not expected <= set(program.acknowledged):
                        running = asyncio.ensure_future(consumer.run(concurrency=4))
                        await turns(random, 200)
                        await cancelled(running)
            assert at.real.committed("G", "T") == {0: 20, 1: 20}

    asyncio.run(run())


@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "ordered"])
def test_a_message_whose_handler_was_cancelled_comes_again(tmp_path: Path, ordered: bool) -> None:
    """A run that is cancelled twice does not wait for handlers; the next run has their messages."""

    async def run() -> None:
        began: list[bytes] = []
        async with faulty(tmp_path) as at:
            await fill(at, 3)
            async with at.consumer(ordered=ordered, suspend_seconds=0.02) as consumer:

                @consumer.on_message
                async def handle(message: ConsumedMessage) -> None:
                    began.append(message.body)
                    if len(began) == 1:
                        await asyncio.Event().wait()

                running = asyncio.ensure_future(consumer.run(concurrency=1))
                await soon(lambda: began)
                running.cancel()
                await asyncio.sleep(0)
                await cancelled(running)
                running = asyncio.ensure_future(consumer.run(concurrency=1))
                await soon(lambda: len(began) == 4)
                await consumer.stop()
                await running
            assert sorted(began) == [b"0", b"0", b"1", b"2"]
            assert not ordered or began == [b"0", b"0", b"1", b"2"]
            assert at.real.committed("G", "T") == {0: 3}

    asyncio.run(run())


@pytest.mark.parametrize("seed", SEEDS)
def test_lives_cancelled_at_random(tmp_path: Path, seed: int) -> None:
    """Whole programs, cancelled between their first step and their last, with the connection cut besides."""

    async def run() -> None:
        random = Random(seed)
        async with faulty(tmp_path, queues=2) as at:
            expected = await fill(at, 60)
            program = Program(random)

            async def live(consumer: Consumer) -> None:
                with contextlib.suppress(ApogeeError):
                    async with consumer:
                        consumer.on_message(program.handle)
                        await consumer.run(concurrency=3)

            async with asyncio.timeout(2 * HANG_SECONDS):
                while not expected <= set(program.acknowledged):
                    disturb(random, at, 0.3)
                    consumer = at.consumer(stop_grace_seconds=random.choice((0.0, 5.0)), max_retries=1000)
                    living = asyncio.ensure_future(live(consumer))
                    before = program.acknowledged.total()
                    await turns(random, 300)
                    if random.random() < 0.5:
                        await soon(lambda: living.done() or program.acknowledged.total() > before)  # noqa: B023
                    await cancelled(living)
            for flow in (at.broker.requests, at.broker.answers):
                flow.disarm()
            assert set(program.acknowledged) == expected

    asyncio.run(run())
