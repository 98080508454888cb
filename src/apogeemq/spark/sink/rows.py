"""From the rows of an Arrow batch to messages in the form of the wire, a column at a time: no Python object for a row.

Each message becomes an entry of a batch (`protocol.batch`). A null in `body` is an error, as is an empty one: RocketMQ
has no such messages. A null anywhere else means that the message has none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from apogeemq.errors import MessageIllegal
from apogeemq.filter.tags import java_hash
from apogeemq.model import properties as names
from apogeemq.model.messages import SYSTEM_PROPERTIES
from apogeemq.model.properties import KEY_SEPARATOR, MAX_SIZE
from apogeemq.model.topics import RETRY_PREFIX
from apogeemq.spark.hex_digits import in_hex
from apogeemq.spark.sink import columns as known
from apogeemq.spark.sink.arrow_texts import (
    around,
    as_binary,
    each_joined,
    from_rows,
    holds_separators,
    joined,
    lengths,
    starts,
)
from apogeemq.spark.sink.columns import SinkColumns
from apogeemq.spark.sink.ids import ID_SIZE, Ids
from apogeemq.spark.sink.write_options import DROP, WriteOptions, sent_topic_problem

MAX_CHUNK_BYTES: Final = 64 * 1024 * 1024
_END: Final = names.VALUE_END.encode()
_BEFORE_ID: Final = f"{names.UNIQUE_KEY}{names.NAME_END}".encode()
_AFTER_ID: Final = f"{names.VALUE_END}{names.WAIT}{names.NAME_END}true{names.VALUE_END}".encode()
_ID_TEXT: Final = np.frombuffer(_BEFORE_ID + bytes(2 * ID_SIZE) + _AFTER_ID, dtype=np.uint8)
_ID_DIGITS: Final = slice(len(_BEFORE_ID), len(_BEFORE_ID) + 2 * ID_SIZE)
_HEAD: Final = np.dtype([("size", ">i4"), ("magic", ">i4"), ("crc", ">i4"), ("flag", ">i4"), ("body", ">i4")])
_SYSTEM: Final = pa.array(sorted(SYSTEM_PROPERTIES))


class EncodedRows(NamedTuple):
    entries: pa.Array  # of a batch, one for each row
    places: npt.NDArray[np.int64]  # where each begins in the data of `entries`, and where the last one ends
    body_sizes: npt.NDArray[np.int64]
    ids: Ids
    topics: list[str]
    topic_numbers: npt.NDArray[np.int64] | None  # of each row; None: all go to the first
    key_hashes: npt.NDArray[np.int64] | None  # Java's, of the sharding keys
    has_key: npt.NDArray[np.bool_] | None
    alone: npt.NDArray[np.bool_] | None  # rows that cannot share a request


class RowEncoder:
    def __init__(self, columns: SinkColumns, options: WriteOptions) -> None:
        self._present = columns.present
        self._options = options
        is_ordered = options.orders_by_sharding_key
        self._is_ordered = known.SHARDING_KEY in columns.present and is_ordered is not False

    def encode(self, batch: pa.RecordBatch, ids: Ids) -> EncodedRows:
        """Raises MessageIllegal when a row cannot become a message."""
        bodies = as_binary(batch.column(known.BODY))
        body_sizes = lengths(bodies)
        self._check_bodies(bodies, body_sizes)
        count = batch.num_rows
        pieces = [piece for piece in self._properties(batch) if piece is not None]
        sizes = np.full(count, _ID_TEXT.size, dtype=np.int64)
        for piece in pieces:
            sizes += lengths(piece)
        if count and int(sizes.max()) > MAX_SIZE:
            raise MessageIllegal(f"the properties of a row take {int(sizes.max())} bytes, more than {MAX_SIZE}")
        entries = joined(_heads(body_sizes, sizes), bodies, _sizes_and_ids(sizes, ids), *pieces)
        topics, topic_numbers = self._topics(batch)
        key_hashes, has_key = self._keys(batch)
        alone = self._alone(batch, body_sizes, topics, topic_numbers)
        return EncodedRows(
            *(entries, starts(entries), body_sizes, ids, topics, topic_numbers, key_hashes, has_key, alone)
        )

    def _check_bodies(self, bodies: pa.Array, sizes: npt.NDArray[np.int64]) -> None:
        empty = int((sizes == 0).sum())
        if empty:
            raise MessageIllegal(
                f"{empty} rows have no body, or an empty one ({bodies.null_count} null): RocketMQ has no such messages"
            )
        if len(sizes) and int(sizes.max()) > self._options.max_message_bytes:
            most = self._options.max_message_bytes
            raise MessageIllegal(f"the body of a row has {int(sizes.max())} bytes, more than maxMessageBytes, {most}")

    # -- properties ------------------------------------------------------------------------------------------

    def _properties(self, batch: pa.RecordBatch) -> Iterator[pa.Array | None]:
        present = self._present
        if known.PROPERTIES in present:
            yield _own_properties(batch.column(known.PROPERTIES), drops_system=self._drops_system)
        if known.TAGS in present:
            yield _property(names.TAGS, _text(batch.column(known.TAGS), known.TAGS))
        if known.KEYS in present:
            yield _property(names.KEYS, _text(_key_texts(batch.column(known.KEYS)), known.KEYS))
        if known.SHARDING_KEY in present:
            yield _property(names.SHARDING_KEY, _text(batch.column(known.SHARDING_KEY), known.SHARDING_KEY))
        if known.DELAY in present:
            yield _property(names.DELAY, _levels(batch.column(known.DELAY)).cast(pa.string()))
        if known.DELIVER_AT in present:
            yield _property(names.TIMER_DELIVER_MS, _times_ms(batch.column(known.DELIVER_AT)).cast(pa.string()))

    @property
    def _drops_system(self) -> bool:
        return self._options.system_properties == DROP

    # -- where to, and how -----------------------------------------------------------------------------------

    def _topics(self, batch: pa.RecordBatch) -> tuple[list[str], npt.NDArray[np.int64] | None]:
        if self._options.topic:
            return [self._options.topic], None
        column = batch.column(known.TOPIC)
        if column.null_count:
            raise MessageIllegal(f"{column.null_count} rows have no topic")
        encoded = pc.dictionary_encode(column)
        topics: list[str] = encoded.dictionary.to_pylist()
        for topic in topics:
            if problem := sent_topic_problem(topic):
                raise MessageIllegal(f"a row goes to the topic {topic!r}: {problem}")
            if self._options.topics and topic not in self._options.topics:
                allowed = ", ".join(self._options.topics)
                raise MessageIllegal(f"a row goes to the topic {topic!r}: expected one of option topics, {allowed}")
        return topics, np.asarray(encoded.indices, dtype=np.int64)

    def _keys(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.bool_] | None]:
        if not self._is_ordered:
            return None, None
        column = _text(batch.column(known.SHARDING_KEY), known.SHARDING_KEY)
        encoded = pc.dictionary_encode(pc.fill_null(column, ""))
        hashes = np.array([java_hash(key) for key in encoded.dictionary.to_pylist()], dtype=np.int64)
        return hashes[np.asarray(encoded.indices, dtype=np.int64)], np.asarray(pc.is_valid(column))

    def _alone(
        self,
        batch: pa.RecordBatch,
        body_sizes: npt.NDArray[np.int64],
        topics: list[str],
        topic_numbers: npt.NDArray[np.int64] | None,
    ) -> npt.NDArray[np.bool_] | None:
        alone = np.zeros(batch.num_rows, dtype=bool)
        if known.DELAY in self._present:
            alone |= np.asarray(pc.is_valid(_levels(batch.column(known.DELAY))))
        if known.DELIVER_AT in self._present:
            is_timed = np.asarray(pc.is_valid(batch.column(known.DELIVER_AT)))
            if known.DELAY in self._present and (alone & is_timed).any():
                raise MessageIllegal("a row has both delay and deliver_at: expected one of them")
            alone |= is_timed
        if self._options.is_compressed:
            alone |= body_sizes >= self._options.compress_above
        for number, topic in enumerate(topics):
            if topic.startswith(RETRY_PREFIX):  # brokers refuse batches to them
                alone |= topic_numbers == number if topic_numbers is not None else True
        return alone if alone.any() else None


def chunks(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Pieces of a size that can be encoded at once."""
    if batch.num_rows > 1 and batch.nbytes > MAX_CHUNK_BYTES:
        half = batch.num_rows // 2
        yield from chunks(batch.slice(0, half))
        yield from chunks(batch.slice(half))
    elif batch.num_rows:
        yield batch


