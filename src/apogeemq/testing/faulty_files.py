"""Disks that flip, tear, refuse to sync, or have no room; `power_cut.py` has the one that forgets.

`flip_bit` and `tear…` damage a file that nobody has open. `failing_syncs` and `full_disk` change what this process is
told by its own system calls while their block runs, and only for files the test points at.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Lock
from typing import TypeAlias
from unittest.mock import patch

SECTOR = 512

Sync: TypeAlias = Callable[[int], None]


# -- damage to a file ----------------------------------------------------------------------------------------


def flip_bit(path: Path, position: int, bit: int = 0) -> None:
    """One bit of one byte is not what was written."""
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes((byte ^ 1 << bit,)))


def tear_from(path: Path, position: int) -> None:
    """Zeros from a position on: the process was killed while it wrote, byte by byte, up to there."""
    size = path.stat().st_size
    os.truncate(path, position)
    os.truncate(path, size)


def tear_sectors(path: Path, start: int, end: int, random: Random) -> int:
    """Of the sectors that hold the bytes from `start` to `end` some were never written; gives how many.

    Bytes of those sectors outside the range stay as they are.
    """
    torn = 0
    with path.open("r+b") as file:
        for at in range(start - start % SECTOR, end, SECTOR):
            if random.random() < 0.5:
                first, last = max(at, start), min(at + SECTOR, end)
                file.seek(first)
                file.write(bytes(last - first))
                torn += 1
    return torn


# -- system calls that fail ----------------------------------------------------------------------------------


def path_of(descriptor: int) -> Path:
    """The file an open descriptor is of."""
    return Path(os.readlink(f"/proc/self/fd/{descriptor}"))


@contextmanager
def failing_syncs(is_failing: Callable[[Path], bool], code: int = errno.EIO) -> Iterator[list[Path]]:
    """fsync and fdatasync of some files fail; gives the list of those that did so far."""
    failed: list[Path] = []

    def wrap(real: Sync) -> Sync:
        def sync(descriptor: int) -> None:
            path = path_of(descriptor)
            if is_failing(path):
                failed.append(path)
                raise OSError(code, os.strerror(code), str(path))
            real(descriptor)

        return sync

    with patch.object(os, "fsync", wrap(os.fsync)), patch.object(os, "fdatasync", wrap(os.fdatasync)):
        yield failed


class FullDisk:
    """Room for `free` bytes more; a test gives and takes it as it likes."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.refusal_count = 0
        self._lock = Lock()

    def take(self, size: int) -> bool:
        with self._lock:
            if size > self.free:
                self.refusal_count += 1
                return False
            self.free -= size
            return True


@contextmanager
def full_disk(root: Path, free: int = 0) -> Iterator[FullDisk]:
    """Reserving blocks for files under a folder fails when there is no room left; so does writing to new ones.

    Blocks a file has already cost nothing. A store into a mapped hole cannot be made to fail here as the kernel would
    (it kills the process): that needs a real small file system.
    """
    disk = FullDisk(free)
    real = os.posix_fallocate

    def posix_fallocate(descriptor: int, offset: int, length: int, /) -> None:
        if root in path_of(descriptor).parents:
            before = os.fstat(descriptor)
            # At most this much is missing; what was reserved before is taken off below.
            if not disk.take(length):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(descriptor, offset, length)
            disk.free += max(0, length - (os.fstat(descriptor).st_blocks - before.st_blocks) * SECTOR)
        else:
            real(descriptor, offset, length)

    with patch.object(os, "posix_fallocate", posix_fallocate):
        yield disk
