"""Long ranges are read by the task's own thread as far as all goes well; nothing is lost where it does not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from apogeemq.client import PullConsumer
from apogeemq.client.consuming.pulling import pull_run
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.spark.reading import chunks, direct_pulls, slots
from apogeemq.transport.channel import Channel
from tests.unit.client.cluster import cluster
from tests.unit.client.consuming.programs import fill
from tests.unit.event_loop import in_loop
from tests.unit.spark.reading.test_partition_reader import expected, of_queue, read, reader, rows_of


@pytest.fixture(autouse=True)
def short_ranges_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_pulls, "_MIN_OFFSETS", 1)
    monkeypatch.setattr(direct_pulls, "_MIN_MESSAGES", 1)
    monkeypatch.setattr(direct_pulls, "_bring_few", {})


@in_loop
async def test_nothing_of_a_long_range_is_left_to_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "MAX_MESSAGES", 100)
    monkeypatch.setattr(chunks, "ROWS", 250)
    monkeypatch.setattr(PullConsumer, "pull_raw", None)
    monkeypatch.setattr(PullConsumer, "pull_raw_run", None)
    monkeypatch.setattr(pull_run, "_idle", {})
    async with cluster(tmp_path, maxTransferCountOnMessageInMemory="100") as it:
        await fill(it, "T", 2_000, queues=2)
        batches = await asyncio.to_thread(list, reader(it, of_queue(0, 5, 1_000), of_queue(1, 0, 777)))
        assert rows_of(batches) == [*expected(0, 5, 1_000, 2), *expected(1, 0, 777, 2)]
        assert sum(batch.num_rows >= 250 for batch in batches) >= 5  # the end of each range is shorter
        (kept,) = pull_run._idle.values()  # for the next task
        assert await read(it, of_queue(0, 0, 1_000)) == expected(0, 0, 1_000, 2)
        assert list(pull_run._idle.values()) == [kept]
        kept.close()


@in_loop
async def test_answers_in_another_order_are_put_in_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "MAX_MESSAGES", 10)
    monkeypatch.setattr(PullConsumer, "pull_raw", None)
    async with cluster(tmp_path) as it:
        await fill(it, "T", 120, queues=1)
        handlers = it.brokers["broker-a"].server.dispatcher.handlers
        pull = handlers[RequestCode.PULL_MESSAGE]
        held: list[tuple[asyncio.Future[bytes], Any]] = []

        def last_first(channel: Channel, command: Command) -> Any:
            held.append((asyncio.get_running_loop().create_future(), pull(channel, command)))
            answer = held[-1][0]
            if len(held) == 4:
                asyncio.get_running_loop().call_soon(answer_all)
            return answer

        def answer_all() -> None:
            while held:
                answer, reply = held.pop()
                answer.set_result(reply)

        handlers[RequestCode.PULL_MESSAGE] = last_first
        assert await read(it, of_queue(0, 0, 120)) == expected(0, 0, 120, 1)


@pytest.mark.parametrize("cut_at", [1, 3, 8])
@in_loop
async def test_a_connection_that_ends_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut_at: int) -> None:
    monkeypatch.setattr(slots, "MAX_MESSAGES", 50)
    async with cluster(tmp_path, maxTransferCountOnMessageInMemory="50") as it:
        await fill(it, "T", 1_000, queues=1)
        handlers = it.brokers["broker-a"].server.dispatcher.handlers
        pull, pulls = handlers[RequestCode.PULL_MESSAGE], 0

        def cutting(channel: Channel, command: Command) -> Any:
            nonlocal pulls
            pulls += 1
            if pulls == cut_at:
                channel.abort()
            return pull(channel, command)

        handlers[RequestCode.PULL_MESSAGE] = cutting
        assert await read(it, of_queue(0, 0, 1_000)) == expected(0, 0, 1_000, 1)
        assert pulls > cut_at


@in_loop
async def test_a_broker_that_brings_few_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_pulls, "_MIN_MESSAGES", 64)
    monkeypatch.setattr(slots, "MAX_MESSAGES", 100)
    async with cluster(tmp_path) as it:
        await fill(it, "T", 300, queues=1)
        assert await read(it, of_queue(0, 0, 300)) == expected(0, 0, 300, 1)
        monkeypatch.setattr(PullConsumer, "run_target", None)
        assert await read(it, of_queue(0, 0, 300)) == expected(0, 0, 300, 1)
