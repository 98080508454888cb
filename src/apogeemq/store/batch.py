"""The records and queue entries of a batch: one piece of the log, one piece of the queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

from apogeemq.protocol.record import BatchRecords, record_size
from apogeemq.store.layout import QUEUE_ENTRY_FIELDS
from apogeemq.store.message_marks import BatchMarks
from apogeemq.store.results import BatchPart, NewMessage

_ENTRIES_AT_ONCE: Final = 64
_FIELD_COUNT: Final = len(QUEUE_ENTRY_FIELDS)


@lru_cache(maxsize=_ENTRIES_AT_ONCE)
def _entries_of(entry_count: int) -> Callable[..., bytes]:
    return Struct(">" + QUEUE_ENTRY_FIELDS * entry_count).pack


def batch_size(shared: NewMessage, parts: Sequence[BatchPart]) -> int:
    """Of all records together."""
    total = _size_without_parts(shared) * len(parts)
    for _, body, properties in parts:
        total += len(body) + len(properties)
    return total


def _size_without_parts(shared: NewMessage) -> int:
    return record_size(shared.system_flag, len(shared.topic_part[1]), 0, 0)


class EncodedBatch:
    """Records, one after the other, that begin at an offset of the log, and what is derived from them."""

    __slots__ = ("_fields", "hashed_offsets", "key_hashes", "offsets", "records", "tags_codes")

    def __init__(
        self,
        shared: NewMessage,
        parts: Sequence[BatchPart],
        physical_offset: int,
        queue_offset: int,
        store_time: int,
    ) -> None:
        self.offsets: list[int] = []  # where each record begins
        self.tags_codes: list[int] = []
        self.key_hashes: list[int] = []  # of all keys, and for each of them where its message is
        self.hashed_offsets: list[int] = []
        self._fields: list[int] = []
        rest, marks = _size_without_parts(shared), BatchMarks(shared.topic)
        records = BatchRecords(
            shared.topic_part,
            shared.queue_id,
            shared.system_flag,
            shared.born_time,
            shared.born_host,
            store_time,
            shared.store_host,
            shared.reconsume_times,
            shared.prepared_offset,
        )
        for flag, body, properties in parts:
            size = rest + len(body) + len(properties)
            records.add(size, flag, queue_offset, physical_offset, body, properties)
            tags_code = marks.add(properties, physical_offset, self.key_hashes, self.hashed_offsets)
            self._fields.append(physical_offset)
            self._fields.append(size)
            self._fields.append(tags_code)
            self.tags_codes.append(tags_code)
            self.offsets.append(physical_offset)
            physical_offset += size
            queue_offset += 1
        self.records = records.joined()

    def entries(self) -> bytes:
        """Of the consume queue."""
        return _encode_entries(self._fields)


def _encode_entries(fields: list[int]) -> bytes:
    if len(fields) <= _ENTRIES_AT_ONCE * _FIELD_COUNT:
        return _entries_of(len(fields) // _FIELD_COUNT)(*fields)
    step = _ENTRIES_AT_ONCE * _FIELD_COUNT
    return b"".join([_encode_entries(fields[start : start + step]) for start in range(0, len(fields), step)])
