"""Consumers that are asked for messages, while their connections are cut: each message once, commits that are told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from apogeemq.client import LitePullConsumer, LitePullOptions, PullConsumer
from apogeemq.client.consuming import membership, queue_reader
from apogeemq.errors import ApogeeError
from apogeemq.model.queues import MessageQueue
from apogeemq.testing.fault_proxy import FaultProxy, How
from tests.robustness.faulty_cluster import HANG_SECONDS, IS_SOAK, Faulty, faulty

SEEDS = range(30 if IS_SOAK else 3)
TOTAL = 60
QUEUES = [MessageQueue("broker-a", queue_id, "T") for queue_id in range(2)]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_reader, "_FAILURE_SECONDS", 0.001)
    monkeypatch.setattr(membership, "_RETRY_SECONDS", 0.01)


async def fill(at: Faulty) -> None:
    async with at.producer(client=at.options(address_map={})) as producer:
        for number in range(TOTAL):
            await producer.send("T", b"%d" % number, queue=QUEUES[number % 2])


def cut_now_and_then(random: Random, proxy: FaultProxy) -> None:
    if random.random() < 0.3:
        flow = random.choice((proxy.requests, proxy.answers))
        flow.cut_after(random.randrange(2000), random.choice(tuple(How)))


async def committed(consumer: LitePullConsumer) -> None:
    """Until the broker has said yes; each no is an error that says that trying again makes sense."""
    while True:
        try:
            await consumer.commit()
            return
        except ApogeeError as error:
            assert error.retriable


@pytest.mark.parametrize("is_assigned", [False, True], ids=["subscribed", "assigned"])
@pytest.mark.parametrize("seed", SEEDS)
def test_polls_bring_each_message_once_wherever_connections_are_cut(
    tmp_path: Path, seed: int, is_assigned: bool
) -> None:
    async def run() -> None:
        random = Random(seed)
        async with faulty(tmp_path, queues=2) as at:
            await fill(at)
            options = LitePullOptions(auto_commit=False, start_from="first", pull_batch=3)
            topic = "" if is_assigned else "T"
            consumer = LitePullConsumer(at.names.address, "G", topic, options=options, client=at.options())
            offsets: dict[int, list[int]] = {0: [], 1: []}
            async with consumer, asyncio.timeout(2 * HANG_SECONDS):
                if is_assigned:
                    await consumer.assign(QUEUES)
                while sum(map(len, offsets.values())) < TOTAL:
                    cut_now_and_then(random, at.broker)
                    for message in await consumer.poll(timeout_seconds=1.0):
                        offsets[message.queue.queue_id].append(message.queue_offset)
                    await committed(consumer)
            assert offsets == {0: list(range(TOTAL // 2)), 1: list(range(TOTAL // 2))}
            assert at.real.committed("G", "T") == {0: TOTAL // 2, 1: TOTAL // 2}

    asyncio.run(run())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pull_that_is_cut_can_be_asked_again(tmp_path: Path, seed: int) -> None:
    """A plain pull tries nothing by itself: the program keeps the offset, and asks again from there."""

    async def run() -> None:
        random = Random(seed)
        async with faulty(tmp_path, queues=2) as at:
            await fill(at)
            seen: list[int] = []
            async with (
                PullConsumer(at.names.address, "G", client=at.options()) as consumer,
                asyncio.timeout(HANG_SECONDS),
            ):
                offset = 0
                while len(seen) < TOTAL // 2:
                    cut_now_and_then(random, at.broker)
                    try:
                        pulled = await consumer.pull(QUEUES[0], offset, max_messages=3)
                    except ApogeeError as error:
                        assert error.retriable
                        continue
                    seen += [message.queue_offset for message in pulled.messages]
                    offset = pulled.next_offset
            assert seen == list(range(TOTAL // 2))

    asyncio.run(run())
