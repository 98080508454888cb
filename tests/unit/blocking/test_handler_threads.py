"""Threads for handlers: as many as there is work at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from apogeemq.blocking.handler_threads import HandlerThreads, ListenerThread
from tests.unit.event_loop import in_loop


@in_loop
async def test_work_runs_side_by_side_and_its_end_is_told() -> None:
    threads = HandlerThreads()
    together = threading.Barrier(3)
    await asyncio.gather(*(threads.run(lambda: (together.wait(), None)[1]) for _ in range(3)))
    threads.close()


@in_loop
async def test_a_thread_is_used_again() -> None:
    threads = HandlerThreads()
    names: set[str] = set()
    idle = threads._idle
    for number in range(5):
        await threads.run(lambda: names.add(threading.current_thread().name))
        idle.acquire()  # wait until the thread says that it is idle
        idle.release()
        assert len(names) == 1, number
    threads.close()


@in_loop
async def test_what_a_handler_raises_is_told_and_ends_no_thread() -> None:
    def fail() -> None:
        raise ValueError("no")

    def leave() -> None:
        raise SystemExit(1)

    threads = HandlerThreads()
    with pytest.raises(ValueError, match="no"):
        await threads.run(fail)
    with pytest.raises(RuntimeError, match="SystemExit"):
        await threads.run(leave)
    await threads.run(lambda: None)
    threads.close()


@in_loop
async def test_nobody_waits_for_an_answer_any_more() -> None:
    may_end = threading.Event()
    threads = HandlerThreads()
    ended = threads.run(lambda: (may_end.wait(), None)[1])
    ended.cancel()
    may_end.set()
    await threads.run(lambda: None)
    threads.close()


@in_loop
async def test_threads_end_with_what_they_are_doing() -> None:
    threads = HandlerThreads()
    may_end = threading.Event()
    workers: list[threading.Thread] = []

    def note(then: Callable[[], object]) -> None:
        workers.append(threading.current_thread())
        then()

    busy = threads.run(lambda: note(may_end.wait))
    await threads.run(lambda: note(lambda: None))
    threads.close()
    may_end.set()
    await busy
    for worker in workers:
        worker.join()
    await threads.run(lambda: None)  # a new one
    threads.close()


@in_loop
async def test_threads_know_themselves() -> None:
    threads, others = HandlerThreads(), HandlerThreads()
    found: list[bool] = []
    await threads.run(lambda: found.extend((threads.are_calling, others.are_calling)))
    assert [*found, threads.are_calling] == [True, False, False]
    threads.close()


def test_listeners_are_called_in_order_whatever_they_raise(caplog: pytest.LogCaptureFixture) -> None:
    listening = ListenerThread()
    heard: list[int] = []
    has_heard = threading.Event()

    def fail() -> None:
        raise ValueError("not today")

    for number in range(10):
        listening.call(lambda number=number: heard.append(number))  # type: ignore[misc]
        listening.call(fail)
    listening.call(has_heard.set)
    has_heard.wait()
    assert heard == list(range(10))
    raised = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert list(map(repr, raised)) == ["ValueError('not today')"] * 10
    listening.close()
    listening.close()
    again = threading.Event()
    listening.call(again.set)
    again.wait()
    listening.close()
