"""From the records of pulls to Arrow batches, without an object for each of them.

Records that are not of the usual layout are read one by one and put back in their places; so are all when they are
few. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apogeemq.errors import ProtocolError
from apogeemq.spark.reading.binary_fields import Indices
from apogeemq.spark.reading.merged_batches import merged_batches
from apogeemq.spark.reading.property_table import PropertyTable
from apogeemq.spark.reading.record_heads import RecordHeads, read_heads, record_positions
from apogeemq.spark.reading.single_rows import UNUSUAL_FLAGS, RecordPlace, Row, batch_of_rows, single_rows
from apogeemq.spark.reading.usual_rows import FROM_PROPERTIES, UsualRows, regular_table
from apogeemq.spark.source.ranges import OffsetRange

FEW_RECORDS: Final = 128  # reading these one by one is faster


class Pulled(NamedTuple):
    """Records of one queue as answers brought them, and the offsets that are wanted: others are left out."""

    span: OffsetRange
    answers: Sequence[bytes | memoryview]


def decode(
    pulls: Sequence[Pulled],
    schema: Any,
    tags: frozenset[str] | None = None,
    *,
    tell_missing: Callable[[OffsetRange], None] | None = None,
) -> Iterator[Any]:
    """Batches with the columns of a schema, in the order of the records: one, unless some are to be read one by one.

    With `tags`, of those messages that have one of them. After the last, `tell_missing` is told offsets of the spans
    that no record has. Raises ProtocolError for anything but whole records.
    """
    chunk = _Chunk(pulls)
    usual = chunk.usual(needs_table=tags is not None or not FROM_PROPERTIES.isdisjoint(schema.names))
    batch, numbers = chunk.batch_of_usual(usual, schema, tags)
    rows, singles = chunk.single_rows_except(usual.numbers), _Singles()
    if tell_missing is not None:
        rows = singles.noted(rows)
    if tags is not None:
        rows = (row for row in rows if row.tags in tags)
    yield from merged_batches(batch, numbers, rows, partial(batch_of_rows, schema=schema))
    if tell_missing is not None:
        for gap in chunk.missing(usual, singles):
            tell_missing(gap)


class _Singles:
    """Which records were read one by one, and the offsets of their messages."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.offsets: list[int] = []

    def noted(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            self.numbers.append(row.number)
            self.offsets.append(row.record.queue_offset)
            yield row


class _Usual(NamedTuple):
    """Records of the usual layout within their spans: numbers, heads and, if asked for, properties."""

    numbers: Indices
    heads: RecordHeads | None  # None when there are no such records
    table: PropertyTable | None


_NOTHING: Final = _Usual(np.zeros(0, np.int64), None, None)


class _Chunk:
    """The records of some pulls, one after the other. They are known by their numbers."""

    def __init__(self, pulls: Sequence[Pulled]) -> None:
        self._pulls = pulls
        answers = [answer for pull in pulls for answer in pull.answers]
        # Nothing of what is made of it keeps it: whoever has lent it may use it again.
        self._data: bytes | memoryview = answers[0] if len(answers) == 1 else b"".join(answers)
        self._positions = record_positions(self._data, list(map(len, answers)))
        self._count = len(self._positions) - 1
        self._first_of_pulls = self._first_records()
        self._is_outside = np.zeros(self._count, np.bool_)  # of their spans, as far as that is known

    @cached_property
    def _pull_of(self) -> Indices:
        """Of each record."""
        return np.repeat(np.arange(len(self._pulls)), np.diff(self._first_of_pulls))

    def _first_records(self) -> Indices:
        """Of each pull, and the end."""
        borders = np.cumsum([0, *(sum(map(len, pull.answers)) for pull in self._pulls)])
        first = np.searchsorted(self._positions, borders)
        if (self._positions[first] != borders).any():
            raise ProtocolError("an answer to a pull ends within a record")
        return first

    def usual(self, *, needs_table: bool) -> _Usual:
        if not self._count or self._count < FEW_RECORDS:
            return _NOTHING
        heads, is_usual = read_heads(self._data, self._positions, UNUSUAL_FLAGS)
        if not self._are_within_span(heads.queue_offsets):
            offsets = heads.queue_offsets
            starts, ends = (np.array([pull.span[place] for pull in self._pulls], np.int64) for place in (3, 4))
            self._is_outside = is_usual & ((offsets < starts[self._pull_of]) | (offsets >= ends[self._pull_of]))
            is_usual &= ~self._is_outside
        numbers = np.flatnonzero(is_usual)
        if len(numbers) < self._count:
            heads = heads.only(numbers)
        if not needs_table:
            return _Usual(numbers, heads, None)
        table, kept = regular_table(heads)
        if len(kept) < len(numbers):
            heads, numbers = heads.only(kept), numbers[kept]
        return _Usual(numbers, heads, table)

    def _are_within_span(self, offsets: Indices) -> bool:
        """All of one queue, as they nearly always are."""
        span = self._pulls[0].span
        return len(self._pulls) == 1 and bool(offsets.min() >= span.start and offsets.max() < span.end)

    def single_rows_except(self, numbers: Indices) -> Iterator[Row]:
        if len(numbers) == self._count:
            return iter(())
        is_single = ~self._is_outside
        is_single[numbers] = False
        places = (
            RecordPlace(number, self._pulls[self._pull_of[number]].span, int(self._positions[number]))
            for number in np.flatnonzero(is_single).tolist()
        )
        return single_rows(bytes(self._data), places) if is_single.any() else iter(())

    def batch_of_usual(self, usual: _Usual, schema: Any, tags: frozenset[str] | None) -> tuple[Any, Indices]:
        """The rows with these tags, and the numbers of their records."""
        if usual.heads is None:
            return batch_of_rows((), schema), usual.numbers
        counts = np.array([len(usual.numbers)])
        if len(self._pulls) > 1:
            counts = np.bincount(self._pull_of[usual.numbers], minlength=len(self._pulls))
        rows = UsualRows(usual.heads, [pull.span for pull in self._pulls], counts, usual.table)
        batch, numbers = rows.batch(schema), usual.numbers
        if tags is not None:
            has_one = pc.is_in(rows.tags, pa.array(sorted(tags), pa.string()))
            if not pc.all(has_one).as_py():
                batch, numbers = batch.filter(has_one), numbers[has_one.to_numpy(zero_copy_only=False)]
        return batch, numbers

    def missing(self, usual: _Usual, singles: _Singles) -> list[OffsetRange]:
        """Offsets of the spans that none of these has."""
        offsets = usual.heads.queue_offsets if usual.heads is not None else usual.numbers
        spans = [pull.span for pull in self._pulls]
        if not singles.numbers and np.array_equal(offsets, _all_of(spans)):
            return []
        offsets = np.concatenate((offsets, np.array(singles.offsets, np.int64)))
        pull_of = self._pull_of[np.concatenate((usual.numbers, np.array(singles.numbers, np.int64)))]
        return [gap for index, span in enumerate(spans) for gap in _gaps(span, offsets[pull_of == index])]


def _all_of(spans: Sequence[OffsetRange]) -> Indices:
    return np.concatenate([np.arange(span.start, span.end) for span in spans]) if spans else np.zeros(0, np.int64)


def _gaps(span: OffsetRange, offsets: Indices) -> list[OffsetRange]:
    edges = np.concatenate(([span.start - 1], np.unique(offsets), [span.end]))
    before = np.flatnonzero(np.diff(edges) > 1)
    return [
        span._replace(start=int(start) + 1, end=int(end))
        for start, end in zip(edges[before], edges[before + 1], strict=True)
    ]
