"""The checkpoint: how far log, queues and index were flushed, in store times. Read after a crash."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from apogeemq.runtime.atomic_file import sync_folder
from apogeemq.store.layout import (
    CHECKPOINT,
    CHECKPOINT_MARK,
    CHECKPOINT_OURS,
    CHECKPOINT_OURS_AT,
    CHECKPOINT_SIZE,
)

_SAFETY_MS = 3000  # clocks of flushes and of messages are not the same


class Checkpoint(msgspec.Struct, frozen=True):
    log_time: int = 0
    queue_time: int = 0
    index_time: int = 0
    master_flushed_offset: int = 0
    confirmed_offset: int = 0
    # Queues and index have all messages of the log below this offset, durably. 0: not known.
    complete_until: int = 0

    @property
    def safe_time(self) -> int:
        """Messages stored up to here are on the disk, in the log and in their queues."""
        return max(0, min(self.log_time, self.queue_time) - _SAFETY_MS)

    @property
    def safe_index_time(self) -> int:
        return max(0, min(self.log_time, self.queue_time, self.index_time) - _SAFETY_MS)


def read_checkpoint(path: Path) -> Checkpoint:
    """Zeros when there is none, or less than one."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Checkpoint()
    if len(data) < CHECKPOINT.size:
        return Checkpoint()
    times_and_offsets = CHECKPOINT.unpack_from(data)
    if len(data) >= CHECKPOINT_OURS_AT + CHECKPOINT_OURS.size:
        mark, complete_until, *times = CHECKPOINT_OURS.unpack_from(data, CHECKPOINT_OURS_AT)
        if mark == CHECKPOINT_MARK and tuple(times) == times_and_offsets[:2]:
            return msgspec.structs.replace(Checkpoint(*times_and_offsets), complete_until=complete_until)
    return Checkpoint(*times_and_offsets)


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Durable when this returns. Blocking. Raises OSError.

    Written in place, as Apache's is: all of it is in the first sector, which a disk writes whole or not at all.
    """
    is_new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(descriptor, checkpoint_content(checkpoint), 0)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        sync_folder(path.parent)


def make_checkpoint_file(path: Path, log_end: int) -> None:
    """So that no later write of it needs a block of the disk. Raises OSError.

    What it vouches for beyond the log's end is taken back: other messages will be there.
    """
    checkpoint = read_checkpoint(path)
    is_stale = checkpoint.complete_until > log_end
    if is_stale:
        checkpoint = msgspec.structs.replace(checkpoint, complete_until=0)
    if is_stale or not path.exists() or path.stat().st_size < CHECKPOINT_SIZE:
        write_checkpoint(path, checkpoint)


def checkpoint_content(checkpoint: Checkpoint) -> bytes:
    apaches = CHECKPOINT.pack(*msgspec.structs.astuple(checkpoint)[:-1])
    ours = CHECKPOINT_OURS.pack(CHECKPOINT_MARK, checkpoint.complete_until, checkpoint.log_time, checkpoint.queue_time)
    return (apaches.ljust(CHECKPOINT_OURS_AT, b"\0") + ours).ljust(CHECKPOINT_SIZE, b"\0")
