"""What a party does on its own: work begun and left alone, work done again and again. All of it ends together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable

from apogeemq.errors import ApogeeError

log = logging.getLogger(__name__)


class Tasks:
    """Belongs to one event loop. A failure is logged, and ends nobody else."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Awaitable[None]) -> None:
        """Runs until it ends by itself or by `cancel_all`."""
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def repeat(self, period_seconds: Callable[[], float], action: Callable[[], Awaitable[None] | None]) -> None:
        """The period is asked for each time; a time that fails does not end the others."""

        async def run() -> None:
            while True:
                await self._sleep(period_seconds())
                try:
                    if isawaitable(work := action()):
                        await work
                except ApogeeError as error:
                    log.warning("%s", error)
                except Exception:
                    log.exception("a periodic task failed")

        self.spawn(run())

    async def cancel_all(self) -> None:
        """When this returns, nothing runs any more."""
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of the background failed", exc_info=error)
