"""Runs the function a program gave for its messages: several at once, or one message that a broker asks for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from apogeemq.client.consuming.incoming import HERE_AGAIN, ConsumedMessage
from apogeemq.protocol.bodies import consumers as bodies
from apogeemq.runtime.clock import monotonic_ms

log = logging.getLogger(__name__)

Handler = Callable[[ConsumedMessage], Awaitable[None]]
Take = Callable[[], Awaitable[ConsumedMessage | None]]

_LAST_SECONDS: Final = 1.0  # for a handler that was cancelled


class _Workers:
    """Of one run."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.are_ending = False


class Handlers:
    """Keeps account of what is at work, so that it can be waited for."""

    def __init__(self) -> None:
        self._at_work: set[asyncio.Task[object]] = set()
        self._one_is_done = asyncio.Event()
        self.concurrency = 0

    async def run(self, handler: Handler, take: Take, concurrency: int, grace_seconds: float) -> None:
        """Until there are no more messages. Cancelled, it begins nothing new and waits for handlers at work as
        `finish` does; cancelled again, it cancels them."""
        workers = _Workers()
        self.concurrency += concurrency
        running = asyncio.ensure_future(self._run(workers, handler, take, concurrency))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            workers.are_ending = True
            for worker in workers.tasks:
                if worker not in self._at_work:
                    worker.cancel()
            await self.finish(grace_seconds)
            raise
        finally:
            self.concurrency -= concurrency
            if not running.done():
                running.cancel()
                await asyncio.wait((running,))

    async def _run(self, workers: _Workers, handler: Handler, take: Take, concurrency: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                workers.tasks.append(group.create_task(self._work(workers, handler, take)))

    async def _work(self, workers: _Workers, handler: Handler, take: Take) -> None:
        own = asyncio.current_task()
        assert own is not None
        while not workers.are_ending and (message := await take()) is not None:
            self._at_work.add(own)
            try:
                await _call(handler, message)
            except Exception:
                log.exception("%r was not dealt with and will come again", message)
                await message.retry()
            except asyncio.CancelledError:
                if (settle := message.unsettle()) is not None:
                    settle(message, HERE_AGAIN)  # it has not failed, and its consumer may live on
                raise
            else:
                await message.ack()
            finally:
                self._ended(own)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._at_work.discard(task)
        self._one_is_done.set()

    async def finish(self, grace_seconds: float) -> None:
        """Wait for those at work, then cancel them; whoever calls this is not waited for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                while self._others():
                    self._one_is_done.clear()
                    await self._one_is_done.wait()
        late = self._others()
        for task in late:
            task.cancel()
        if late:
            log.warning("%d handlers were cancelled; their messages will come again", len(late))
            await asyncio.wait(late, timeout=_LAST_SECONDS)

    @property
    def are_calling(self) -> bool:
        """Whether the caller is one of them."""
        return asyncio.current_task() in self._at_work

    def _others(self) -> set[asyncio.Task[object]]:
        own = asyncio.current_task()
        return {task for task in self._at_work if task is not own}

    async def consume_directly(self, handler: Handler | None, message: ConsumedMessage, *, is_ordered: bool) -> bytes:
        """Outside of any order and limit, as an administrator asked; says what became of it."""
        started_ms = monotonic_ms()
        asked: list[int | None] = []

        async def note(message: ConsumedMessage, delay_level: int | None) -> None:
            asked.append(delay_level)

        result, remark = bodies.CONSUMED, None
        message.settled_by(note)
        if handler is None:
            result, remark = bodies.NO_RESULT, "this consumer has no handler: its program takes messages by itself"
        else:
            own = asyncio.current_task()
            assert own is not None
            self._at_work.add(own)
            try:
                await _call(handler, message)
                if asked and asked[0] is not None:
                    result = bodies.LATER
            except Exception as error:
                log.exception("%r was not dealt with", message)
                result, remark = bodies.RAISED, f"{type(error).__name__}: {error}"
            finally:
                self._ended(own)
        spent_ms = monotonic_ms() - started_ms
        return bodies.encode_directly_result(result, is_ordered=is_ordered, spent_ms=spent_ms, remark=remark)


class _HandlerCancelled(Exception):
    """Something inside a handler was cancelled, and the handler did not deal with that."""


async def _call(handler: Handler, message: ConsumedMessage) -> None:
    """A cancellation that is not of this task is the handler's own failure, and ends nobody else."""
    try:
        await handler(message)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise _HandlerCancelled("the handler was cancelled from within") from None
