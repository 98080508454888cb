"""Puts messages together into batches: until there are enough bytes, or the first has waited long enough."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from apogeemq.client.producing.outgoing import body_of
from apogeemq.model.messages import Message, SendResult
from apogeemq.model.queues import MessageQueue

SendBatch = Callable[[Sequence[Message]], Awaitable[SendResult]]
BatchEnded = Callable[[int, int], None]


class _Batch:
    __slots__ = ("is_answered", "messages", "results", "size", "timer", "topic", "waits_for_store")

    def __init__(self, topic: str, waits_for_store: bool, timer: asyncio.TimerHandle) -> None:
        self.topic = topic
        self.waits_for_store = waits_for_store
        self.messages: list[Message] = []
        self.results: list[asyncio.Future[SendResult]] = []
        self.size = 0
        self.timer = timer
        self.is_answered = False


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
        loop = self._loop
        if loop is None:  # asked for once: each time is a call of the system
            loop = self._loop = asyncio.get_running_loop()
        topic, waits, size = message.topic, message.waits_for_store, len(body_of(message))
        batch = self._last
        if batch is None or batch.topic != topic or batch.waits_for_store != waits:
            batch = self._growing.get((topic, waits))
        if batch is not None and batch.size + size > self._max_bytes:
            self._ripe((topic, waits))
            batch = None
        if batch is None:
            key = (topic, waits)
            timer = loop.call_later(self._linger_seconds, self._ripe, key)
            batch = self._growing[key] = _Batch(topic, waits, timer)
        self._last = batch
        result: asyncio.Future[SendResult] = loop.create_future()
        batch.messages.append(message)
        batch.results.append(result)
        batch.size += size
        if batch.size >= self._max_bytes:
            self._ripe((topic, waits))
        return result

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
            for result in batch.results:
                result.cancel()
            self._ended(batch.size, len(batch.results))
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
        sent = await self._send(batch.messages)
        for result, own in zip(batch.results, results_of_batch(sent, len(batch.results)), strict=True):
            if not result.done():
                result.set_result(own)
        batch.is_answered = True

    def _batch_ended(self, batch: _Batch, done: asyncio.Task[None]) -> None:
        """Also when it was cancelled before it began."""
        self._sending.discard(done)
        self._ended(batch.size, len(batch.results))
        if batch.is_answered:
            return
        error = None if done.cancelled() else done.exception()
        for result in batch.results:
            if result.done():
                continue
            if error is None:
                result.cancel()
            else:
                result.set_exception(error)


def results_of_batch(result: SendResult, count: int) -> list[SendResult]:
    """One result for each message of a batch: they lie at consecutive offsets of one queue."""
    message_ids, offset_ids = result.message_id.split(","), result.offset_id.split(",")
    if len(offset_ids) != count:  # a broker that keeps a batch as one record names one place
        offset_ids = [result.offset_id] * count
    status, transaction_id, offset = result.status, result.transaction_id, result.queue_offset
    queue: MessageQueue = result.queue
    results: list[SendResult] = []
    for message_id, offset_id in zip(message_ids, offset_ids, strict=True):
        results.append(SendResult(status, message_id, offset_id, queue, offset, transaction_id))
        offset += 1
    return results
