"""Retention: delete the oldest files of the log when their time is over or the disk fills; queues and index follow.

Deciding and letting go of files happens on the thread that puts, and is quick; the store's upkeep thread unlinks them
and finds out where each queue begins now.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from apogeemq.store.message_store import MessageStore
from apogeemq.store.upkeep.retention import DiskUse, LogFileAge, files_to_delete, is_delete_hour
from apogeemq.store.upkeep.syncing import Upkeep

log = logging.getLogger(__name__)

_ASKED_FOR_ROUNDS = 20  # as Apache's: so often expired files are looked for after a person asked for it
_QUEUES_AT_ONCE = 1000


class Cleaner:
    """All calls come from the thread that puts."""

    def __init__(self, store: MessageStore, upkeep: Upkeep) -> None:
        self._store = store
        self._upkeep = upkeep
        self._asked_for_rounds = 0
        self._queues_begin_at = store.log.min_offset
        self._must_keep_topic: Callable[[str], bool] | None = None
        self.disk = self._seen_disk()
        self.deleted_file_count = 0

    def look_at_disk(self) -> DiskUse:
        """How full the fuller of the disks of log and queues is."""
        config = self._store.config
        return DiskUse(
            max(used_percent(self._store.log.files.folder), used_percent(self._store.root)),
            config.disk_max_used_space_ratio,
            min(max(config.disk_space_clean_forcibly_ratio, 30), 85),
            min(max(config.disk_space_warning_level_ratio, 35), 90),
        )

    def _seen_disk(self) -> DiskUse:
        """A full one takes no more messages."""
        disk = self.look_at_disk()
        ratio = disk.used_percent / 100
        self._store.disk_problem = f"CL: {ratio:5.2f} CQ: {ratio:5.2f} INDEX: {ratio:5.2f}" if disk.is_full else None
        return disk

    def clean(self, now_ms: int, hour: int) -> None:
        """Called every `cleanResourceInterval` ms; `hour` is that of the day, local time."""
        was_full = self.disk.is_full
        self.disk = self._seen_disk()
        if self.disk.is_full != was_full:
            log.warning("the disk is %.0f %% full: messages are %s", *self._disk_news())
        is_due = is_delete_hour(self._store.config.delete_when, hour)
        if self._asked_for_rounds:
            self._asked_for_rounds -= 1
            is_due = True
        if is_due or self.disk.must_delete:
            self._delete_log_files(now_ms, is_due)
        self._follow_log()
        if self._must_keep_topic is not None:
            self._delete_expired_queues(self._must_keep_topic)

    def delete_expired_log(self, now_ms: int) -> None:
        """As at the hour of deletion, now and in the next rounds, because a person asked for it."""
        self._asked_for_rounds = _ASKED_FOR_ROUNDS
        self._delete_log_files(now_ms, is_due=True)
        self._follow_log()

    def delete_expired_queues(self, must_keep_topic: Callable[[str], bool]) -> None:
        """Queues all of whose messages have expired are forgotten, a thousand now, others in the next rounds."""
        self._must_keep_topic = must_keep_topic
        self._delete_expired_queues(must_keep_topic)

    def _disk_news(self) -> tuple[float, str]:
        return self.disk.used_percent, "refused" if self.disk.is_full else "taken again"

    def _delete_log_files(self, now_ms: int, is_due: bool) -> None:
        files, config = self._store.log.files, self._store.config
        disk = self.disk
        if not config.clean_file_forcibly_enable:
            disk = disk._replace(force_percent=101)
        ages = [LogFileAge(file.start, modified_ms(file.path)) for file in files.files]
        starts = files_to_delete(ages, now_ms, config.file_reserved_time, disk, is_due=is_due)
        starts = starts[: config.delete_file_batch_max]
        # What is not flushed yet stays: the flush thread looks at it.
        keep_from = min(starts[-1] + files.file_size if starts else 0, self._store.log.flushed_offset)
        for file in files.take_before(keep_from):
            log.info("the log file %s is deleted; the disk is %.0f %% full", file.path, self.disk.used_percent)
            self._upkeep.discard(file)
            self.deleted_file_count += 1
        if disk.must_delete and not starts:
            log.warning("the disk is %.0f %% full, but there is nothing to delete", self.disk.used_percent)

    def _follow_log(self) -> None:
        """Queues and index let go of what the log does not have any more."""
        store, upkeep = self._store, self._upkeep
        upkeep.correct_queues(store.log.min_offset)
        if upkeep.corrected_min_physical <= self._queues_begin_at:
            return
        self._queues_begin_at = upkeep.corrected_min_physical
        for queue in store.queues.values():
            self.deleted_file_count += queue.drop_expired_files()
        for file in store.index.take_before(self._queues_begin_at):
            upkeep.discard(file)
            self.deleted_file_count += 1

    def _delete_expired_queues(self, must_keep_topic: Callable[[str], bool]) -> None:
        low = self._store.log.min_offset
        expired = [
            key
            for key, queue in self._store.queues.items()
            if queue.max_offset and queue.end_physical <= low and not must_keep_topic(key[0])
        ]
        for topic, queue_id in expired[:_QUEUES_AT_ONCE]:
            log.info("queue %d of topic %s is deleted: all its messages have expired", queue_id, topic)
            self._store.delete_queue(topic, queue_id)
        if len(expired) <= _QUEUES_AT_ONCE:
            self._must_keep_topic = None


def used_percent(folder: Path) -> float:
    """Of the disk a folder is on; what only the super-user may use counts for nothing."""
    while not folder.exists():
        folder = folder.parent
    disk = os.statvfs(folder)
    used = disk.f_blocks - disk.f_bfree
    return 100 * used / max(1, used + disk.f_bavail)


def modified_ms(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000
