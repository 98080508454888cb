"""Puts messages together into batches: until there are enough bytes, or the first has waited long enough."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from apogeemq.client.producing.batch_results import BatchOutcome, BatchResults, PendingResult
from apogeemq.client.producing.gathered import Gathered, body_of
from apogeemq.model.messages import Message, SendResult

SendBatch = Callable[[Gathered], Awaitable[BatchResults]]
BatchEnded = Callable[[int, int], None]


class _Batch:
    __slots__ = ("messages", "outcome", "timer", "topic", "waits_for_store")

    def __init__(self, first: Message, loop: asyncio.AbstractEventLoop, timer: asyncio.TimerHandle) -> None:
        self.topic = first.topic
        self.waits_for_store = first.waits_for_store
        self.messages = Gathered(first)
        self.outcome = BatchOutcome(loop)
        self.timer = timer


class Accumulator:
    """One growing batch for each topic and way of waiting; `send` takes messages of one topic.

    `ended` is told of every batch, by the size of its bodies and its count, once its messages have their results.
    """

    def __init__(
        self, send: SendBatch, linger_seconds: float, max_bytes: int, ended: BatchEnded = lambda size, count: None
    ) -> None:
        self._send = send
        self._linger_seconds = linger_seconds
        self._max_bytes = max_bytes
        self._ended = ended
        self._loop: asyncio.AbstractEventLoop | None = None
        self._growing: dict[tuple[str, bool], _Batch] = {}
        self._last: _Batch | None = None  # of those that grow: most messages go where the one before went
        self._sending: set[asyncio.Task[None]] = set()

    def add(self, message: Message) -> asyncio.Future[SendResult]:
        """The result its message will have; the batch is sent without anybody waiting for it."""
        batch = self._batch(message, message.topic, len(body_of(message)))
        batch.messages.add(message)
        return self._added_to(batch)

    def add_plain(self, message: Message, body: bytes, topic: str, tags: str) -> asyncio.Future[SendResult]:
        """The same of one that `is_plain` is true of, by who has its parts at hand."""
        batch = self._batch(message, topic, len(body))
        batch.messages.add_plain(message, body, tags)
        return self._added_to(batch)

    def _batch(self, message: Message, topic: str, size: int) -> _Batch:
        """Where there is room for it."""
        batch, waits = self._last, message.waits_for_store
        if batch is None or batch.topic != topic or batch.waits_for_store != waits:
            batch = self._growing.get((topic, waits))
        if batch is not None and batch.messages.size + size > self._max_bytes:
            self._ripe((topic, waits))
            batch = None
        if batch is None:
            if self._loop is None:  # asked for once: each time is a call of the system
                self._loop = asyncio.get_running_loop()
            key = (topic, waits)
            timer = self._loop.call_later(self._linger_seconds, self._ripe, key)
            batch = self._growing[key] = _Batch(message, self._loop, timer)
        self._last = batch
        return batch

    def _added_to(self, batch: _Batch) -> asyncio.Future[SendResult]:
        result = PendingResult(batch.outcome, len(batch.messages) - 1)
        if batch.messages.size >= self._max_bytes:
            self._ripe((batch.topic, batch.waits_for_store))
        return result  # type: ignore[return-value]  # a future, as far as asyncio is concerned

    async def flush(self) -> None:
        """Send what there is, and wait until it has its answers."""
        for key in tuple(self._growing):
            self._ripe(key)
        while self._sending:
            await asyncio.wait(tuple(self._sending))

    def cancel(self) -> None:
        """Give up what is not sent yet, and what has no answer yet."""
        for batch in self._growing.values():
            batch.timer.cancel()
            batch.outcome.cancel()
            self._ended(batch.messages.size, len(batch.messages))
        self._growing.clear()
        self._last = None
        for task in tuple(self._sending):
            task.cancel()

    def _ripe(self, key: tuple[str, bool]) -> None:
        batch = self._growing.pop(key, None)
        if batch is None:
            return
        if batch is self._last:
            self._last = None
        batch.timer.cancel()
        task = asyncio.ensure_future(self._send_batch(batch))
        self._sending.add(task)
        task.add_done_callback(lambda done: self._batch_ended(batch, done))

    async def _send_batch(self, batch: _Batch) -> None:
        batch.outcome.set_results(await self._send(batch.messages))

    def _batch_ended(self, batch: _Batch, done: asyncio.Task[None]) -> None:
        """Also when it was cancelled before it began."""
        self._sending.discard(done)
        self._ended(batch.messages.size, len(batch.messages))
        if done.cancelled():
            batch.outcome.cancel()
        elif (error := done.exception()) is not None:
            batch.outcome.set_error(error)
