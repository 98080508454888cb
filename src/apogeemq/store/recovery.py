"""Open a store, however the last process ended.

The log is the truth. It is read from a point up to which queues and index are known to be complete, each record is
checked, queues and index are brought up to it, and what follows the last whole record is cut off: a torn tail that was
never promised to anybody. After a clean stop that point is close to the end. After a crash it is the last file that
the checkpoint vouches for, and whatever queues and index have beyond it is made again: after a power cut any part of
what was not synced may be missing.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from apogeemq.protocol.record import Record, is_intact
from apogeemq.store.layout import could_be_unwritten
from apogeemq.store.message_store import MessageStore
from apogeemq.store.upkeep.checkpoint import Checkpoint, read_checkpoint

log = logging.getLogger(__name__)

ABORT_FILE = "abort"
CHECKPOINT_FILE = "checkpoint"
_ZEROS_LOOKED_FOR = 1024 * 1024
_SECTOR = 512


class Recovered(NamedTuple):
    """What was done, for the log and for people."""

    was_clean: bool
    scanned_from: int
    record_count: int
    end_offset: int
    cut_bytes: int


def recover(store: MessageStore, *, was_clean: bool | None = None) -> Recovered:
    """Blocking; before anything is put. StorageFailed when files are not what the settings say.

    `was_clean` unless the last process left its marker; looked for if not said.
    """
    if was_clean is None:
        was_clean = not (store.root / ABORT_FILE).exists()
    checkpoint = read_checkpoint(store.root / CHECKPOINT_FILE)
    store.log.load()
    is_whole = store.load_queues()
    store.index.load()
    if not store.log.files.files:
        for queue in store.queues.values():
            queue.delete()  # without the log they lead nowhere
        store.index.cut(0)
        return Recovered(was_clean, 0, 0, 0, 0)
    start = _start(store, checkpoint, was_clean=was_clean, is_whole=is_whole)
    result = _bring_up(store, start, was_clean=was_clean)
    if was_clean:
        store.last_store_time = max(store.last_store_time, checkpoint.log_time)
    log.info(
        "store opened after a %s: %d records read from %d, the log ends at %d, %d bytes of a torn tail cut off",
        "clean stop" if was_clean else "crash",
        result.record_count,
        start,
        result.end_offset,
        result.cut_bytes,
    )
    return result


# -- where to begin ------------------------------------------------------------------------------------------


def _start(store: MessageStore, checkpoint: Checkpoint, *, was_clean: bool, is_whole: bool) -> int:
    if was_clean and is_whole:
        return _clean_start(store)
    start = _crash_start(store, checkpoint) if is_whole else store.log.min_offset
    if not store.index.repair(start) and (file := store.log.files.find(store.index.end_offset)) is not None:
        log.warning("the key index is damaged; it is made again from %d on", file.start)
        start = min(start, file.start)
        store.index.cut(start)
    for queue in store.queues.values():
        queue.cut_from(start)
    return start


def _clean_start(store: MessageStore) -> int:
    """The last file that begins before the end of what the queues have."""
    known = max((queue.end_physical for queue in store.queues.values()), default=0)
    files = store.log.files.files
    return next((file.start for file in reversed(files) if file.start <= known), files[0].start)


def _crash_start(store: MessageStore, checkpoint: Checkpoint) -> int:
    """The last file whose first message is older than the checkpoint; the very first when none is."""
    files = store.log.files.files
    for file in reversed(files):
        _, record = next(store.log.scan(file.start), (0, None))
        if record is not None and 0 < record.store_time <= checkpoint.safe_time:
            return file.start
    return files[0].start


# -- reading the log -----------------------------------------------------------------------------------------


def _bring_up(store: MessageStore, start: int, *, was_clean: bool) -> Recovered:
    end, count = _read_log(store, start)
    cut_bytes = _data_after(store, end)
    store.log.cut(end)
    store.index.cut(end)
    for queue in store.queues.values():
        queue.cut(end)
        queue.correct_min_offset(store.log.min_offset)
    # What a killed process left is in memory only, perhaps: nothing may become durable before it.
    if not was_clean:
        for file in (*store.log.files.files[-2:], *(index_file.mapped for index_file in store.index.files)):
            file.is_new = True
    store.log.flushed_offset = start
    store.log.flush(end)
    return Recovered(was_clean, start, count, end, cut_bytes)


def _read_log(store: MessageStore, start: int) -> tuple[int, int]:
    """Dispatch every whole record from `start` on; gives where they end and how many there were."""
    end, count = start, 0
    must_check = store.config.check_crc_on_recover
    for after, record in store.log.scan(start):
        if record is None:
            end = after if store.log.files.find(after) is not None else end
            continue
        if _is_torn(store, record) or (must_check and not is_intact(record)):
            log.error("the message at %d is damaged; the log ends before it", record.physical_offset)
            break
        store.dispatch(record)
        end = after
        count += 1
    return end, count


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


def _data_after(store: MessageStore, end: int) -> int:
    """Bytes after the end that are not zero, for the report: how much of a tail is torn off."""
    file = store.log.files.find(end)
    if file is None:
        return 0
    return len(file.read(end - file.start, _ZEROS_LOOKED_FOR).rstrip(b"\0"))
