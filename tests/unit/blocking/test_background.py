"""The loop behind blocking calls: whoever waits, is interrupted or asks from the wrong thread."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from apogeemq.blocking.background import BackgroundLoop, background_loop
from apogeemq.errors import NoRoute, WrongState
from tests.unit.blocking.interrupting import interrupted


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


def test_all_threads_share_one_loop() -> None:
    found: set[BackgroundLoop] = {background_loop()}
    threads = [threading.Thread(target=lambda: found.add(background_loop())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1


def test_what_the_work_gives_or_raises() -> None:
    async def fail() -> None:
        raise NoRoute("nobody")

    assert background_loop().run(answer) == 42
    with pytest.raises(NoRoute, match="nobody"):
        background_loop().run(fail)


def test_calls_wait_side_by_side() -> None:
    """One that waits holds up nobody: the first needs the second."""
    is_second = asyncio.Event()
    begun = threading.Event()

    async def first() -> str:
        begun.set()
        await is_second.wait()
        return "first"

    async def second() -> None:
        is_second.set()

    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(background_loop().run(first)))
    thread.start()
    begun.wait()
    background_loop().run(second)
    thread.join()
    assert answers == ["first"]


def test_a_call_from_the_loop_itself_is_refused() -> None:
    async def ask_again() -> int:
        return background_loop().run(answer)

    with pytest.raises(WrongState, match="wait for itself"):
        background_loop().run(ask_again)
    assert background_loop().run(answer) == 42


def test_a_call_from_another_running_loop_works() -> None:
    async def program() -> int:
        return background_loop().run(answer)

    assert asyncio.run(program()) == 42


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_the_loop_survives_what_would_end_a_program(error: type[BaseException]) -> None:
    async def leave() -> None:
        raise error

    with pytest.raises(error):
        background_loop().run(leave)
    assert background_loop().run(answer) == 42


def test_an_interrupted_call_is_cancelled_and_waited_for() -> None:
    events: list[str] = []

    async def wait(is_time: threading.Event) -> None:
        is_time.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            events.append("undone")

    with interrupted() as is_time:
        background_loop().run(lambda: wait(is_time))
    assert events == ["undone"]


def test_the_result_of_an_interrupted_call_is_not_lost() -> None:
    """The work is done although its caller has gone."""
    unwanted: list[int] = []

    async def insist(is_time: threading.Event) -> int:
        is_time.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return 42
        raise AssertionError

    with interrupted() as is_time:
        background_loop().run(lambda: insist(is_time), on_unwanted=unwanted.append)
    assert background_loop().run(answer) == 42  # its turn came after that of the other
    assert unwanted == [42]


def test_a_result_that_is_wanted_is_given_once() -> None:
    unwanted: list[int] = []
    assert background_loop().run(answer, on_unwanted=unwanted.append) == 42
    background_loop().run(lambda: asyncio.sleep(0))
    assert unwanted == []


def test_what_must_be_finished_goes_on_after_an_interruption() -> None:
    may_end, has_ended = asyncio.Event(), threading.Event()
    background = background_loop()

    async def finish(is_time: threading.Event) -> None:
        is_time.set()
        await may_end.wait()
        has_ended.set()

    async def shielded(work: Coroutine[Any, Any, None]) -> None:
        await asyncio.shield(background.finish(work))

    async def allow() -> None:
        may_end.set()

    with interrupted() as is_time:
        background.run(lambda: shielded(finish(is_time)))
    assert not has_ended.is_set()
    background.run(allow)
    assert has_ended.wait(60)


def test_an_interrupted_caller_does_not_wait_for_what_does_not_end() -> None:
    release = asyncio.Event()

    async def stubborn(is_time: threading.Event) -> None:
        is_time.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async def end() -> None:
        release.set()

    with interrupted() as is_time:
        background_loop().run(lambda: stubborn(is_time), interrupt_seconds=0.01)
    background_loop().run(end)


def test_uvloop_where_there_is_one() -> None:
    name = type(background_loop().loop).__module__
    assert name == ("uvloop" if "uvloop" in sys.modules else "asyncio.unix_events")


def test_after_its_end_there_are_no_calls() -> None:
    own = BackgroundLoop()
    stopped: list[str] = []

    async def stop() -> None:
        await asyncio.sleep(0)
        stopped.append("first")

    async def stop_badly() -> None:
        raise NoRoute("nobody")

    async def stop_early() -> None:
        stopped.append("closed before")

    for each in (stop, stop_badly, stop_early):
        own.opened(each)
    own.closed(stop_early)
    own.end()
    assert stopped == ["first"]
    with pytest.raises(WrongState, match="ending"):
        own.run(answer)
    with pytest.raises(WrongState, match="ending"):
        own.begin(stop)


def test_its_end_gives_up_what_still_waits() -> None:
    own = BackgroundLoop()
    begun = threading.Event()
    errors: list[BaseException] = []

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            own.run(wait)
        except WrongState as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    begun.wait()
    own.end()
    thread.join()
    assert [type(error) for error in errors] == [WrongState]
