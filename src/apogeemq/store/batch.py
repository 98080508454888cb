"""The records and queue entries of a batch: one piece of the log, one piece of the queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

from apogeemq.protocol.record import encode_records, record_size, shared_head
from apogeemq.store.key_hash import key_hashes
from apogeemq.store.layout import QUEUE_ENTRY_FIELDS
from apogeemq.store.results import BatchPart, NewMessage

_ENTRIES_AT_ONCE: Final = 64
_FIELD_COUNT: Final = len(QUEUE_ENTRY_FIELDS)


@lru_cache(maxsize=_ENTRIES_AT_ONCE)
def _entries_of(entry_count: int) -> Callable[..., bytes]:
    return Struct(">" + QUEUE_ENTRY_FIELDS * entry_count).pack


def batch_size(shared: NewMessage, parts: Sequence[BatchPart]) -> int:
    """Of all records together."""
    total = _size_without_parts(shared) * len(parts)
    for _, body, properties, _, _ in parts:
        total += len(body) + len(properties)
    return total


def _size_without_parts(shared: NewMessage) -> int:
    return record_size(shared.system_flag, len(shared.topic_part[1]), 0, 0)


def encode_batch(
    shared: NewMessage, parts: Sequence[BatchPart], physical_offset: int, queue_offset: int, store_time: int
) -> tuple[bytes, bytes, list[int]]:
    """The records, one after the other, that begin at an offset of the log; the entries of the consume queue; and
    where each record begins."""
    common = shared_head(
        shared.system_flag,
        shared.born_time,
        shared.born_host,
        store_time,
        shared.store_host,
        shared.reconsume_times,
        shared.prepared_offset,
    )
    rest = _size_without_parts(shared)
    messages: list[tuple[int, int, int, int, bytes, bytes]] = []
    entries: list[int] = []
    offsets: list[int] = []
    for flag, body, properties, tags_code, _ in parts:
        size = rest + len(body) + len(properties)
        messages.append((size, flag, queue_offset, physical_offset, body, properties))
        entries.append(physical_offset)
        entries.append(size)
        entries.append(tags_code)
        offsets.append(physical_offset)
        physical_offset += size
        queue_offset += 1
    records = encode_records(common, shared.topic_part, shared.queue_id, messages)
    return records, _encode_entries(entries), offsets


def _encode_entries(fields: list[int]) -> bytes:
    if len(fields) <= _ENTRIES_AT_ONCE * _FIELD_COUNT:
        return _entries_of(len(fields) // _FIELD_COUNT)(*fields)
    step = _ENTRIES_AT_ONCE * _FIELD_COUNT
    return b"".join([_encode_entries(fields[start : start + step]) for start in range(0, len(fields), step)])


def keys_of_batch(
    topic: str, parts: Sequence[BatchPart], physical_offsets: Sequence[int]
) -> tuple[list[int], Sequence[int]]:
    """For the key index: the hash of each key, and where its message is."""
    all_keys: list[str] = []
    for _, _, _, _, keys in parts:
        all_keys.extend(keys)
    if any(len(part[4]) != 1 for part in parts):
        physical_offsets = [
            offset for part, offset in zip(parts, physical_offsets, strict=True) for _ in range(len(part[4]))
        ]
    return key_hashes(topic, all_keys), physical_offsets
