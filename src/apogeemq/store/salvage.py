"""Damage in the middle of the log: is it a torn tail, or did a disk lose what it had kept?

A torn tail was never promised to anybody and is cut off. But when a later record is known to have been durable, so was
what is damaged: then only that is lost, and the log goes on after it. Consumers get past it, for its entry in the
queue, if there is one, leads nowhere.
"""

from __future__ import annotations

import logging
import os

from apogeemq.errors import ProtocolError
from apogeemq.model.topics import could_be_stored
from apogeemq.protocol.record import MAGIC_V1, MAGIC_V2, Record, decode_record, is_intact
from apogeemq.store.layout import could_be_unwritten
from apogeemq.store.mapped_file import MappedFile
from apogeemq.store.message_store import MessageStore

log = logging.getLogger(__name__)

_MAGICS = tuple(magic.to_bytes(4) for magic in (MAGIC_V1, MAGIC_V2))
_MAGIC_AT = 4
# Every record is longer. Searching a map up to its very end reads a byte beyond it in Python before 3.11.4.
_NO_RECORD_IN_LAST = 64
_SECTOR = 512
_MAX_GAP = 100_000  # messages of one queue that may be missing in a row


def is_damaged(store: MessageStore, record: Record) -> bool:
    """Whether a record is not what was written. Only the body has a checksum."""
    return (
        _is_torn(store, record)
        or not _is_plausible(store, record)
        or (store.config.check_crc_on_recover and not is_intact(record))
    )


def _is_plausible(store: MessageStore, record: Record) -> bool:
    """Whether there can be such a queue, and such an offset in it. Its folder has the topic's name."""
    if record.queue_id < 0 or record.queue_offset < 0 or not could_be_stored(record.topic):
        return False
    if b"/" in record.topic or record.topic in (b".", b".."):
        return False
    queue = store.queues.get((record.topic.decode(), record.queue_id))
    return queue is None or not queue.max_offset or record.queue_offset <= queue.max_offset + _MAX_GAP


def _is_torn(store: MessageStore, record: Record) -> bool:
    """Whether some of the part without a checksum was never written: topic and properties are text.

    A stray zero in a property is somebody's data. Zeros up to the edge of a sector are a power cut's; zeros at the end
    or in a row are those of a process killed while it wrote, if nothing follows.
    """
    if b"\0" not in record.properties and b"\0" not in record.topic:
        return False
    tail = record.topic + b"\1\1" + record.properties  # the two bytes of the length between them may be zeros
    if could_be_unwritten(tail) and not _is_followed(store, record):
        return True
    at = record.physical_offset + record.size - len(tail)
    while tail:
        part = tail[: _SECTOR - at % _SECTOR]
        if not part.strip(b"\0"):
            return True
        at += len(part)
        tail = tail[len(part) :]
    return False


def _is_followed(store: MessageStore, record: Record) -> bool:
    """Whether a whole record or the end of the file comes after this one."""
    for _, following in store.log.scan(record.physical_offset + record.size):
        return following is None or is_intact(following)
    return False


# -- going on after damage -----------------------------------------------------------------------------------


def go_on_after(store: MessageStore, damaged_at: int, last_time: int, durable_until: int) -> int | None:
    """Where the log goes on after what is damaged; None when that is its torn end.

    `last_time` is the store time of the last whole record, `durable_until` the time up to which messages are known to
    have been durable. Whole records may be left behind the end by a broker that cuts the log without erasing: those
    are older than what was written since.
    """
    following = _next_record(store, damaged_at)
    if following is None or not last_time <= following.store_time < durable_until:
        return None
    end = following.physical_offset
    log.error("the log is damaged from %d to %d: the messages there are lost; it goes on after them", damaged_at, end)
    for queue in store.queues.values():
        if queue.blank_out(damaged_at, end):
            log.error("a message of queue %d of topic %s is lost", queue.queue_id, queue.topic)
    return end


def _next_record(store: MessageStore, damaged_at: int) -> Record | None:
    """The first whole record after an offset."""
    files = store.log.files
    file, start = files.find(damaged_at), damaged_at + 1
    while file is not None:
        found = _first_record_in(file, start - file.start)
        if found is not None:
            return found
        start = file.end
        file = files.find(start)
    return None


def _first_record_in(file: MappedFile, position: int) -> Record | None:
    """Looks only where the file has data; the tail of a log is a hole of up to a gigabyte."""
    data = file.map()
    descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        last = file.size - _NO_RECORD_IN_LAST
        while position < last:
            try:
                position = os.lseek(descriptor, position, os.SEEK_DATA)
                end = min(os.lseek(descriptor, position, os.SEEK_HOLE), last)
            except OSError:  # no more data
                return None
            while position < end:
                at = min(
                    (at for magic in _MAGICS if (at := data.find(magic, position + _MAGIC_AT, end)) >= 0), default=-1
                )
                if at < 0:
                    break
                position = at - _MAGIC_AT
                record = _record_at(file, position)
                if record is not None:
                    return record
                position += 1
            position = end
    finally:
        os.close(descriptor)
    return None


def _record_at(file: MappedFile, position: int) -> Record | None:
    size = int.from_bytes(file.read(position, 4))
    try:
        record = decode_record(file.read(position, min(size, file.size)))
    except ProtocolError:
        return None
    return record if record.physical_offset == file.start + position and is_intact(record) else None
