"""A disk that forgets what was not synced, as disks do when the power goes.

`kill -9` proves nothing about syncing, for the kernel keeps what a dead process wrote. `PowerCut` watches fsync and
fdatasync of this process and remembers what each made durable:

- of a file, its content when the call began;
- of a folder, its names.

`kill` gives a copy with all that was written, as after `kill -9`, and the disk to go on with: it still knows what of it
is durable.

`cut` writes a copy that a machine might find after a power cut at this moment: everything durable, and of all that
changed since, any part, sector by sector and name by name, as chance has it. A file whose folder was not synced may be
missing though its content was; a deleted one may be back; a file that was never synced has any of its sectors, or none.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import RLock
from typing import TypeAlias
from unittest.mock import patch

from apogeemq.testing.faulty_files import SECTOR, Sync, path_of

Inode: TypeAlias = int
_CHANCES = (0.0, 0.02, 0.3, 0.7, 0.98, 1.0)


class PowerCut:
    """Of one folder, on one file system. What is there when it begins to watch is durable."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = RLock()
        self._content: dict[Inode, bytes] = {}
        self._names: dict[Inode, dict[str, Inode]] = {}
        self._held: dict[Inode, int] = {}  # open descriptors: the number of a deleted file is not given to another
        self.sync_count = 0
        self.is_honest = True

    @contextmanager
    def watching(self) -> Iterator[PowerCut]:
        is_new = not self._names
        for path in self._paths():
            self._hold(path)
            if is_new:
                self._remember(path)
        try:
            with (
                patch.object(os, "fsync", self._wrap(os.fsync)),
                patch.object(os, "fdatasync", self._wrap(os.fdatasync)),
            ):
                yield self
        finally:
            for descriptor in self._held.values():
                os.close(descriptor)
            self._held.clear()

    def _wrap(self, real: Sync) -> Sync:
        def sync(descriptor: int) -> None:
            path = path_of(descriptor)
            if self._root not in (path, *path.parents):
                real(descriptor)
                return
            with self._lock:  # the real disk need not be bothered: `cut` is what counts
                self.sync_count += 1
                if self.is_honest:
                    self._remember(path)

        return sync

    def _hold(self, path: Path) -> int | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # deleted meanwhile
            return None
        held = self._held.setdefault(os.fstat(descriptor).st_ino, descriptor)
        if held != descriptor:
            os.close(descriptor)
        return held

    def _remember(self, path: Path) -> None:
        descriptor = self._hold(path)
        if descriptor is None:
            return
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            self._names[found.st_ino] = _names_in(path)
        else:
            self._content[found.st_ino] = _content_of(descriptor)

    # -- the cut ---------------------------------------------------------------------------------------------

    def cut(self, target: Path, random: Random) -> None:
        """Write into a new folder what a machine might find."""
        with self._lock:
            _Remains(self._content, self._names, self._held, random).write_folder(self._root, target)

    def kill(self, target: Path) -> PowerCut:
        """Copy everything as it is; gives the disk the copy is on."""
        with self._lock:
            shutil.copytree(self._root, target)
            disk = PowerCut(target)
            new = {path.stat().st_ino: (target / path.relative_to(self._root)).stat().st_ino for path in self._paths()}
            disk._content = {new[inode]: content for inode, content in self._content.items() if inode in new}
            disk._names = {
                new[folder]: {name: new[inode] for name, inode in names.items() if inode in new}
                for folder, names in self._names.items()
                if folder in new
            }
            return disk

    def _paths(self) -> list[Path]:
        return [self._root, *self._root.rglob("*")]


class _Remains:
    """One power cut: chance, with one inclination for all of it."""

    def __init__(
        self,
        content: dict[Inode, bytes],
        names: dict[Inode, dict[str, Inode]],
        held: dict[Inode, int],
        random: Random,
    ) -> None:
        self._content = content
        self._names = names
        self._held = held
        self._random = random
        self._chance = random.choice(_CHANCES)

    def write_folder(self, source: Path, target: Path) -> None:
        target.mkdir(parents=True)
        now = _names_in(source)
        durable = self._names.get(source.stat().st_ino, {})
        for name in sorted(now.keys() | durable.keys()):
            inode = now.get(name) if self._is_kept() else durable.get(name)
            if inode is None:
                continue
            path = source / name
            if path.is_dir():
                self.write_folder(path, target / name)
            elif inode in self._names:
                (target / name).mkdir()  # deleted, and back
            else:
                (target / name).write_bytes(self._remaining(path, inode, is_there=now.get(name) == inode))

    def _remaining(self, path: Path, inode: Inode, *, is_there: bool) -> bytes:
        """Of each sector that changed since the last sync, the old or the new."""
        durable = self._content.get(inode, b"")
        if not is_there and inode not in self._held:
            return durable
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if is_there else os.dup(self._held[inode])
        try:
            now = _content_of(descriptor)
        finally:
            os.close(descriptor)
        size = len(now) if self._is_kept() else len(durable)
        old, new = durable.ljust(size, b"\0"), now.ljust(size, b"\0")
        if old[:size] == new[:size]:
            return old[:size]
        sectors = []
        for at in range(0, size, SECTOR):
            before, after = old[at : at + SECTOR], new[at : at + SECTOR]
            sectors.append(after if before != after and self._is_kept() else before)
        return b"".join(sectors)[:size]

    def _is_kept(self) -> bool:
        return self._random.random() < self._chance


def _names_in(folder: Path) -> dict[str, Inode]:
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries}


def _content_of(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    parts, position = [], 0
    while position < size:
        part = os.pread(descriptor, min(size - position, 1 << 20), position)
        if not part:
            break
        parts.append(part)
        position += len(part)
    return b"".join(parts)
