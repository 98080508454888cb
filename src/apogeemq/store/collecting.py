"""From the entries of a consume queue to the records they stand for, as one answer to a pull."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable
from functools import lru_cache
from itertools import accumulate, compress, islice, repeat
from itertools import count as counted
from mmap import mmap
from operator import add, ne, sub
from struct import Struct
from typing import Final

from apogeemq.store.commit_log import CommitLog
from apogeemq.store.consume_queue import ConsumeQueue
from apogeemq.store.layout import QUEUE_ENTRY, QUEUE_ENTRY_SIZE
from apogeemq.store.results import GetStatus, Got

# Entries one pull looks at in search of wanted tags; Apache's number.
MAX_ENTRIES_SEARCHED: Final = 800

_entries: Final = QUEUE_ENTRY.iter_unpack
_placement: Final = Struct(">qi8x").unpack_from  # physical offset and size


_MAX_AT_ONCE: Final = 256
_SIZE_AT_ONCE: Final = _MAX_AT_ONCE * QUEUE_ENTRY_SIZE
_FOUND: Final = GetStatus.FOUND


@lru_cache(maxsize=_MAX_AT_ONCE)
def _sizes_of(count: int) -> Callable[[bytes], tuple[int, ...]]:
    return Struct(">" + "8xi8x" * count).unpack


@lru_cache(maxsize=_MAX_AT_ONCE)
def _places_of(count: int) -> Callable[[bytes], tuple[int, ...]]:
    return Struct(">" + "q12x" * count).unpack


def next_messages(log: CommitLog, queue: ConsumeQueue, offset: int, max_messages: int, max_bytes: int) -> Got | None:
    """The usual case: the next messages, whatever their tags, are not many, fit the answer and lie in one log file.

    None when it is another case.
    """
    entries = queue.entries(offset, max_messages)
    length = len(entries)
    count = length // QUEUE_ENTRY_SIZE
    if not 0 < count <= _MAX_AT_ONCE:
        return None
    sizes = _sizes_of(count)(entries)
    total_size = sum(sizes)
    if total_size > max_bytes:
        return None
    first, _ = _placement(entries)
    last, last_size = _placement(entries, length - QUEUE_ENTRY_SIZE)
    window = log.window(first)
    if window is None:
        return None
    data, start, end = window
    after = last + last_size
    if after > end:
        return None
    if after - first == total_size:  # nothing of other queues lies between them
        records = data[first - start : after - start]
    else:
        places: Iterable[int] = _places_of(count)(entries)
        if start:
            places = map(sub, places, repeat(start))
        records = b"".join([data[at : at + size] for at, size in zip(places, sizes, strict=False)])
    return Got(_FOUND, offset + count, queue.min_offset, queue.max_offset, records, count)


def many_messages(log: CommitLog, queue: ConsumeQueue, offset: int, max_messages: int, max_bytes: int) -> Got | None:
    """The same for any number of messages, of which as many are given as fit."""
    entries = queue.entries(offset, max_messages)
    if not entries:
        return None
    window = log.window(_placement(entries)[0])
    if window is None:
        return None
    data, start, end = window
    parts: list[bytes] = []
    count, bytes_left = 0, max_bytes
    for at in range(0, len(entries), _SIZE_AT_ONCE):
        some = entries[at : at + _SIZE_AT_ONCE]
        sizes = _sizes_of(len(some) // QUEUE_ENTRY_SIZE)(some)
        if sum(sizes) > bytes_left:
            sizes = sizes[: bisect_right(list(accumulate(sizes)), bytes_left)]
            some = some[: len(sizes) * QUEUE_ENTRY_SIZE]
            max_messages = 0  # these are the last
        if not sizes or sum(_placement(some, len(some) - QUEUE_ENTRY_SIZE)) > end:
            break
        _copy(data, start, some, sizes, parts)
        count += len(sizes)
        bytes_left -= sum(sizes)
        if not max_messages:
            break
    if not count:
        return None
    records = parts[0] if len(parts) == 1 else b"".join(parts)
    return Got(_FOUND, offset + count, queue.min_offset, queue.max_offset, records, count)


def _copy(data: bytes | mmap, start: int, entries: bytes, sizes: tuple[int, ...], parts: list[bytes]) -> None:
    """Add the records of some entries, all of which lie in the data that begins at `start`."""
    first, first_size = _placement(entries)
    after = sum(_placement(entries, len(entries) - QUEUE_ENTRY_SIZE))
    if after - first == sum(sizes):  # nothing of other queues lies between them
        parts.append(data[first - start : after - start])
        return
    places = _places_of(len(sizes))(entries)
    if places[1] != first + first_size:  # they hardly lie together
        for place, size in zip(places, sizes, strict=True):
            parts.append(data[place - start : place - start + size])
        return
    begin = 0
    breaks = map(ne, map(add, places, sizes), islice(places, 1, None))
    for last in (*compress(counted(), breaks), len(sizes) - 1):
        parts.append(data[places[begin] - start : places[last] + sizes[last] - start])
        begin = last + 1


def wanted_messages(
    log: CommitLog,
    queue: ConsumeQueue,
    offset: int,
    max_messages: int,
    max_bytes: int,
    wanted_tags: Container[int] | None,
) -> Got:
    """Messages from an offset that the queue holds; at most `max_bytes`, but always one."""
    entries = queue.entries(offset, max(MAX_ENTRIES_SEARCHED, max_messages))
    if not entries:
        return Got(GetStatus.OFFSET_FOUND_NULL, queue.next_file_offset(offset), queue.min_offset, queue.max_offset)
    records: list[bytes] = []
    bytes_left, next_offset, status = max_bytes, offset, GetStatus.NO_MATCHED_MESSAGE
    data: bytes | mmap = b""
    start = end = 0
    for place, size, tags_code in _entries(entries):
        if len(records) >= max_messages or (size > bytes_left and records):
            break
        if wanted_tags is None or tags_code in wanted_tags:
            if not start <= place < end:
                data, start, end = log.window(place) or (b"", 0, 0)
            if start <= place <= end - size:
                records.append(data[place - start : place - start + size])
                bytes_left -= size
            elif not records:  # expired from the log, not yet from the queue
                status = GetStatus.MESSAGE_WAS_REMOVING
        next_offset += 1
    if records:
        status = _FOUND
    return Got(status, next_offset, queue.min_offset, queue.max_offset, b"".join(records), len(records))
