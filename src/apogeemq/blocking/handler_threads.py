"""Threads in which a program's functions run, so that they may take their time and make calls themselves."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

log = logging.getLogger(__name__)

_Work = Callable[[], None]
_numbers = itertools.count(1)


class HandlerThreads:
    """As many as are needed at once; whoever gives them work limits that. None of them holds up the end of the process.

    `run` and `close` belong to one event loop.
    """

    def __init__(self) -> None:
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []

    @property
    def are_calling(self) -> bool:
        """Whether the caller is one of them."""
        return threading.current_thread() in self._threads

    def run(self, function: Callable[[], None]) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def work() -> None:
            error: BaseException | None = None
            try:
                function()
            except BaseException as failure:
                error = failure
            loop.call_soon_threadsafe(_settle, ended, error)

        if not self._idle.acquire(blocking=False):
            name = f"apogeemq-handler-{next(_numbers)}"
            thread = threading.Thread(target=_serve, args=(self._work, self._idle), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._work.put(work)
        return ended

    def close(self) -> None:
        """Each thread ends with what it is doing."""
        for _ in self._threads:
            self._work.put(None)
        self._work, self._idle, self._threads = SimpleQueue(), threading.Semaphore(0), []


def _serve(waiting: SimpleQueue[_Work | None], idle: threading.Semaphore) -> None:
    while (work := waiting.get()) is not None:
        work()
        del work  # what it holds must not live until the next
        idle.release()


def _settle(ended: asyncio.Future[None], error: BaseException | None) -> None:
    if ended.cancelled():
        return
    if error is None:
        ended.set_result(None)
    elif isinstance(error, Exception):
        ended.set_exception(error)
    else:  # such as SystemExit, which is about the thread: the loop must not end by it
        ended.set_exception(RuntimeError(f"the handler ended with {error!r}"))


class ListenerThread:
    """One after the other, in the order they were given. It does not hold up the end of the process either."""

    def __init__(self) -> None:
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._is_running = False

    def call(self, function: _Work) -> None:
        if not self._is_running:
            self._is_running = True
            threading.Thread(target=_listen, args=(self._work,), name="apogeemq-listener", daemon=True).start()
        self._work.put(function)

    def close(self) -> None:
        """It ends with what it was given."""
        if self._is_running:
            self._is_running = False
            self._work.put(None)
            self._work = SimpleQueue()


def _listen(waiting: SimpleQueue[_Work | None]) -> None:
    while (work := waiting.get()) is not None:
        try:
            work()
        except Exception:  # it is the program's; we go on
            log.exception("a listener failed")
