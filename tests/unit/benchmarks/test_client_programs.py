"""The programs that load clients: they count what happened, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.client.programs import apogee, bare
from benchmarks.client.programs.commands import Counted, Job
from tests.unit.client.cluster import Cluster, cluster
from tests.unit.event_loop import in_loop


def stored(it: Cluster, topic: str, queues: int) -> int:
    return sum(it.state.store.queue(topic, number).max_offset for number in range(queues))


@pytest.mark.parametrize(("do", "in_flight"), [("send", 1), ("send", 8), ("batch", 100), ("soon", 100)])
@in_loop
async def test_our_program_counts_what_the_broker_has(tmp_path: Path, do: str, in_flight: int) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 2)
        job = Job(do, "T", in_flight=in_flight, seconds=0.05)
        found = await apogee.DO[do](it.address, job)
        assert found["count"] > 0
        assert stored(it, "T", 2) == found["count"] + 1  # the first one opens the connection
        assert min(found["seconds"], found["cpu_seconds"], found["memory_mb"]) > 0


@in_loop
async def test_frames_without_a_client_are_counted_when_the_broker_has_them(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 8)
        found = await asyncio.to_thread(bare.send, it.broker_address, Job("send", "T", seconds=0.05))
        assert found["count"] > 0
        assert stored(it, "T", 8) == found["count"] + 1  # the first one is asked for its whole answer


@in_loop
async def test_our_program_counts_what_it_consumes(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 2)
        await apogee.DO["batch"](it.address, Job("batch", "T", in_flight=100, seconds=0.05))
        there = stored(it, "T", 2)
        job = Job("consume", "T", "G", seconds=60.0, skip=1, max_count=there)
        assert (await apogee.DO["consume"](it.address, job))["count"] == there - 1


def test_a_consumer_is_counted_from_where_it_is_in_swing() -> None:
    counted = Counted(Job("consume", "T", seconds=60.0, skip=2, max_count=5))
    assert [counted.add() for _ in range(5)] == [False, False, False, False, True]
    assert counted.is_done
    assert counted.result()["count"] == 3


def test_a_consumer_is_done_when_its_time_is_over() -> None:
    counted = Counted(Job("consume", "T", seconds=0.0, skip=1, max_count=1_000_000))
    while not counted.add():
        assert counted.seen < 100
