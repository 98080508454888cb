"""Open a store, however the last process ended.

The log is the truth. It is read from a point up to which queues and index are known to be complete, each record is
checked, queues and index are brought up to it, and what follows the last whole record is cut off: a torn tail that was
never promised to anybody. After a clean stop that point is close to the end; after a crash it is the last file that
the checkpoint vouches for.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from apogeemq.protocol.record import is_intact
from apogeemq.store.checkpoint import Checkpoint, read_checkpoint
from apogeemq.store.message_store import MessageStore

log = logging.getLogger(__name__)

ABORT_FILE = "abort"
CHECKPOINT_FILE = "checkpoint"
_ZEROS_LOOKED_FOR = 1024 * 1024


class Recovered(NamedTuple):
    """What was done, for the log and for people."""

    was_clean: bool
    scanned_from: int
    record_count: int
    end_offset: int
    cut_bytes: int


def recover(store: MessageStore) -> Recovered:
    """Blocking; before anything is put. StorageFailed when files are not what the settings say."""
    was_clean = not (store.root / ABORT_FILE).exists()
    checkpoint = read_checkpoint(store.root / CHECKPOINT_FILE)
    store.log.load()
    is_whole = store.load_queues()
    store.index.load(was_clean, checkpoint.safe_index_time)
    if not store.log.files.files:
        for queue in store.queues.values():
            queue.delete()  # without the log they lead nowhere
        return Recovered(was_clean, 0, 0, 0, 0)
    if not is_whole:
        start = store.log.min_offset
    elif was_clean:
        start = _clean_start(store)
    else:
        start = _crash_start(store, checkpoint)
    end, count = _read_log(store, start)
    cut_bytes = _data_after(store, end)
    store.log.cut(end)
    for queue in store.queues.values():
        queue.cut(end)
        queue.correct_min_offset(store.log.min_offset)
    store.log.flushed_offset = end
    result = Recovered(was_clean, start, count, end, cut_bytes)
    log.info(
        "store opened after a %s: %d records read from %d, the log ends at %d, %d bytes of a torn tail cut off",
        "clean stop" if was_clean else "crash",
        count,
        start,
        end,
        cut_bytes,
    )
    return result


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


def _read_log(store: MessageStore, start: int) -> tuple[int, int]:
    """Dispatch every whole record from `start` on; gives where they end and how many there were."""
    end, count = start, 0
    must_check = store.config.check_crc_on_recover
    for after, record in store.log.scan(start):
        if record is None:
            end = after if store.log.files.find(after) is not None else end
            continue
        # Properties have no checksum of their own, but text has no zeros, and what was not written is zeros.
        if b"\0" in record.properties or (must_check and not is_intact(record)):
            log.error("the message at %d is damaged; the log ends before it", record.physical_offset)
            break
        store.dispatch(record)
        end = after
        count += 1
    return end, count


def _data_after(store: MessageStore, end: int) -> int:
    """Bytes after the end that are not zero, for the report: how much of a tail is torn off."""
    file = store.log.files.find(end)
    if file is None:
        return 0
    return len(file.read(end - file.start, _ZEROS_LOOKED_FOR).rstrip(b"\0"))
