"""Sleeping on an event loop that sets no timer of its own.

A loop with a timer has the kernel set it before every wait for the next request and take it back after: with one
request at a time that is a tenth of what an answer costs. Here a thread keeps the time and wakes the loop when it has
come. For servers, whose periodic work is a matter of seconds.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from threading import Condition, Thread


class AlarmClock:
    """Belongs to the event loop it was first asked on, until `close`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sleeping: list[tuple[float, int, asyncio.Future[None]]] = []  # a heap; seen by the loop's thread alone
        self._numbers = count()
        self._changed = Condition()
        self._alarm = math.inf  # when the loop is to be woken
        self._is_closed = False
        self._thread = Thread(target=self._keep_time, name="alarm-clock", daemon=True)

    async def sleep(self, seconds: float) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._thread.start()
        woken = self._loop.create_future()
        heappush(self._sleeping, (time.monotonic() + seconds, next(self._numbers), woken))
        self._set_alarm()
        await woken

    def close(self) -> None:
        """Nobody sleeps any more, and nobody will."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._loop is not None:
            self._thread.join()

    def _set_alarm(self) -> None:
        while self._sleeping and self._sleeping[0][2].done():  # cancelled
            heappop(self._sleeping)
        with self._changed:
            self._alarm = self._sleeping[0][0] if self._sleeping else math.inf
            self._changed.notify()

    def _wake(self) -> None:
        now = time.monotonic()
        while self._sleeping and self._sleeping[0][0] <= now:
            woken = heappop(self._sleeping)[2]
            if not woken.done():
                woken.set_result(None)
        self._set_alarm()

    def _keep_time(self) -> None:
        assert self._loop is not None
        with self._changed:
            while not self._is_closed:
                left = self._alarm - time.monotonic()
                if left > 0:
                    self._changed.wait(left if left < math.inf else None)
                    continue
                self._alarm = math.inf
                with suppress(RuntimeError):  # a loop that was closed before us
                    self._loop.call_soon_threadsafe(self._wake)
