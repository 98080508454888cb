"""Keep the route snapshot on disk fresh, and read it at start."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from apogeemq.errors import StorageFailed
from apogeemq.nameserver.registry import Registry
from apogeemq.nameserver.snapshot import decode_snapshot, encode_snapshot, restore
from apogeemq.runtime.atomic_file import read_with_backup, write_atomically

log = logging.getLogger(__name__)

SNAPSHOT_FILE = "routes.json"
_SAVE_SECONDS = 2.0
_ENCODING_SHARE = 0.02  # of the time at most, however large the table


class SnapshotKeeper:
    """A failed write is logged and tried again; it never disturbs the service."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SNAPSHOT_FILE
        self._encoding_seconds = 0.0
        self._turn = asyncio.Lock()
        self.failure_count = 0

    def restore(self, registry: Registry, serve_ms: int) -> int:
        """Blocking; at start. Gives the last journal number the snapshot knows, 0 without one."""
        try:
            saved = read_with_backup(self._path, decode_snapshot)
        except StorageFailed as error:
            log.error("warm start is not possible, routes will come from brokers: %s", error)
            return 0
        if saved is None:
            return 0
        restore(registry.table, saved, registry.now_ms(), serve_ms)
        if saved.brokers:
            log.info(
                "warm start: serving %d brokers and %d topics of the last run until they register, %d s at most",
                len(saved.brokers),
                len(registry.table.topics),
                serve_ms // 1000,
            )
        return saved.sequence

    def pause_seconds(self) -> float:
        """Until the next save: longer where a save is much work."""
        return max(_SAVE_SECONDS, self._encoding_seconds / _ENCODING_SHARE)

    async def save_if_stale(self, registry: Registry) -> None:
        """A write that has begun is finished even when the caller is cancelled; the next one waits for it."""
        await asyncio.shield(self._save_if_stale(registry))

    async def _save_if_stale(self, registry: Registry) -> None:
        async with self._turn:
            if not registry.is_snapshot_stale:
                return
            registry.is_snapshot_stale = False
            started = time.perf_counter()
            sequence = registry.journal.last_sequence if registry.journal is not None else 0
            content = encode_snapshot(registry.table, sequence)
            self._encoding_seconds = time.perf_counter() - started
            try:
                await asyncio.to_thread(write_atomically, self._path, content, keep_previous=False)
            except StorageFailed as error:
                registry.is_snapshot_stale = True
                self.failure_count += 1
                log.error("the route snapshot is out of date: %s", error)
