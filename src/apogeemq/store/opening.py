"""A store with its files taken and its threads running: from `open` to `close`, and what stops it taking messages.

::

    open     lock the folder, leave the abort marker, recover, start flushing and upkeep
    close    flush and sync everything, write the checkpoint, remove the marker, release the folder

A process that ends without `close` leaves the marker, and the next one recovers accordingly.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from apogeemq.errors import StorageFailed
from apogeemq.runtime.atomic_file import sync_folder, write_atomically
from apogeemq.runtime.folder_lock import FolderLock
from apogeemq.store.config import StoreConfig
from apogeemq.store.message_store import MessageStore, TagsCodeOf
from apogeemq.store.recovery import ABORT_FILE, CHECKPOINT_FILE, Recovered, recover
from apogeemq.store.upkeep.checkpoint import make_checkpoint_file
from apogeemq.store.upkeep.cleaning import Cleaner
from apogeemq.store.upkeep.flush import FlushFigures, LogFlusher
from apogeemq.store.upkeep.retention import DiskUse
from apogeemq.store.upkeep.syncing import Upkeep

log = logging.getLogger(__name__)


class OpenStore:
    """Belongs to the thread that puts and reads. `on_flushed(offset)` and `on_failed(error)` come from others."""

    def __init__(
        self,
        store: MessageStore,
        lock: FolderLock,
        recovered: Recovered,
        on_flushed: Callable[[int], None],
        on_failed: Callable[[OSError], None],
    ) -> None:
        self.store = store
        self.recovered = recovered
        self._lock = lock
        self._on_failed = on_failed
        self._flusher = LogFlusher(
            store.log,
            store.config.flush_interval_commit_log / 1000,
            on_flushed,
            self._fail,
            lambda: store.last_written_time,
        )
        self._upkeep = Upkeep(store, self._flusher, store.root / CHECKPOINT_FILE, self._fail)
        self._cleaner = Cleaner(store, self._upkeep)

    @classmethod
    def open(
        cls,
        config: StoreConfig,
        tags_code_of: TagsCodeOf,
        on_flushed: Callable[[int], None],
        on_failed: Callable[[OSError], None],
    ) -> OpenStore:
        """Blocking; a large store after a crash takes a while. StorageFailed when it cannot be opened."""
        store = MessageStore(config, tags_code_of)
        lock = FolderLock(store.root)
        lock.acquire()
        was_clean = not (store.root / ABORT_FILE).exists()
        try:
            mark_running(store.root)
            recovered = recover(store, was_clean=was_clean)
            make_checkpoint_file(store.root / CHECKPOINT_FILE, recovered.end_offset)
            opened = cls(store, lock, recovered, on_flushed, on_failed)
        except (OSError, StorageFailed) as error:
            store.close()
            if was_clean and isinstance(error, StorageFailed):  # the settings are wrong; nothing was touched
                (store.root / ABORT_FILE).unlink(missing_ok=True)
            lock.release()
            raise StorageFailed(f"cannot open the store in {store.root}: {error}") from error
        opened._flusher.start()
        opened._upkeep.start()
        return opened

    def close(self) -> None:
        """Blocking. After a failure the marker stays: what is on the disk must be looked at by the next start."""
        self.store.settle()
        self._flusher.stop()
        self._upkeep.stop()
        self.store.close()
        if self.store.flush_error is None:
            (self.store.root / ABORT_FILE).unlink(missing_ok=True)
            sync_folder(self.store.root)
        else:
            log.error("the store was closed after a failed flush; it recovers at the next start")
        self._lock.release()

    # -- flushing --------------------------------------------------------------------------------------------

    def request_flush(self) -> None:
        """Somebody waits for what has been put so far; `on_flushed` tells."""
        self._flusher.request()

    @property
    def flush_figures(self) -> FlushFigures:
        return self._flusher.figures

    @property
    def flushed_offset(self) -> int:
        return self.store.log.flushed_offset

    def _fail(self, error: OSError) -> None:
        if self.store.flush_error is None:
            self.store.flush_error = error
            self._on_failed(error)

    @property
    def disk(self) -> DiskUse:
        """As of the last `clean`."""
        return self._cleaner.disk

    # -- retention -------------------------------------------------------------------------------------------

    def clean(self, now_ms: int, hour: int) -> None:
        """Delete what has had its time. Every `cleanResourceInterval` ms; `hour` of the day in local time."""
        self._cleaner.clean(now_ms, hour)

    def delete_expired_log(self, now_ms: int) -> None:
        """A person wants the files of the log that have had their time deleted at any hour."""
        self._cleaner.delete_expired_log(now_ms)

    def delete_expired_queues(self, must_keep_topic: Callable[[str], bool]) -> None:
        """A person wants queues without any message deleted."""
        self._cleaner.delete_expired_queues(must_keep_topic)

    @property
    def deleted_file_count(self) -> int:
        return self._cleaner.deleted_file_count


def mark_running(root: Path) -> None:
    """Leave the marker of a running store, and the folders every store has, durably."""
    for folder in ("commitlog", "consumequeue", "index", "config"):
        (root / folder).mkdir(exist_ok=True)
    write_atomically(root / ABORT_FILE, str(os.getpid()).encode(), keep_previous=False)
