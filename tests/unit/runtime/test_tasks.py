"""Work of the background: it fails alone and ends together."""

from __future__ import annotations

import asyncio

import pytest

from apogeemq.errors import ConfigError
from apogeemq.runtime.tasks import Tasks
from tests.unit.event_loop import in_loop


@in_loop
async def test_a_time_that_fails_does_not_end_the_others(caplog: pytest.LogCaptureFixture) -> None:
    tasks, thrice = Tasks(), asyncio.Event()
    outcomes = iter((ConfigError("known"), ValueError("unknown"), None))

    def act() -> None:
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome
        thrice.set()

    tasks.repeat(lambda: 0.0, act)
    await thrice.wait()
    await tasks.cancel_all()
    assert [record.message for record in caplog.records][:2] == ["known", "a periodic task failed"]


@in_loop
async def test_what_is_repeated_may_wait() -> None:
    tasks, done = Tasks(), asyncio.Event()

    async def act() -> None:
        await asyncio.sleep(0)
        done.set()

    tasks.repeat(lambda: 0.0, act)
    await done.wait()
    await tasks.cancel_all()


@in_loop
async def test_nothing_runs_after_the_end() -> None:
    tasks, ended = Tasks(), asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    tasks.spawn(forever())
    await asyncio.sleep(0)
    await tasks.cancel_all()
    assert ended.is_set()


@in_loop
async def test_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("why")

    tasks = Tasks()
    tasks.spawn(fail())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [record.message for record in caplog.records] == ["a task of the background failed"]
