"""The records and queue entries of a batch: one piece of the log, one piece of the queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct

from apogeemq.protocol.record import CRC_MASK, HEADS, HOST_FLAGS, crc32
from apogeemq.store.key_hash import key_hashes
from apogeemq.store.layout import QUEUE_ENTRY_FIELDS
from apogeemq.store.results import BatchPart, NewMessage

# A record's head from its beginning to the physical offset, what all records of a batch share, the body's length.
_BEFORE_SHARED_SIZE = 36
_SHARED_END = -4
_ENTRIES_AT_ONCE = 64


@lru_cache(maxsize=8)
def _head_of(shared_size: int) -> Callable[..., bytes]:
    return Struct(f">IIIiiqq{shared_size}si").pack


@lru_cache(maxsize=_ENTRIES_AT_ONCE)
def _entries_of(count: int) -> Callable[..., bytes]:
    return Struct(">" + QUEUE_ENTRY_FIELDS * count).pack


def batch_sizes(shared: NewMessage, parts: Sequence[BatchPart]) -> list[int]:
    """Of each record."""
    rest = HEADS[shared.system_flag & HOST_FLAGS][1] + len(shared.topic_part[1]) + 2
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
    magic, topic_bytes = shared.topic_part
    queue_id = shared.queue_id
    all_share = _shared_head(shared, store_time)
    pack_head = _head_of(len(all_share))
    pieces: list[bytes] = []
    add = pieces.extend
    for queue_offset, (part, size, offset) in enumerate(
        zip(parts, sizes, physical_offsets, strict=True), first_queue_offset
    ):
        body, properties = part.body, part.properties
        crc = crc32(body) & CRC_MASK
        add(
            (
                pack_head(size, magic, crc, queue_id, part.flag, queue_offset, offset, all_share, len(body)),
                body,
                topic_bytes,
                len(properties).to_bytes(2),
                properties,
            )
        )
    return b"".join(pieces)


def _shared_head(shared: NewMessage, store_time: int) -> bytes:
    pack_head, _ = HEADS[shared.system_flag & HOST_FLAGS]
    head = pack_head(
        *(0, 0, 0, 0, 0, 0, 0, shared.system_flag, shared.born_time, shared.born_host, store_time),
        *(shared.store_host, shared.reconsume_times, shared.prepared_offset, 0),
    )
    return head[_BEFORE_SHARED_SIZE:_SHARED_END]


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
