"""Files of equal size, one after the other, as one long range of bytes: the commit log, each consume queue."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from apogeemq.errors import StorageFailed
from apogeemq.store.layout import file_name
from apogeemq.store.mapped_file import MapCache, MappedFile


class FileQueue:
    """`files` in order, without gaps; the first may start anywhere, older ones having been deleted."""

    def __init__(self, folder: Path, file_size: int, reserve_step: int, cache: MapCache | None = None) -> None:
        self.folder = folder
        self.file_size = file_size
        self._reserve_step = reserve_step
        self._cache = cache
        self.files: list[MappedFile] = []

    @property
    def start(self) -> int:
        """The first byte there is."""
        return self.files[0].start if self.files else 0

    @property
    def end(self) -> int:
        """The byte after the last file."""
        return self.files[-1].end if self.files else 0

    def load(self) -> None:
        """Find the files. An empty last one was being made when the process died."""
        if not self.folder.is_dir():
            return
        paths = sorted(path for path in self.folder.iterdir() if path.name.isdigit() and len(path.name) == 20)
        if paths and paths[-1].stat().st_size == 0:
            paths.pop().unlink()
        for path in paths:
            size = path.stat().st_size
            if size != self.file_size:
                raise StorageFailed(
                    f"{path} has {size} bytes, but files of {self.folder} are configured to have {self.file_size}"
                )
            if self.files and int(path.name) != self.files[-1].end:
                raise StorageFailed(f"{path} does not follow {self.files[-1].path}: a file is missing between them")
            self.files.append(self._file(int(path.name)))

    def append_file(self, start: int | None = None) -> MappedFile:
        """The next file, empty. `start` is for the very first."""
        file = self._file(self.end if start is None or self.files else start - start % self.file_size)
        file.create()
        self.files.append(file)
        return file

    def find(self, offset: int) -> MappedFile | None:
        """The file that holds this byte."""
        if not self.files:
            return None
        index = (offset - self.files[0].start) // self.file_size
        return self.files[index] if 0 <= index < len(self.files) else None

    def read(self, offset: int, length: int) -> bytes:
        """Within one file; empty when the offset is outside."""
        file = self.find(offset)
        return file.read(offset - file.start, length) if file is not None else b""

    def read_unmapped(self, offset: int, length: int) -> bytes:
        """As `read`, on any thread: maps may be closed at any time by the one that puts. OSError when deleted."""
        file = self.find(offset)
        if file is None:
            return b""
        descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, length, offset - file.start)
        finally:
            os.close(descriptor)

    def write_zeros(self, offset: int, length: int) -> None:
        """Over bytes that were written before, so that no block is needed."""
        file = self.find(offset)
        if file is not None:
            position = offset - file.start
            file.map()[position : position + length] = bytes(length)

    def drop_files_from(self, offset: int) -> None:
        """Delete the files that begin at or after an offset."""
        while self.files and self.files[-1].start >= offset:
            self.files.pop().delete()

    def drop_files_before(self, offset: int) -> int:
        """Delete the files that end at or before an offset, but never the last; gives how many."""
        files = self.take_before(offset)
        for file in files:
            file.delete()
        return len(files)

    def take_before(self, offset: int) -> list[MappedFile]:
        """Let go of the files that end at or before an offset, but never of the last; gives them."""
        count = sum(file.end <= offset for file in self.files[:-1])
        taken, self.files[:count] = self.files[:count], []
        return taken

    def delete(self) -> None:
        for file in self.files:
            file.delete()
        self.files.clear()
        with contextlib.suppress(OSError):  # not empty, or not there
            self.folder.rmdir()
            self.folder.parent.rmdir()

    def close(self) -> None:
        for file in self.files:
            file.close()

    def _file(self, start: int) -> MappedFile:
        return MappedFile(self.folder / file_name(start), start, self.file_size, self._reserve_step, self._cache)