def _heads(body_sizes: npt.NDArray[np.int64], property_sizes: npt.NDArray[np.int64]) -> pa.Array:
    heads = np.zeros(len(body_sizes), dtype=_HEAD)
    heads["size"] = body_sizes + property_sizes + (_HEAD.itemsize + 2)
    heads["body"] = body_sizes
    return from_rows(heads.view(np.uint8).reshape(len(heads), _HEAD.itemsize))


def _sizes_and_ids(sizes: npt.NDArray[np.int64], ids: Ids) -> pa.Array:
    """How long the properties of each row are, and the first two of them."""
    texts = np.empty((len(ids), 2 + _ID_TEXT.size), dtype=np.uint8)
    texts[:, :2] = sizes.astype(">u2").view(np.uint8).reshape(-1, 2)
    texts[:, 2:] = _ID_TEXT
    texts[:, 2:][:, _ID_DIGITS] = in_hex(ids)
    return from_rows(texts)


def _property(name: str, values: pa.Array) -> pa.Array:
    return around(f"{name}{names.NAME_END}".encode(), values, _END)


def _text(column: pa.Array, name: str) -> pa.Array:
    """An empty text is none."""
    if holds_separators(column):
        raise MessageIllegal(f"a value of column {name} holds a character that separates properties (1 or 2)")
    text = column.cast(pa.string())
    return pc.if_else(pc.equal(pc.binary_length(text), 0), pa.scalar(None, pa.string()), text)


