"""Sleep whose time a thread keeps."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from apogeemq.runtime.alarm_clock import AlarmClock
from tests.unit.event_loop import in_loop


@in_loop
async def test_sleepers_wake_in_the_order_of_their_times_and_never_early() -> None:
    clock, woken, began = AlarmClock(), list[float](), time.monotonic()

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        assert time.monotonic() - began >= seconds
        woken.append(seconds)

    await asyncio.gather(*map(sleep, (0.05, 0.0, 0.03, 0.01)))
    clock.close()
    assert woken == [0.0, 0.01, 0.03, 0.05]


@in_loop
async def test_a_sleeper_that_is_cancelled_keeps_nobody_from_waking() -> None:
    clock = AlarmClock()
    gone, stays = asyncio.ensure_future(clock.sleep(0.01)), asyncio.ensure_future(clock.sleep(0.02))
    await asyncio.sleep(0)
    gone.cancel()
    await stays
    assert gone.cancelled()
    await clock.sleep(0)
    clock.close()


@in_loop
async def test_the_loop_sets_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a timer was set")

    loop, clock = asyncio.get_running_loop(), AlarmClock()
    with monkeypatch.context() as patched:
        patched.setattr(type(loop), "call_at", refuse)
        patched.setattr(type(loop), "call_later", refuse)
        await clock.sleep(0.01)
    clock.close()


@in_loop
async def test_nothing_is_left_after_the_end() -> None:
    before, clock = threading.active_count(), AlarmClock()
    sleeper = asyncio.ensure_future(clock.sleep(3_600))
    await asyncio.sleep(0)
    assert threading.active_count() == before + 1
    sleeper.cancel()
    clock.close()
    assert threading.active_count() == before
    AlarmClock().close()  # one that was never asked
