"""The event loop behind every blocking call of this process: one, in a thread of its own.

It is made by the first call. A forked child has none of its parent's threads: its first call makes a new one. At the
end of the process clients that are still open are stopped, within a limited time.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from apogeemq.errors import WrongState
from apogeemq.runtime.event_loops import loop_factory

log = logging.getLogger(__name__)

T = TypeVar("T")

# How long an interrupted caller waits for its call to be undone; what takes longer ends without it.
INTERRUPT_SECONDS: Final = 1.0
# At the end of the process: for clients nobody has stopped, then for what they left.
STOP_SECONDS: Final = 5.0
_JOIN_SECONDS: Final = 2.0
_FOR_EVER: Final = -1.0
# A signal that comes a moment before the main thread falls asleep does not wake it, so it looks up now and then.
_LOOK_UP_SECONDS: Final = 0.5
_ENDING: Final = "no more calls: the process is ending"


Stop = Callable[[], Coroutine[Any, Any, None]]


class _Call(Generic[T]):
    """Work of the loop that one thread waits for."""

    def __init__(self, work: Coroutine[Any, Any, T], on_unwanted: Callable[[T], None] | None) -> None:
        self._work = work
        self._on_unwanted = on_unwanted
        self._task: asyncio.Task[T] | None = None
        self._is_interrupted = False
        self._ended = threading.Lock()  # taken until the work has ended
        self._ended.acquire()

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        self._ended.release()
        if self._is_interrupted:
            self._give_back()
        elif not task.cancelled():
            task.exception()  # whoever waits has it

    def interrupt(self) -> None:
        """In the loop, after `begin`."""
        self._is_interrupted = True
        if self._task is not None and not self._task.cancel():
            self._give_back()

    def _give_back(self) -> None:
        on_unwanted, self._on_unwanted = self._on_unwanted, None
        if on_unwanted and self._task and not self._task.cancelled() and self._task.exception() is None:
            on_unwanted(self._task.result())

    def wait(self) -> None:
        if threading.current_thread() is threading.main_thread():
            while not self.has_ended_in(_LOOK_UP_SECONDS):
                pass
        else:
            self.has_ended_in(_FOR_EVER)

    def has_ended_in(self, seconds: float) -> bool:
        if not self._ended.acquire(timeout=seconds):
            return False
        self._ended.release()
        return True

    def result(self) -> T:
        assert self._task is not None
        if self._task.cancelled():
            raise WrongState("the call was given up: its process or its client has come to an end")
        return self._task.result()


class BackgroundLoop:
    """Made by `background_loop` only. Its methods may be called from any thread but its own."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self.loop = loop_factory()()
        self._is_ending = False
        self._open: set[Stop] = set()
        self._finishing: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._turn, name="apogeemq", daemon=True)
        self._thread.start()

    def run(
        self,
        work: Coroutine[Any, Any, T],
        *,
        on_unwanted: Callable[[T], None] | None = None,
        interrupt_seconds: float = INTERRUPT_SECONDS,
    ) -> T:
        """Wait for the work to be done in the loop.

        An exception that a signal raises in the waiting thread, KeyboardInterrupt above all, cancels the work; should
        it be done all the same, `on_unwanted` gets its result, in the loop.
        """
        self._check(work)
        call = _Call(work, on_unwanted)
        try:
            self.loop.call_soon_threadsafe(call.begin)
            call.wait()
        except BaseException:
            self.loop.call_soon_threadsafe(call.interrupt)
            call.has_ended_in(interrupt_seconds)
            raise
        return call.result()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Have it finished, and wait for nothing."""
        if self._is_ending:
            work.close()
            raise WrongState(_ENDING)
        self.loop.call_soon_threadsafe(self.finish, work)

    def finish(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """In the loop: work that goes on when whoever waits for it is interrupted; the process does not end before."""
        task = self.loop.create_task(work)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)
        return task

    def opened(self, stop: Stop) -> None:
        """A client is to be stopped like this at the end of the process, unless it is `closed` before."""
        self._open.add(stop)

    def closed(self, stop: Stop) -> None:
        self._open.discard(stop)

    def _check(self, work: Coroutine[Any, Any, object]) -> None:
        problem = ""
        if self._is_ending:
            problem = _ENDING
        elif threading.current_thread() is self._thread:
            problem = (
                "a blocking call from the thread that would have to carry it out would wait for itself; "
                "a function that chooses queues must not call clients"
            )
        if problem:
            work.close()
            raise WrongState(problem)

    def _turn(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._is_ending:
            # A program's function that runs here may raise one of these; whoever called it has been told.
            with contextlib.suppress(KeyboardInterrupt, SystemExit):
                self.loop.run_forever()
        self.loop.close()

    # -- the end ---------------------------------------------------------------------------------------------

    def end(self) -> None:
        """For the end of the process: nobody can wait for anything afterwards."""
        stopping = _Call(self._stop_all(), None)
        self.loop.call_soon_threadsafe(stopping.begin)
        stopping.has_ended_in(
            STOP_SECONDS + 2 * _JOIN_SECONDS
        )  # a loop that a program's function blocks is not waited for
        self._is_ending = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_JOIN_SECONDS)

    async def _stop_all(self) -> None:
        for stop in tuple(self._open):
            self.finish(_stopped(stop))
        if self._finishing:
            await asyncio.wait(tuple(self._finishing), timeout=STOP_SECONDS)
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=_JOIN_SECONDS)


async def _stopped(stop: Stop) -> None:
    try:
        await stop()
    except Exception as error:
        log.warning("a client could not be stopped at the end of the process: %s", error)


_current: BackgroundLoop | None = None
_making = threading.Lock()
_left_behind: list[BackgroundLoop] = []  # of parents; never looked at again, and never deleted: they are "running"


def background_loop() -> BackgroundLoop:
    """That of this process; the first call makes it."""
    global _current
    with _making:
        if _current is None:
            _current = BackgroundLoop()
        return _current


def _leave_to_parent() -> None:
    global _current, _making
    _making = threading.Lock()
    if _current is not None:
        _left_behind.append(_current)
        _current = None


def _end_with_process() -> None:
    if _current is not None:
        _current.end()


os.register_at_fork(after_in_child=_leave_to_parent)
atexit.register(_end_with_process)
