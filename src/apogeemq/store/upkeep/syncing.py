"""What a running store does beside the log: sync queues and index, vouch for them in the checkpoint, delete old files.

One thread. It goes through the queues written since it last did, at most some hundred of them in one interval, so that
a broker with 40,000 busy queues is not busy with syncing; after the last one it syncs the key index and writes the
checkpoint. The checkpoint vouches for messages stored before the pass began, and never for more than is synced.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Condition, Thread

from apogeemq.runtime.atomic_file import sync_folder
from apogeemq.store.consume_queue import ConsumeQueue
from apogeemq.store.mapped_file import MappedFile
from apogeemq.store.message_store import MessageStore
from apogeemq.store.upkeep.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from apogeemq.store.upkeep.flush import LogFlusher

log = logging.getLogger(__name__)

_MIN_QUEUES_AT_ONCE = 200


class Upkeep:
    """`on_failed(error)` is called from its thread, once, when something cannot be synced."""

    def __init__(
        self, store: MessageStore, flusher: LogFlusher, checkpoint_path: Path, on_failed: Callable[[OSError], None]
    ) -> None:
        config = store.config
        self._store = store
        self._flusher = flusher
        self._checkpoint_path = checkpoint_path
        self._on_failed = on_failed
        self._interval_seconds = config.flush_interval_consume_queue / 1000
        self._intervals_per_pass = max(
            1, config.flush_consume_queue_thorough_interval // config.flush_interval_consume_queue
        )
        self._changed = Condition()
        self._is_stopping = False
        self._thread = Thread(target=self._run, name="store-upkeep", daemon=True)
        self._checkpoint = read_checkpoint(checkpoint_path)
        # The pass under way.
        self._pass_time = 0
        self._pass_end = -1
        self._settled_end = 0  # the log's end when the pass before began: all below is in queues and index by now
        self._unsynced: list[ConsumeQueue] = []
        self._at_once = _MIN_QUEUES_AT_ONCE
        self._folders: set[Path] = set()
        # Work given by the thread that puts.
        self._discarded: deque[MappedFile] = deque()
        self._min_physical = 0
        self.corrected_min_physical = 0
        self.has_failed = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Sync all there is, then end."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()

    def discard(self, file: MappedFile) -> None:
        """Delete a file nobody uses any more."""
        self._discarded.append(file)

    def correct_queues(self, min_physical: int) -> None:
        """The log begins later now: find where each queue begins. `corrected_min_physical` says when it is done."""
        self._min_physical = min_physical

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._is_stopping:
                    self._changed.wait(self._interval_seconds)
                is_last = self._is_stopping
            self._delete_discarded()
            self._correct_queues()
            try:
                self._sync(is_last)
            except OSError as error:
                log.critical("consume queues or key index cannot be synced, no more messages are taken: %s", error)
                self.has_failed = True
                self._on_failed(error)
                return
            if is_last:
                return

    # -- syncing ---------------------------------------------------------------------------------------------

    def _sync(self, is_last: bool) -> None:
        if is_last:
            self._begin_pass()
            self._at_once = len(self._unsynced)
        elif not self._unsynced:
            if self._store.log.max_offset == self._pass_end and self._checkpoint.log_time >= self._pass_time:
                return  # nothing new
            self._begin_pass()
        for queue in self._unsynced[: self._at_once]:
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                self._folders.update(queue.sync())
        del self._unsynced[: self._at_once]
        if not self._unsynced:
            self._end_pass()

    def _begin_pass(self) -> None:
        store = self._store
        self._settled_end = max(self._pass_end, 0)
        self._pass_time = store.last_store_time  # looked at first: older messages are in their queues
        self._pass_end = store.log.max_offset
        self._unsynced = [queue for queue in list(store.queues.values()) if queue.max_offset > queue.synced_offset]
        self._at_once = max(_MIN_QUEUES_AT_ONCE, len(self._unsynced) // self._intervals_per_pass + 1)

    def _end_pass(self) -> None:
        for folder in _with_parents(self._folders):
            with contextlib.suppress(FileNotFoundError):
                sync_folder(folder)
        self._folders.clear()
        self._store.index.sync()
        checkpoint = Checkpoint(
            self._flusher.flushed_time,
            self._pass_time,
            self._pass_time,
            self._checkpoint.master_flushed_offset,
            self._checkpoint.confirmed_offset,
            max(self._checkpoint.complete_until, min(self._settled_end, self._store.log.flushed_offset)),
        )
        if checkpoint != self._checkpoint:
            write_checkpoint(self._checkpoint_path, checkpoint)
            self._checkpoint = checkpoint

    # -- retention -------------------------------------------------------------------------------------------

    def _delete_discarded(self) -> None:
        """Oldest first, each gone for good before the next: no power cut may leave a gap."""
        while self._discarded:
            file = self._discarded.popleft()
            try:
                file.delete()
                sync_folder(file.path.parent)
            except OSError as error:
                log.error("%s could not be deleted: %s", file.path, error)

    def _correct_queues(self) -> None:
        min_physical = self._min_physical
        if min_physical <= self.corrected_min_physical:
            return
        for queue in list(self._store.queues.values()):
            with contextlib.suppress(OSError):  # deleted meanwhile
                queue.begin_at(min_physical)
        self.corrected_min_physical = min_physical


def _with_parents(folders: set[Path]) -> list[Path]:
    """Folders of queues with those of their topics and that of all topics: any of them may be new; deepest first."""
    found = folders | {folder.parent for folder in folders} | {folder.parent.parent for folder in folders}
    return sorted(found, key=lambda folder: os.fspath(folder).count(os.sep), reverse=True)
