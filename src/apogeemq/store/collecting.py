"""From the entries of a consume queue to the records they stand for, as one answer to a pull."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import lru_cache
from struct import Struct
from typing import Final

from apogeemq.store.commit_log import CommitLog
from apogeemq.store.consume_queue import ConsumeQueue
from apogeemq.store.layout import QUEUE_ENTRY, QUEUE_ENTRY_SIZE
from apogeemq.store.results import GetStatus, Got

# Entries one pull looks at in search of wanted tags; Apache's number.
MAX_ENTRIES_SEARCHED: Final = 800

_entries = QUEUE_ENTRY.iter_unpack
_last_entry = Struct(">qi8x").unpack_from
_placements = Struct(">qi8x").iter_unpack  # physical offset and size of each entry


@lru_cache(maxsize=256)
def _sizes_of(count: int) -> Callable[[bytes], tuple[int, ...]]:
    return Struct(">" + "8xi8x" * count).unpack


def collect(
    log: CommitLog,
    queue: ConsumeQueue,
    offset: int,
    max_messages: int,
    max_bytes: int,
    wanted_tags: Container[int] | None,
) -> Got:
    """Records from an offset that the queue holds; at most `max_bytes`, but always one."""
    if wanted_tags is None and max_messages > 0:
        got = _all_at_once(log, queue, offset, max_messages, max_bytes)
        if got is not None:
            return got
    return _one_by_one(log, queue, offset, max_messages, max_bytes, wanted_tags)


def _all_at_once(log: CommitLog, queue: ConsumeQueue, offset: int, max_messages: int, max_bytes: int) -> Got | None:
    """The usual case: the next entries, whatever their tags, fit the answer and lie in one log file."""
    entries = queue.entries(offset, max_messages)
    if not entries:
        return None
    count = len(entries) // QUEUE_ENTRY_SIZE
    total_size = sum(_sizes_of(count)(entries))
    if total_size > max_bytes:
        return None
    first, _ = _last_entry(entries)
    last, last_size = _last_entry(entries, len(entries) - QUEUE_ENTRY_SIZE)
    end = last + last_size
    window = log.window(first, end)
    if window is None:
        return None
    data, start = window
    if end - first == total_size:  # nothing of other queues lies between them
        records = data[first - start : end - start]
    else:
        records = b"".join([data[(at := place - start) : at + size] for place, size in _placements(entries)])
    return Got(GetStatus.FOUND, offset + count, queue.min_offset, queue.max_offset, records, count)


def _one_by_one(
    log: CommitLog,
    queue: ConsumeQueue,
    offset: int,
    max_messages: int,
    max_bytes: int,
    wanted_tags: Container[int] | None,
) -> Got:
    entries = queue.entries(offset, max(MAX_ENTRIES_SEARCHED, max_messages))
    if not entries:
        return Got(GetStatus.OFFSET_FOUND_NULL, queue.next_file_offset(offset), queue.min_offset, queue.max_offset)
    records: list[bytes] = []
    size_so_far, next_offset, status = 0, offset, GetStatus.NO_MATCHED_MESSAGE
    for physical_offset, size, tags_code in _entries(entries):
        if len(records) >= max_messages or (records and size_so_far + size > max_bytes):
            break
        next_offset += 1
        if wanted_tags is not None and tags_code not in wanted_tags:
            continue
        record = log.read(physical_offset, size)
        if not record:  # expired from the log, not yet from the queue
            if not records:
                status = GetStatus.MESSAGE_WAS_REMOVING
            continue
        records.append(record)
        size_so_far += size
    if records:
        status = GetStatus.FOUND
    return Got(status, next_offset, queue.min_offset, queue.max_offset, b"".join(records), len(records))
