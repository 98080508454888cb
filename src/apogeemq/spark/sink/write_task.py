"""What one task writes: rows in, messages at brokers out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from apogeemq.blocking.background import background_loop
from apogeemq.client import Producer
from apogeemq.spark.sink.columns import SinkColumns
from apogeemq.spark.sink.ids import Ids
from apogeemq.spark.sink.requests import Request, requests_of
from apogeemq.spark.sink.rows import RowEncoder
from apogeemq.spark.sink.sending import Guard, Sender
from apogeemq.spark.sink.write_options import WriteOptions
from apogeemq.spark.worker_memory import settle_worker


class Written(NamedTuple):
    rows: int
    requests: int


class WriteTask:
    """Encodes in the caller's thread while the loop of the process sends. Use it in `with`."""

    def __init__(self, producer: Producer, options: WriteOptions, columns: SinkColumns, guard: Guard) -> None:
        settle_worker()
        self._options = options
        self._encoder = RowEncoder(columns, options)
        self._guard = guard
        self._loop = background_loop()
        self._sender = Sender(producer, options, guard)
        self._queue_counts: dict[str, int] = {}

    def __enter__(self) -> WriteTask:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._loop.run(self._sender.cancel)

    def write(self, batch: pa.RecordBatch, ids: Ids) -> None:
        """Returns when all of it is on its way; raises what any send so far has failed with."""
        rows = self._encoder.encode(batch, ids)
        self._add(list(requests_of(rows, self._options, self._queue_count)))

    def finish(self) -> Written:
        """When this returns, brokers have acknowledged everything."""
        self._loop.run(self._sender.finish)
        return Written(self._sender.row_count, self._sender.request_count)

    def _add(self, requests: Iterable[Request]) -> None:
        self._loop.run(lambda: self._sender.add(requests))

    def _queue_count(self, topic: str) -> int:
        """Asked once: keys must not change their queues within a task."""
        if topic not in self._queue_counts:
            self._queue_counts[topic] = len(self._loop.run(lambda: self._queues(topic)))
        return self._queue_counts[topic]

    async def _queues(self, topic: str) -> tuple[object, ...]:
        return tuple(await self._guard.queues(topic))