def _key_texts(column: pa.Array) -> pa.Array:
    if not pa.types.is_list(column.type) and not pa.types.is_large_list(column.type):
        return column
    values = pc.fill_null(column.values, "")
    text = each_joined(column.offsets, values, KEY_SEPARATOR.encode())
    return text.cast(pa.string())


def _levels(column: pa.Array) -> pa.Array:
    """Null for 0, which means no delay."""
    levels = column.cast(pa.int64())
    least = pc.min(levels).as_py()
    if least is not None and least < 0:
        raise MessageIllegal(f"a row has delay {least}: expected a level, 0 for none")
    return pc.if_else(pc.equal(levels, 0), pa.scalar(None, pa.int64()), levels)


def _times_ms(column: pa.Array) -> pa.Array:
    times = pc.divide(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()), 1000)
    least = pc.min(times).as_py()
    if least is not None and least <= 0:
        raise MessageIllegal(f"a row has deliver_at {least} ms since 1970: expected a time after that")
    return times


def _own_properties(column: pa.Array, *, drops_system: bool) -> pa.Array:
    texts, values = column.keys.cast(pa.string()), column.items.cast(pa.string())
    is_system = pc.is_in(texts, _SYSTEM)
    kept = pc.and_(pc.is_valid(values), pc.invert(is_system))
    offsets = column.offsets
    used = slice(offsets[0].as_py(), offsets[-1].as_py()) if len(offsets) else slice(0, 0)
    if not drops_system and (own := pc.filter(texts[used], is_system[used])):
        raise MessageIllegal(
            f"the property {own[0].as_py()} is the system's own: leave it out, or set option systemProperties to drop"
        )
    for part in (texts, values):
        if holds_separators(part[used]):
            raise MessageIllegal("a property holds a character that separates properties (1 or 2)")
        if pc.any(pc.and_(kept[used], pc.equal(pc.binary_length(part[used]), 0))).as_py():
            raise MessageIllegal("a property needs a name and a value, and one of them is empty")
    pairs = pc.binary_join_element_wise(
        *(as_binary(texts), as_binary(values), pa.scalar(names.NAME_END.encode(), pa.binary()))
    )
    ended = pc.if_else(kept, around(b"", pairs, _END), pa.scalar(b"", pa.binary()))
    return each_joined(offsets, pc.fill_null(ended, b""), b"")
