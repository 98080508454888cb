"""The columns of records of the usual layout, each made for all of them at once. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from apogeemq.model import properties as names
from apogeemq.model.properties import KEY_SEPARATOR
from apogeemq.spark.reading.binary_fields import Indices, equally_long, fields_of, numbers, repeated, texts_in_hex
from apogeemq.spark.reading.carried_properties import has_all_properties
from apogeemq.spark.reading.property_table import PropertyTable, property_table
from apogeemq.spark.reading.record_heads import RecordHeads
from apogeemq.spark.reading.single_rows import MAX_TIME_MS, host_text
from apogeemq.spark.source.ranges import OffsetRange

FROM_PROPERTIES: Final = frozenset(("msg_id", "keys", "tags", "properties"))

_US_PER_MS: Final = 1000
_SPACE: Final = ord(KEY_SEPARATOR)


def regular_table(heads: RecordHeads) -> tuple[PropertyTable, Indices]:
    """The properties of those records that can be read at once, and which these are; the others must be read one by
    one."""
    kept = np.arange(len(heads))
    found = property_table(heads.data, heads.property_starts, heads.ends)
    while not isinstance(found, PropertyTable):
        kept = kept[~found]
        rest = heads.only(kept)
        found = property_table(rest.data, rest.property_starts, rest.ends)
    return found, kept


class UsualRows:
    """`counts` says how many of the rows are of each span, in order. Without a `table` there are no columns that come
    from properties."""

    def __init__(
        self,
        heads: RecordHeads,
        spans: Sequence[OffsetRange],
        counts: Indices,
        table: PropertyTable | None,
    ) -> None:
        self._heads = heads
        self._spans = spans
        self._counts = counts
        self._table = table
        self._has_all_properties = False

    def batch(self, schema: Any) -> Any:
        self._has_all_properties = has_all_properties(schema)
        return pa.RecordBatch.from_arrays([_COLUMNS[field.name](self, field.type) for field in schema], schema=schema)

    @property
    def table(self) -> PropertyTable:
        assert self._table is not None
        return self._table

    @cached_property
    def tags(self) -> Any:
        return self.table.value_of(names.TAGS)

    # -- of the queue ----------------------------------------------------------------------------------------

    def _text_of_span(self, text_of: Callable[[OffsetRange], str]) -> Any:
        texts = [repeated(text_of(span), count) for span, count in zip(self._spans, self._counts, strict=True)]
        return texts[0] if len(texts) == 1 else pa.concat_arrays(texts)

    def _queue_id(self, kind: Any) -> Any:
        return numbers(np.repeat(np.array([span.queue_id for span in self._spans], np.int32), self._counts), kind)

    # -- of the head -----------------------------------------------------------------------------------------

    def _number(self, field: str, kind: Any) -> Any:
        return numbers(self._heads.heads[field].astype(kind.to_pandas_dtype()), kind)

    def _time(self, field: str, kind: Any) -> Any:
        times_ms = self._heads.int64(field)
        if len(times_ms) and (times_ms.max() > MAX_TIME_MS or times_ms.min() < -MAX_TIME_MS):
            is_beyond = (times_ms > MAX_TIME_MS) | (times_ms < -MAX_TIME_MS)
            times_ms[is_beyond] = 0
            return pa.array(times_ms * _US_PER_MS, mask=is_beyond).cast(kind)
        times_ms *= _US_PER_MS
        return numbers(times_ms, kind)

    def _born_host(self, kind: Any) -> Any:
        hosts = np.ascontiguousarray(self._heads.heads["born_host"]).view(np.uint64)
        if len(hosts) and (hosts == hosts[0]).all():
            return repeated(host_text(hosts[0].tobytes()), len(hosts))
        encoded = numbers(hosts, pa.uint64()).dictionary_encode()
        texts = [host_text(host.tobytes()) for host in encoded.dictionary.to_numpy()]
        return pa.array(texts, kind).take(encoded.indices)

    def _body(self, kind: Any) -> Any:
        heads = self._heads
        starts, ends = heads.body_starts, heads.topic_starts
        length, step = (int(ends[0] - starts[0]), int(starts[1] - starts[0])) if len(heads) > 1 else (0, 0)
        if length and (ends - starts == length).all() and (np.diff(starts) == step).all():
            return equally_long(heads.data, int(starts[0]), step, length, len(heads), kind)
        return fields_of(heads.data, starts, ends, kind)

    # -- of the properties -----------------------------------------------------------------------------------

    def _properties(self, kind: Any) -> Any:
        texts, values, offsets = self.table.entries(has_all=self._has_all_properties)
        return pa.MapArray.from_arrays(numbers(offsets, pa.int32()), texts, values, kind)

    def _keys(self, kind: Any) -> Any:
        texts = self.table.value_of(names.KEYS)
        present = texts.drop_null() if texts.null_count else texts
        if _has_octet(present, _SPACE):
            lists = pc.split_pattern(texts, KEY_SEPARATOR)
            if pc.any(pc.equal(pc.binary_length(lists.values), 0)).as_py():
                return pa.array([_words(text) for text in texts.to_pylist()], kind)
            return lists.cast(kind)
        borders = np.zeros(len(texts) + 1, np.int32)
        np.cumsum(texts.is_valid().to_numpy(zero_copy_only=False), out=borders[1:])
        return pa.Array.from_buffers(
            kind, len(texts), [texts.buffers()[0], pa.py_buffer(borders)], texts.null_count, children=[present]
        )

    def _message_id(self, kind: Any) -> Any:
        unique_keys = self.table.value_of(names.UNIQUE_KEY)
        if not unique_keys.null_count:
            return unique_keys
        places = np.empty((len(self._heads), 16), np.uint8)
        places[:, :8] = _octets(self._heads.heads["store_host"])
        places[:, 8:] = _octets(self._heads.heads["physical_offset"])
        return pc.coalesce(unique_keys, texts_in_hex(places))


def _octets(field: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(field).view(np.uint8).reshape(len(field), -1)


def _has_octet(texts: Any, octet: int) -> bool:
    octets = texts.buffers()[2]
    return octets is not None and bool((np.frombuffer(octets, np.uint8) == octet).any())


def _words(text: str | None) -> list[str] | None:
    return [word for word in (text or "").split(KEY_SEPARATOR) if word] or None


_COLUMNS: Final[dict[str, Callable[[UsualRows, Any], Any]]] = {
    "topic": lambda rows, kind: rows._text_of_span(lambda span: span.topic),
    "broker": lambda rows, kind: rows._text_of_span(lambda span: span.broker),
    "queue_id": UsualRows._queue_id,
    "queue_offset": lambda rows, kind: numbers(rows._heads.queue_offsets, kind),
    "msg_id": UsualRows._message_id,
    "keys": UsualRows._keys,
    "tags": lambda rows, kind: rows.tags,
    "properties": UsualRows._properties,
    "body": UsualRows._body,
    "born_timestamp": lambda rows, kind: rows._time("born_time", kind),
    "store_timestamp": lambda rows, kind: rows._time("store_time", kind),
    "born_host": UsualRows._born_host,
    "reconsume_times": lambda rows, kind: rows._number("reconsume_times", kind),
    "sys_flag": lambda rows, kind: rows._number("system_flag", kind),
}
