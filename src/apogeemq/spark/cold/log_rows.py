"""From records of a log to Arrow batches: those that are wanted, of all topics and queues at once. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from apogeemq.model.flags import TRANSACTION_MASK
from apogeemq.protocol.record import Record, is_intact
from apogeemq.spark.cold.chunks import Chunk
from apogeemq.spark.cold.wanted import NEVER_IN_QUEUE, Wanted
from apogeemq.spark.reading.binary_fields import Indices, fields_of
from apogeemq.spark.reading.merged_batches import merged_batches
from apogeemq.spark.reading.property_table import PropertyTable
from apogeemq.spark.reading.record_heads import Mask, RecordHeads
from apogeemq.spark.reading.single_rows import RecordPlace, Row, batch_of_rows, single_rows
from apogeemq.spark.reading.usual_rows import FROM_PROPERTIES, UsualRows, regular_table
from apogeemq.spark.source.ranges import OffsetRange

_EVERY_OFFSET: Final = (-(2**63), 2**63 - 1)
_OF_QUEUE: Final = ("topic", "broker", "queue_id")


class LogRows:
    """Makes the batches of one scan."""

    def __init__(self, schema: pa.Schema, wanted: Wanted, broker: str | None, *, checks_crc: bool) -> None:
        self._schema = schema
        self._wanted = wanted
        self._broker = broker
        self._checks_crc = checks_crc
        self._needs_table = not FROM_PROPERTIES.isdisjoint(schema.names)
        self._is_taken: dict[bytes, bool] = {}  # by topic

    def batches(self, chunk: Chunk, pass_over: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        """In the order of the log. `pass_over` is told the physical offsets of messages that are damaged."""
        is_wanted, others = self._is_wanted(chunk), {n: one for n, one in chunk.others.items() if self._takes(one)}
        for number in self._damaged(chunk, np.flatnonzero(is_wanted), others):
            pass_over(chunk.base + chunk.position_of(number))
            is_wanted[number] = False
            others.pop(number, None)
        numbers = np.flatnonzero(is_wanted)
        if not len(numbers) and not others:
            return
        heads = chunk.heads if len(numbers) == len(chunk) else chunk.heads.only(numbers)
        singles, table = list(others), None
        if self._needs_table:
            table, kept = regular_table(heads)
            if len(kept) < len(numbers):
                singles += np.delete(numbers, kept).tolist()
                heads, numbers = heads.only(kept), numbers[kept]
        usual = self._batch_of_usual(heads, table)
        yield from merged_batches(usual, numbers, _single_rows(chunk, sorted(singles)), self._batch_of_singles)

    def _damaged(self, chunk: Chunk, usual: Indices, others: Mapping[int, Record]) -> list[int]:
        """Those with a topic that cannot be, wanted or not, and of the wanted those with another body."""
        damaged: set[int] = set(np.flatnonzero(chunk.strange_topics()).tolist())
        if self._checks_crc:
            damaged.update(usual[~chunk.has_intact_body(usual)].tolist())
            damaged.update(number for number, record in others.items() if not is_intact(record))
        return sorted(damaged)

    # -- which -----------------------------------------------------------------------------------------------

    def _is_wanted(self, chunk: Chunk) -> Mask:
        """Of the usual records."""
        wanted = self._wanted
        codes, topics = chunk.topics
        is_wanted: Mask = np.zeros(len(chunk), np.bool_)
        takes = np.array([self._takes_topic(topic) for topic in topics], np.bool_)
        is_wanted[chunk.is_usual] = takes[codes] if len(takes) else False
        if wanted.is_bounded_in_time:
            times = chunk.heads.int64("store_time")
            if wanted.start_ms is not None:
                is_wanted &= times >= wanted.start_ms
            if wanted.end_ms is not None:
                is_wanted &= times < wanted.end_ms
        if not wanted.is_internal_wanted:
            is_wanted &= ~np.isin(chunk.heads.int32("system_flag") & TRANSACTION_MASK, NEVER_IN_QUEUE)
        return is_wanted

    def _takes_topic(self, topic: bytes) -> bool:
        found = self._is_taken.get(topic)
        if found is None:
            found = self._is_taken[topic] = self._wanted.takes_topic(topic.decode(errors="replace"))
        return found

    def _takes(self, record: Record) -> bool:
        return (
            self._takes_topic(record.topic)
            and self._wanted.takes_time(record.store_time)
            and self._wanted.takes_flag(record.system_flag)
        )

    # -- rows ------------------------------------------------------------------------------------------------

    def _batch_of_usual(self, heads: RecordHeads, table: PropertyTable | None) -> pa.RecordBatch:
        of_queue = {
            "topic": lambda: fields_of(heads.data, heads.topic_starts + 1, heads.property_starts - 2, pa.string()),
            "broker": lambda: pa.nulls(len(heads), pa.string()),
            "queue_id": lambda: pa.array(heads.int32("queue_id")),
        }
        own = [field for field in self._schema if field.name not in _OF_QUEUE]
        rest = pa.schema(own, self._schema.metadata)
        span = OffsetRange("", "", 0, *_EVERY_OFFSET)
        others = UsualRows(heads, [span], np.array([len(heads)]), table).batch(rest)
        columns = [of_queue[name]() if name in of_queue else others.column(name) for name in self._schema.names]
        return self._with_broker(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _batch_of_singles(self, rows: Sequence[Row]) -> pa.RecordBatch:
        return self._with_broker(batch_of_rows(rows, self._schema))

    def _with_broker(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        place = self._schema.get_field_index("broker")
        if place < 0:
            return batch
        text = pa.scalar(self._broker, pa.string())
        return batch.set_column(place, self._schema.field(place), pa.repeat(text, batch.num_rows))


def _single_rows(chunk: Chunk, numbers: Sequence[int]) -> Iterator[Row]:
    return single_rows(chunk.data, (_place(chunk, number) for number in numbers))


def _place(chunk: Chunk, number: int) -> RecordPlace:
    record = chunk.record(number)
    span = OffsetRange(record.topic.decode(errors="replace"), "", record.queue_id, *_EVERY_OFFSET)
    return RecordPlace(number, span, chunk.position_of(number))
