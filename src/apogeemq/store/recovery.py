"""Open a store, however the last process ended.

The log is the truth. It is read from a point up to which queues and index are known to be complete, each record is
checked, queues and index are brought up to it, and what follows the last whole record is cut off: a torn tail that was
never promised to anybody (`salvage.py` tells that from damage to what was). After a clean stop that point is close to
the end. After a crash it is the last file that the checkpoint vouches for, and whatever queues and index have beyond it
is made again: after a power cut any part of what was not synced may be missing.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from apogeemq.runtime.clock import now_ms
from apogeemq.store.message_store import MessageStore
from apogeemq.store.salvage import go_on_after, is_damaged
from apogeemq.store.upkeep.checkpoint import Checkpoint, read_checkpoint

log = logging.getLogger(__name__)

ABORT_FILE = "abort"
CHECKPOINT_FILE = "checkpoint"
_ZEROS_LOOKED_FOR = 1024 * 1024
_END_OF_TIME = 2**63
_DAY_MS = 24 * 3_600_000


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
    start, time_before = _start(store, checkpoint, was_clean=was_clean, is_whole=is_whole)
    result = _bring_up(store, start, time_before, checkpoint, was_clean=was_clean)
    if was_clean:
        store.last_store_time = max(store.last_store_time, checkpoint.log_time)
    _distrust_the_future(store, now_ms())
    log.info(
        "store opened after a %s: %d records read from %d, the log ends at %d, %d bytes of a torn tail cut off",
        "clean stop" if was_clean else "crash",
        result.record_count,
        start,
        result.end_offset,
        result.cut_bytes,
    )
    return result


def _distrust_the_future(store: MessageStore, moment_ms: int) -> None:
    """Store times never go back; one damaged bit of the last one must not hold all later ones far ahead."""
    if store.last_store_time > moment_ms + _DAY_MS:
        log.warning("a message claims to be stored at %d ms, which is in the future", store.last_store_time)
        store.last_store_time = moment_ms


# -- where to begin ------------------------------------------------------------------------------------------


def _start(store: MessageStore, checkpoint: Checkpoint, *, was_clean: bool, is_whole: bool) -> tuple[int, int]:
    """An offset, and the store time of the record before it; 0 when that is not known."""
    if was_clean and is_whole:
        return _clean_start(store)
    start, time_before = _crash_start(store, checkpoint) if is_whole else (store.log.min_offset, 0)
    if not store.index.repair(start) and (file := store.log.files.find(store.index.end_offset)) is not None:
        log.warning("the key index is damaged; it is made again from %d on", file.start)
        start, time_before = min(start, file.start), 0
        store.index.cut(start)
    for queue in store.queues.values():
        queue.cut_from(start)
    return start, time_before


def _clean_start(store: MessageStore) -> tuple[int, int]:
    """After the last message the queues have, if it is where they say; else the file it would be in."""
    last = max(store.queues.values(), key=lambda queue: queue.end_physical, default=None)
    entry = last.entry(last.max_offset - 1) if last is not None else None
    if entry is not None:
        record = store.log.record_at(entry[0])
        if record is not None and record.size == entry[1] and not is_damaged(store, record):
            return entry[0] + entry[1], record.store_time
    known = last.end_physical if last is not None else 0
    files = store.log.files.files
    return next((file.start for file in reversed(files) if file.start <= known), files[0].start), 0


def _crash_start(store: MessageStore, checkpoint: Checkpoint) -> tuple[int, int]:
    """Where queues and index are known to be complete, if a record begins or ends there; else the last file whose first
    message is older than the checkpoint; the very first when none is."""
    proven = _complete_until(store, checkpoint.complete_until)
    if proven is not None:
        return proven
    files = store.log.files.files
    for file in reversed(files):
        _, record = next(store.log.scan(file.start), (0, None))
        if record is not None and 0 < record.store_time <= checkpoint.safe_time:
            return file.start, 0
    return files[0].start, 0


def _complete_until(store: MessageStore, offset: int) -> tuple[int, int] | None:
    """The offset with the store time before it, when the message that ends there is what a queue says it is."""
    if not store.log.min_offset < offset <= store.log.files.end:
        return None
    for queue in store.queues.values():
        entry = queue.last_before(offset)
        if entry is not None and entry[0] + entry[1] == offset:
            record = store.log.record_at(entry[0])
            if record is not None and record.size == entry[1] and not is_damaged(store, record):
                return offset, record.store_time
    return None


# -- reading the log -----------------------------------------------------------------------------------------


def _bring_up(
    store: MessageStore, start: int, time_before: int, checkpoint: Checkpoint, *, was_clean: bool
) -> Recovered:
    durable_until = _END_OF_TIME if was_clean else checkpoint.log_time
    store.last_store_time = max(store.last_store_time, time_before)
    end, count = _read_log(store, start, time_before, durable_until)
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


def _read_log(store: MessageStore, start: int, time_before: int, durable_until: int) -> tuple[int, int]:
    """Dispatch every whole record from `start` on; gives where they end and how many there were."""
    position: int | None = start
    end, count, last_time = start, 0, time_before
    while position is not None:
        for after, record in store.log.scan(position):
            if record is None:
                end = after if store.log.files.find(after) is not None else end
                continue
            if is_damaged(store, record):
                log.error("the message at %d is damaged", record.physical_offset)
                break
            store.dispatch(record)
            end, last_time = after, record.store_time
            count += 1
        position = go_on_after(store, end, last_time, durable_until)
    return end, count


def _data_after(store: MessageStore, end: int) -> int:
    """Bytes after the end that are not zero, for the report: how much of a tail is torn off."""
    file = store.log.files.find(end)
    if file is None:
        return 0
    return len(file.read(end - file.start, _ZEROS_LOOKED_FOR).rstrip(b"\0"))
