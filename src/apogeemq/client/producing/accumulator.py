"""Puts messages together into batches: until there are enough bytes, or the first has waited long enough."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from apogeemq.client.producing.gathered import Gathered, body_of
from apogeemq.model.messages import Message, SendResult
from apogeemq.model.queues import MessageQueue

SendBatch = Callable[[Gathered], Awaitable[list[SendResult]]]
BatchEnded = Callable[[int, int], None]


class _Batch:
    __slots__ = ("is_answered", "messages", "results", "timer", "topic", "waits_for_store")

    def __init__(self, first: Message, timer: asyncio.TimerHandle) -> None:
        self.topic = first.topic
        self.waits_for_store = first.waits_for_store
        self.messages = Gathered(first)
        self.results: list[asyncio.Future[SendResult]] = []
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
            batch = self._growing[key] = _Batch(message, timer)
        self._last = batch
        return batch

    def _added_to(self, batch: _Batch) -> asyncio.Future[SendResult]:
        assert self._loop is not None
        result: asyncio.Future[SendResult] = self._loop.create_future()
        batch.results.append(result)
        if batch.messages.size >= self._max_bytes:
            self._ripe((batch.topic, batch.waits_for_store))
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
            self._ended(batch.messages.size, len(batch.results))
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
        for number, result in enumerate(batch.results):
            try:
                result.set_result(sent[number])
            except asyncio.InvalidStateError:  # given up by who waited for it; to ask each one costs more
                continue
        batch.is_answered = True

    def _batch_ended(self, batch: _Batch, done: asyncio.Task[None]) -> None:
        """Also when it was cancelled before it began."""
        self._sending.discard(done)
        self._ended(batch.messages.size, len(batch.results))
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


def results_of_batch(result: SendResult, unique_ids: list[str]) -> list[SendResult]:
    """One result for each message of a batch: they lie at consecutive offsets of one queue."""
    offset_ids = result.offset_id.split(",")
    if len(offset_ids) != len(unique_ids):  # a broker that keeps a batch as one record names one place
        offset_ids = [result.offset_id] * len(unique_ids)
    status, transaction_id, offset = result.status, result.transaction_id, result.queue_offset
    queue: MessageQueue = result.queue
    made, results = SendResult, list[SendResult]()
    for number, unique_id in enumerate(unique_ids):
        results.append(made(status, unique_id, offset_ids[number], queue, offset + number, transaction_id))
    return results
