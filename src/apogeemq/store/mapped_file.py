"""A file of fixed size, mapped into memory; and a bound on how many are mapped at once.

A new file is sparse. A store into a hole of a full disk would kill the process with SIGBUS, so blocks are reserved
ahead of what is written, in steps; a reservation that fails is an OSError the writer can answer. Slices handed out
are copies: a map with a living view on it could not be closed.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import resource
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from apogeemq.runtime.atomic_file import sync_folder

_PAGE: Final = 4096
_MAX_GROWN_STEP: Final = 64 * _PAGE
_MADV_POPULATE_WRITE: Final = 23  # Linux 5.14; the mmap module has no name for it yet


def most_maps() -> int:
    """Half of the descriptors this process may have; the rest is for connections. The kernel's usual limit on maps
    is 65,530."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(64, min(soft // 2, 32_768)) if soft != resource.RLIM_INFINITY else 32_768


class MapCache:
    """At most `capacity` maps are open; of those not used lately one is closed for the next.

    An open map costs a descriptor, and a large broker has more queues than descriptors.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = max(1, capacity)
        self._open: deque[MappedFile] = deque()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, file: MappedFile) -> None:
        while len(self._open) >= self._capacity:
            oldest = self._open.popleft()
            if oldest.is_used:
                oldest.rest()
                self._open.append(oldest)
            else:
                oldest.unmap()
        self._open.append(file)

    def drop(self, file: MappedFile) -> None:
        if file in self._open:
            self._open.remove(file)


class MappedFile:
    """`start` is the offset of its first byte in the log or queue it is part of. One writer; any reader.

    `is_new` until its name is known to be on the disk: a file can be synced and yet be gone after a power cut.
    Who keeps the map at hand, instead of asking for it each time, sets `on_idle`: it is called once, when the map must
    be asked for again to show that it is in use, or is about to be closed.
    """

    __slots__ = (
        "_cache",
        "_descriptor",
        "_map",
        "_reserve_step",
        "_reserved",
        "is_new",
        "is_used",
        "on_idle",
        "path",
        "size",
        "start",
    )

    def __init__(self, path: Path, start: int, size: int, reserve_step: int, cache: MapCache | None = None) -> None:
        self.path = path
        self.start = start
        self.size = size
        self.is_used = False
        self.is_new = False
        self.on_idle: Callable[[], None] | None = None
        self._reserve_step = reserve_step
        self._reserved = -1  # nothing written yet by us; blocks before the first write are not our affair
        self._cache = cache
        self._map: mmap.mmap | None = None
        self._descriptor = -1  # for `write_by_call`

    @property
    def end(self) -> int:
        return self.start + self.size

    @property
    def reserved(self) -> int:
        """Positions below this can be written without a further reservation."""
        return self._reserved

    def create(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.is_new = True
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, self.size)
        finally:
            os.close(descriptor)

    def map(self) -> mmap.mmap:
        """The whole file, mapped if it was not."""
        self.is_used = True
        if self._map is None:
            if self._cache is not None:
                self._cache.admit(self)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                self._map = mmap.mmap(descriptor, self.size)
            finally:
                os.close(descriptor)
            if self._cache is not None:
                # One of thousands: the first touch of it shall not make the kernel read megabytes of it ahead.
                self._map.madvise(mmap.MADV_RANDOM)
        return self._map

    def read(self, position: int, length: int) -> bytes:
        return self.map()[position : position + length]

    def write(self, position: int, data: bytes) -> None:
        """Raises OSError, with nothing written, when no block can be had."""
        end = position + len(data)
        if end > self._reserved:
            self.reserve(position, end)
        self.map()[position:end] = data

    def write_by_call(self, position: int, data: bytes) -> None:
        """As `write` does, past the map, into blocks that are reserved. OSError: nothing of it is there."""
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        descriptor, done = self._descriptor, 0
        try:
            while done < len(data):
                written = os.pwrite(descriptor, data[done:] if done else data, position + done)
                if not written:
                    raise OSError(errno.EIO, f"{self.path} takes no more bytes")
                done += written
        except OSError:
            self.map()[position : position + done] = bytes(done)
            raise

    def end_calls(self) -> None:
        """No more is written by calls."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def reserve(self, position: int, end: int) -> None:
        """Make sure of the blocks from `position` to `end`, and of some more."""
        start = self._reserved if self._reserved >= 0 else position - position % _PAGE
        # A file that has grown gets more at once: it is likely to go on.
        step = max(self._reserve_step, min(end // 4, _MAX_GROWN_STEP) // _PAGE * _PAGE)
        target = min(self.size, end - end % step + step)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            try:
                os.posix_fallocate(descriptor, start, target - start)
            except OSError:
                # Nearly full: what is needed may still be there when what is wished for is not.
                target = end
                os.posix_fallocate(descriptor, start, target - start)
        finally:
            os.close(descriptor)
        self._reserved = target

    def populate(self, position: int, end: int) -> None:
        """Have the kernel prepare pages that will be written soon, many at once: far cheaper than one by one.

        Their blocks are reserved. An older kernel that cannot do it prepares each page when it is first written.
        """
        start = position - position % _PAGE
        with contextlib.suppress(OSError):
            self.map().madvise(_MADV_POPULATE_WRITE, start, end - start)

    def sync(self) -> None:
        """Write dirty pages to the disk. Blocking; off the event loop. Raises OSError when the disk refuses."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def sync_with_name(self) -> None:
        """Write dirty pages, and the name of a new file, to the disk. Blocking; off the event loop."""
        self.sync()
        if self.is_new:
            sync_folder(self.path.parent)
            self.is_new = False

    def rest(self) -> None:
        """Not in use until the map is asked for again."""
        self.is_used = False
        if self.on_idle is not None:
            on_idle, self.on_idle = self.on_idle, None
            on_idle()

    def cut(self, position: int) -> None:
        """Only zeros from a position on, durably: no later crash may bring back what was there."""
        self.close()
        self._reserved = -1
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if _has_data_from(descriptor, position):
                os.ftruncate(descriptor, position)
                os.ftruncate(descriptor, self.size)
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def unmap(self) -> None:
        self.rest()
        if self._map is not None:
            self._map.close()
            self._map = None

    def close(self) -> None:
        if self._cache is not None:
            self._cache.drop(self)
        self.end_calls()
        self.unmap()

    def delete(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)


def _has_data_from(descriptor: int, position: int) -> bool:
    """Whether anything but zeros may be there. Asks the file system for blocks; reads only the first page."""
    next_page = position - position % _PAGE + _PAGE
    if os.pread(descriptor, next_page - position, position).strip(b"\0"):
        return True
    try:
        os.lseek(descriptor, next_page, os.SEEK_DATA)
    except OSError:  # no data up to the end
        return False
    return True
