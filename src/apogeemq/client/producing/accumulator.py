"""Puts messages together into batches: until there are enough bytes, or the first has waited long enough."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from apogeemq.model.messages import Message, SendResult
from apogeemq.model.queues import MessageQueue

SendBatch = Callable[[Sequence[Message]], Awaitable[SendResult]]


class _Waiting(NamedTuple):
    message: Message
    result: asyncio.Future[SendResult]


class _Batch:
    def __init__(self) -> None:
        self.waiting: list[_Waiting] = []
        self.size = 0
        self.timer: asyncio.TimerHandle | None = None


class Accumulator:
    """One growing batch for each topic and way of waiting; `send` takes messages of one topic."""

    def __init__(self, send: SendBatch, linger_seconds: float, max_bytes: int) -> None:
        self._send = send
        self._linger_seconds = linger_seconds
        self._max_bytes = max_bytes
        self._growing: dict[tuple[str, bool], _Batch] = {}
        self._sending: set[asyncio.Task[None]] = set()

    def add(self, message: Message) -> asyncio.Future[SendResult]:
        """The result its message will have; the batch is sent without anybody waiting for it."""
        loop = asyncio.get_running_loop()
        key = (message.topic, message.waits_for_store)
        growing = self._growing.get(key)
        if growing is not None and growing.size + len(message.body) > self._max_bytes:
            self._ripe(key)
        batch = self._growing.get(key)
        if batch is None:
            batch = self._growing[key] = _Batch()
            batch.timer = loop.call_later(self._linger_seconds, self._ripe, key)
        result: asyncio.Future[SendResult] = loop.create_future()
        batch.waiting.append(_Waiting(message, result))
        batch.size += len(message.body)
        if batch.size >= self._max_bytes:
            self._ripe(key)
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
            if batch.timer is not None:
                batch.timer.cancel()
            for entry in batch.waiting:
                entry.result.cancel()
        self._growing.clear()
        for task in tuple(self._sending):
            task.cancel()

    def _ripe(self, key: tuple[str, bool]) -> None:
        batch = self._growing.pop(key, None)
        if batch is None:
            return
        if batch.timer is not None:
            batch.timer.cancel()
        task = asyncio.ensure_future(self._send_batch(batch.waiting))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_batch(self, waiting: list[_Waiting]) -> None:
        try:
            result = await self._send([entry.message for entry in waiting])
        except BaseException as error:
            for entry in waiting:
                if not entry.result.done():
                    entry.result.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for entry, own in zip(waiting, results_of_batch(result, len(waiting)), strict=True):
            if not entry.result.done():
                entry.result.set_result(own)


def results_of_batch(result: SendResult, count: int) -> list[SendResult]:
    """One result for each message of a batch: they lie at consecutive offsets of one queue."""
    message_ids, offset_ids = result.message_id.split(","), result.offset_id.split(",")
    if len(offset_ids) != count:  # a broker that keeps a batch as one record names one place
        offset_ids = [result.offset_id] * count
    queue: MessageQueue = result.queue
    return [
        SendResult(result.status, message_id, offset_id, queue, result.queue_offset + index, result.transaction_id)
        for index, (message_id, offset_id) in enumerate(zip(message_ids, offset_ids, strict=True))
    ]
