"""By time: when a message was stored, and which message was stored when. Store times are read from the log."""

from __future__ import annotations

from struct import Struct

from apogeemq.model.flags import BORN_HOST_IPV6
from apogeemq.protocol.record import SYSTEM_FLAG_AT
from apogeemq.store.commit_log import CommitLog
from apogeemq.store.consume_queue import ConsumeQueue
from apogeemq.store.message_store import MessageStore

NO_TIME = -1

_SYSTEM_FLAG = Struct(">i")
_TIME = Struct(">q")
_BORN_HOST_AT = 48
_HEAD_SIZE = _BORN_HOST_AT + 20 + _TIME.size


def log_time_at(log: CommitLog, physical_offset: int) -> int:
    """Store time of the record that begins there; NO_TIME when the log does not have it."""
    head = log.read(physical_offset, _HEAD_SIZE)  # any record is longer
    if len(head) < _HEAD_SIZE:
        return NO_TIME
    (system_flag,) = _SYSTEM_FLAG.unpack_from(head, SYSTEM_FLAG_AT)
    (time,) = _TIME.unpack_from(head, _BORN_HOST_AT + (20 if system_flag & BORN_HOST_IPV6 else 8))
    return int(time)


def earliest_log_time(store: MessageStore) -> int:
    """Of the oldest message there is."""
    return log_time_at(store.log, store.log.min_offset)


def store_time_at(store: MessageStore, topic: str, queue_id: int, offset: int) -> int:
    """Of one message of a queue; NO_TIME when there is none at that offset."""
    queue = store.queues.get((topic, queue_id))
    return _time_in(store.log, queue, offset) if queue is not None else NO_TIME


def earliest_time(store: MessageStore, topic: str, queue_id: int) -> int:
    """Of the oldest message of a queue; NO_TIME when it has none."""
    queue = store.queues.get((topic, queue_id))
    return _time_in(store.log, queue, queue.min_offset) if queue is not None else NO_TIME


def offset_at_time(store: MessageStore, topic: str, queue_id: int, timestamp: int, *, upper: bool = False) -> int:
    """The first offset stored at a time or later: the end of the queue when all are older.

    With `upper`, the last offset stored at that time or earlier: the beginning when all are later. 0 without a queue.
    """
    queue = store.queues.get((topic, queue_id))
    if queue is None:
        return 0
    if not upper:
        return _first_not_before(store.log, queue, timestamp)
    return max(queue.min_offset, _first_not_before(store.log, queue, timestamp + 1) - 1)


def _first_not_before(log: CommitLog, queue: ConsumeQueue, timestamp: int) -> int:
    """Store times grow with offsets; what has expired from the log is older than anything in it."""
    low, high = queue.min_offset, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        if _time_in(log, queue, middle) < timestamp:
            low = middle + 1
        else:
            high = middle
    return low


def _time_in(log: CommitLog, queue: ConsumeQueue, offset: int) -> int:
    entry = queue.entry(offset)
    return log_time_at(log, entry[0]) if entry is not None else NO_TIME
