"""The records and queue entries of a batch: one piece of the log, one piece of the queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain, count
from struct import Struct
from typing import Final

from apogeemq.protocol.record import encode_records, record_size, shared_head
from apogeemq.store.key_hash import key_hashes
from apogeemq.store.layout import QUEUE_ENTRY_FIELDS
from apogeemq.store.results import BatchPart, NewMessage

_ENTRIES_AT_ONCE: Final = 64


@lru_cache(maxsize=_ENTRIES_AT_ONCE)
def _entries_of(entry_count: int) -> Callable[..., bytes]:
    return Struct(">" + QUEUE_ENTRY_FIELDS * entry_count).pack


def batch_sizes(shared: NewMessage, parts: Sequence[BatchPart]) -> list[int]:
    """Of each record."""
    rest = record_size(shared.system_flag, len(shared.topic_part[1]), 0, 0)
    return [rest + len(part.body) + len(part.properties) for part in parts]


def encode_batch(
    shared: NewMessage,
    parts: Sequence[BatchPart],
    sizes: Sequence[int],
    physical_offsets: Sequence[int],
    first_queue_offset: int,
    store_time: int,
) -> bytes:
    """The records, one after the other."""
    common = shared_head(
        shared.system_flag,
        shared.born_time,
        shared.born_host,
        store_time,
        shared.store_host,
        shared.reconsume_times,
        shared.prepared_offset,
    )
    messages = [
        (size, part.flag, queue_offset, physical_offset, part.body, part.properties)
        for size, queue_offset, physical_offset, part in zip(
            sizes, count(first_queue_offset), physical_offsets, parts, strict=False
        )
    ]
    return encode_records(common, shared.topic_part, shared.queue_id, messages)


def encode_entries(parts: Sequence[BatchPart], sizes: Sequence[int], physical_offsets: Sequence[int]) -> bytes:
    """The entries of the consume queue."""
    tags_codes = [part.tags_code for part in parts]
    fields = list(chain.from_iterable(zip(physical_offsets, sizes, tags_codes, strict=True)))
    step = _ENTRIES_AT_ONCE * len(QUEUE_ENTRY_FIELDS)
    pieces = [fields[start : start + step] for start in range(0, len(fields), step)]
    return b"".join([_entries_of(len(piece) // len(QUEUE_ENTRY_FIELDS))(*piece) for piece in pieces])


def keys_of_batch(
    topic: str, parts: Sequence[BatchPart], physical_offsets: Sequence[int]
) -> tuple[list[int], Sequence[int]]:
    """For the key index: the hash of each key, and where its message is."""
    hashes = key_hashes(topic, [key for part in parts for key in part.keys])
    if any(len(part.keys) != 1 for part in parts):
        physical_offsets = [
            offset for part, offset in zip(parts, physical_offsets, strict=True) for _ in range(len(part.keys))
        ]
    return hashes, physical_offsets
