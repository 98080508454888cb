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
_LOOK_UP_SECONDS: Final = 0.1
_ENDING: Final = "no more calls: the process is ending"


Stop = Callable[[], Coroutine[Any, Any, None]]


class _Call(Generic[T]):
    """Work of the loop that one thread waits for.

    The task belongs to the loop's thread, its end too: what Python does on that occasion would swallow an interruption
    of the thread that waits.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]], on_unwanted: Callable[[T], None] | None) -> None:
        self._work = work
        self._on_unwanted = on_unwanted
        self._task: asyncio.Task[T] | None = None
        self._is_interrupted = False
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._has_ended = False
        self._ended = threading.Lock()  # taken until the work has ended
        self._ended.acquire()

    # -- in the loop -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(_carried_out(self._work))
        self._task.add_done_callback(self._end)

    def interrupt(self) -> None:
        self._is_interrupted = True
        if self._has_ended:
            self._give_back()
        elif self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[T]) -> None:
        self._task = None
        if task.cancelled():
            self._error = WrongState("the call was given up: its process or its client has come to an end")
        elif (error := task.exception()) is not None:
            self._error = error
        else:
            self._results.append(task.result())
        self._has_ended = True
        if self._is_interrupted:
            self._give_back()
        self._ended.release()

    def _give_back(self) -> None:
        if self._on_unwanted is not None and self._results:
            self._on_unwanted(self._results.pop())

    # -- in the thread that waits ----------------------------------------------------------------------------

    def wait(self) -> None:
        if threading.current_thread() is threading.main_thread():
            while not self.has_ended_in(_LOOK_UP_SECONDS):
                pass
        else:
            self.has_ended_in(_FOR_EVER)

    def has_ended_in(self, seconds: float) -> bool:
        return self._has_ended or self._ended.acquire(timeout=seconds)

    def result(self) -> T:
        error, self._error = self._error, None
        if error is None:
            return self._results.pop()
        try:
            raise error
        finally:
            del error  # it knows this frame


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
        work: Callable[[], Coroutine[Any, Any, T]],
        *,
        on_unwanted: Callable[[T], None] | None = None,
        interrupt_seconds: float = INTERRUPT_SECONDS,
    ) -> T:
        """Wait for the work to be done in the loop.

        An exception that a signal raises in the waiting thread, KeyboardInterrupt above all, cancels the work; should
        it be done all the same, `on_unwanted` gets its result, in the loop.
        """
        self._check_caller()
        call = _Call(work, on_unwanted)
        try:
            self.loop.call_soon_threadsafe(call.begin)
            call.wait()
        except BaseException:
            self.loop.call_soon_threadsafe(call.interrupt)
            call.has_ended_in(interrupt_seconds)
            raise
        return call.result()

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have it finished, and wait for nothing."""
        if self._is_ending:
            raise WrongState(_ENDING)
        self.loop.call_soon_threadsafe(lambda: self.finish(work()))

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

    def may_wait_here(self) -> bool:
        """Whether this thread may wait for the loop."""
        return not self._is_ending and threading.get_ident() != self._thread.ident

    def _check_caller(self) -> None:
        if self._is_ending:
            raise WrongState(_ENDING)
        if not self.may_wait_here():
            raise WrongState(
                "a blocking call from the thread that would have to carry it out would wait for itself; "
                "a function that chooses queues must not call clients"
            )

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
        stopping = _Call(self._stop_all, None)
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


async def _carried_out(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Also when the call itself fails, it fails in the task."""
    return await work()


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
