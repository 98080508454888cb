"""An id for each row of a batch."""

from __future__ import annotations

import os
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from apogeemq.errors import MessageIllegal
from apogeemq.runtime.clock import now_ms
from apogeemq.runtime.unique_ids import UniqueIds
from apogeemq.spark.sink.arrow_texts import keys_of
from apogeemq.spark.sink.columns import SinkColumns
from apogeemq.spark.sink.ids import ID_SIZE, Ids, IdScope

_NO_ADDRESS: Final = bytes(4)
_COUNTER: Final = slice(14, 16)


class RowIds(Protocol):
    """Of the rows of one task, batch after batch."""

    def of(self, batch: pa.RecordBatch) -> Ids: ...


def row_ids(columns: SinkColumns, scope: IdScope) -> RowIds:
    if columns.id_columns:
        return KeyIds(scope, columns.id_columns)
    return PositionIds(scope, columns.position) if columns.position else FreshIds()


class FreshIds:
    """New ones each time, in the layout that producers give them."""

    def __init__(self) -> None:
        self._starts = UniqueIds(_NO_ADDRESS)
        self._next = int.from_bytes(os.urandom(2))

    def of(self, batch: pa.RecordBatch) -> Ids:
        count = batch.num_rows
        first = self._starts.next(now_ms())
        ids = np.empty((count, ID_SIZE), dtype=np.uint8)
        ids[:] = np.frombuffer(bytes.fromhex(first), dtype=np.uint8)
        numbers = np.arange(self._next, self._next + count, dtype=np.int64)
        self._next += count
        # Two bytes count; what is beyond them goes where others have an address.
        ids[:, _COUNTER] = (numbers & 0xFFFF).astype(">u2").view(np.uint8).reshape(-1, 2)
        ids[:, :4] = (numbers >> 16).astype(">u4").view(np.uint8).reshape(-1, 4)
        return ids


class KeyIds:
    def __init__(self, scope: IdScope, names: tuple[str, ...]) -> None:
        self._scope = scope
        self._names = names

    def of(self, batch: pa.RecordBatch) -> Ids:
        return self._scope.of_keys(keys_of([batch.column(name) for name in self._names]))


class PositionIds:
    """From where the source message of each row was. Rows of one message must follow each other."""

    def __init__(self, scope: IdScope, names: tuple[str, ...]) -> None:
        self._scope = scope
        self._names = names
        self._last: tuple[tuple[str, str, int], int, int] | None = None  # source, offset, occurrence

    def of(self, batch: pa.RecordBatch) -> Ids:
        columns = [batch.column(name) for name in self._names]
        if unknown := [name for name, column in zip(self._names, columns, strict=True) if column.null_count]:
            raise MessageIllegal(f"rows without {', '.join(unknown)} have no source message to take their id from")
        sources, numbers = _sources(columns[0], columns[1], columns[2])
        offsets = np.asarray(columns[3], dtype=np.int64)
        occurrences = self._occurrences(sources, numbers, offsets)
        return self._scope.of_positions(sources, numbers, offsets, occurrences)

    def _occurrences(
        self,
        sources: list[tuple[str, str, int]],
        numbers: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        count = len(offsets)
        if not count:
            return np.zeros(0, dtype=np.int64)
        begins = np.ones(count, dtype=bool)
        begins[1:] = (numbers[1:] != numbers[:-1]) | (offsets[1:] != offsets[:-1])
        places = np.arange(count, dtype=np.int64)
        found = places - np.maximum.accumulate(np.where(begins, places, 0))
        first = (sources[int(numbers[0])], int(offsets[0]))
        if self._last is not None and self._last[:2] == first:
            run = int(np.argmax(begins[1:])) + 1 if begins[1:].any() else count
            found[:run] += self._last[2] + 1
        self._last = (sources[int(numbers[-1])], int(offsets[-1]), int(found[-1]))
        return found


def _sources(
    topics: pa.Array, brokers: pa.Array, queues: pa.Array
) -> tuple[list[tuple[str, str, int]], npt.NDArray[np.int64]]:
    """The different queues there are, and the number of each row's."""
    by_topic, by_broker = pc.dictionary_encode(topics), pc.dictionary_encode(brokers)
    broker_count = max(len(by_broker.dictionary), 1)
    queue_ids = np.asarray(queues, dtype=np.int64)
    place = np.asarray(by_topic.indices, dtype=np.int64) * broker_count + np.asarray(by_broker.indices, dtype=np.int64)
    unique, numbers = np.unique(place * 2**32 + queue_ids, return_inverse=True)
    topic_names, broker_names = by_topic.dictionary.to_pylist(), by_broker.dictionary.to_pylist()
    sources = [
        (topic_names[place // broker_count], broker_names[place % broker_count], queue_id)
        for place, queue_id in (divmod(int(each), 2**32) for each in unique)
    ]
    return sources, numbers.astype(np.int64)
