"""Pulls by a thread that reads the answers itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from apogeemq.client import MessageQueue, PullConsumer
from apogeemq.client.broker_calls import records_of
from apogeemq.client.consuming.pulling import pull_run
from apogeemq.client.consuming.pulling.pull_run import PullRun, RunTarget
from tests.unit.client.cluster import cluster, named
from tests.unit.client.consuming.programs import fill
from tests.unit.event_loop import in_loop

QUEUE = MessageQueue("broker-a", 0, "T")


@pytest.fixture(autouse=True)
def no_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_run, "_idle", {})


async def with_target(folder: Path, use: Callable[[RunTarget], None]) -> None:
    """Of a queue with 50 messages; used in a thread."""
    async with cluster(folder) as it, PullConsumer(it.address, group="G", client=named("p")) as consumer:
        await fill(it, "T", 50, queues=1)
        target = await consumer.run_target(QUEUE)
        assert target is not None
        await asyncio.to_thread(use, target)
        for kept in pull_run._idle.values():
            kept.close()


def offsets(run: PullRun) -> list[int]:
    """Of the messages of the next answer."""
    head = run.head()
    room = bytearray(head.size)
    run.body(memoryview(room))
    return [record.queue_offset for record in records_of(bytes(room))]


@in_loop
async def test_several_pulls_are_under_way(tmp_path: Path) -> None:
    def use(target: RunTarget) -> None:
        with PullRun(target) as run:
            for offset in (0, 10, 20):
                run.ask(offset, 10)
            assert run.waiting == 3
            assert [offsets(run) for _ in range(3)] == [[*range(first, first + 10)] for first in (0, 10, 20)]
            assert run.waiting == 0
        (kept,) = pull_run._idle.values()
        with PullRun(target) as run:
            assert not pull_run._idle  # it is used
            run.ask(45, 10)
            assert offsets(run) == [45, 46, 47, 48, 49]
        assert list(pull_run._idle.values()) == [kept]

    await with_target(tmp_path, use)


@pytest.mark.parametrize("reads_head", [True, False])
@in_loop
async def test_a_connection_with_something_unread_is_not_kept(tmp_path: Path, reads_head: bool) -> None:
    def use(target: RunTarget) -> None:
        with PullRun(target) as run:
            run.ask(0, 10)
            if reads_head:
                run.head()
        assert not pull_run._idle

    await with_target(tmp_path, use)


@in_loop
async def test_nor_one_of_a_run_that_failed(tmp_path: Path) -> None:
    def use(target: RunTarget) -> None:
        with pytest.raises(ValueError, match="something"), PullRun(target):
            raise ValueError("something")
        assert not pull_run._idle

    await with_target(tmp_path, use)


@in_loop
async def test_a_forked_child_does_not_use_its_parents_connections(tmp_path: Path) -> None:
    def use(target: RunTarget) -> None:
        with PullRun(target):
            pass
        assert pull_run._idle
        child = os.fork()
        if not child:
            os._exit(len(pull_run._idle))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with PullRun(target) as run:  # it is still the parent's
            run.ask(0, 10)
            assert offsets(run) == [*range(10)]

    await with_target(tmp_path, use)
