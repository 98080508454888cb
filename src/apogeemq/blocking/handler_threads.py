"""Threads in which a program's handlers run, so that they may take their time."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from queue import SimpleQueue

_Work = Callable[[], None]
_numbers = itertools.count(1)


class HandlerThreads:
    """As many as are needed at once; whoever gives them work limits that. None of them holds up the end of the process.

    `run` and `close` belong to one event loop.
    """

    def __init__(self) -> None:
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

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
            self._count += 1
            threading.Thread(
                target=_serve, args=(self._work, self._idle), name=f"apogeemq-handler-{next(_numbers)}", daemon=True
            ).start()
        self._work.put(work)
        return ended

    def close(self) -> None:
        """Each thread ends with what it is doing."""
        for _ in range(self._count):
            self._work.put(None)
        self._work, self._idle, self._count = SimpleQueue(), threading.Semaphore(0), 0


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
