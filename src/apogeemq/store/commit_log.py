"""The commit log: the messages of all topics, one record after the other, in order of arrival.

Files of `file_size` bytes named by the offset of their first byte. A record never crosses a file: what is left is
marked by a blank (size, magic) and skipped. One writer, no locks. Records are put one by one, or gathered and then
written together. A crash of the process loses only what was not written (`written_offset`), which nobody was told of; a
power cut loses what was not flushed (`flushed_offset`).
"""

from __future__ import annotations

import logging
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from apogeemq.errors import ProtocolError, StorageFailed
from apogeemq.protocol.record import BLANK, MAGIC_BLANK, Record, decode_record
from apogeemq.store.file_queue import FileQueue
from apogeemq.store.mapped_file import MappedFile

log = logging.getLogger(__name__)

_RESERVE_STEP: Final = 16 * 1024 * 1024
_POPULATE_STEP: Final = 256 * 1024
# What has this size is written by a call: pages that were never written through the map need not be cleared first, nor
# be protected again by each flush. For less the call costs more than it saves, unless a flush follows at once.
_LARGE: Final = 16 * 1024
_MOST_GATHERED: Final = 1024 * 1024
_BLANK_SIZE: Final = BLANK.size


class CommitLog:
    """`max_offset` is where the next record goes, unless it needs a new file; what is below `written_offset` is in the
    page cache. Another thread may read both."""

    def __init__(self, folder: Path, file_size: int) -> None:
        self.files = FileQueue(folder, file_size, min(_RESERVE_STEP, file_size))
        self.max_offset = 0
        self.written_offset = 0
        self.flushed_offset = 0
        self.room = 0  # what ends at or below this offset can be `put` without a `claim`
        self.reserved_room = 0  # the same for `gather`
        self._file_size = file_size
        self._start = 0  # of the file written to
        self._map: mmap.mmap | None = None
        self._gathered: list[bytes] = []
        self._sync_error: OSError | None = None  # the kernel tells only once

    @property
    def min_offset(self) -> int:
        return self.files.start

    # -- writing ---------------------------------------------------------------------------------------------

    def claim(self, size: int) -> int:
        """The physical offset at which a record of this size will go; `put` follows before anything else does.

        Raises OSError when the disk has no room; what was there is untouched.
        """
        if self.max_offset + size > self.room:
            self._make_room(size)
        return self.max_offset

    def put(self, record: bytes) -> None:
        """Write at the offset just claimed, or at `max_offset` while there is room. OSError: nothing was written."""
        if self._gathered:
            self.settle()
        at = self.max_offset - self._start
        if len(record) < _LARGE:
            self._map[at : at + len(record)] = record  # type: ignore[index]
        else:
            self.files.files[-1].write_by_call(at, record)
        self.max_offset += len(record)
        self.written_offset = self.max_offset

    def gather(self, record: bytes) -> None:
        """Keep a record that goes to `max_offset`, up to `reserved_room`, for `settle`, which is to follow soon."""
        self._gathered.append(record)
        self.max_offset += len(record)
        if self.max_offset - self.written_offset >= _MOST_GATHERED:
            self.settle()

    def settle(self, *, is_for_flush: bool = False) -> None:
        """Write what was gathered."""
        gathered = self._gathered
        if not gathered:
            return
        data, at = gathered[0] if len(gathered) == 1 else b"".join(gathered), self.written_offset - self._start
        if is_for_flush or len(data) >= _LARGE:
            self._write_by_call(at, data)
        else:
            if self.max_offset > self.room:
                self._prepare_map(self.files.files[-1], at, len(data))
            self._map[at : at + len(data)] = data  # type: ignore[index]
        self._gathered = []
        self.written_offset = self.max_offset

    def _write_by_call(self, at: int, data: bytes) -> None:
        tail = self.files.files[-1]
        try:
            tail.write_by_call(at, data)
        except OSError as error:  # through the map it can be read, and the next flush says what became of it
            log.error("%s takes no call to write, its map is written instead: %s", tail.path, error)
            tail.map()[at : at + len(data)] = data

    def reserve_room(self, size: int) -> None:
        """For a record that is to be gathered. Raises OSError as `claim` does."""
        tail = self._reserved_tail(size)
        self.reserved_room = self._start + tail.reserved - _BLANK_SIZE

    def _make_room(self, size: int) -> None:
        tail = self._reserved_tail(size)
        if size >= _LARGE:  # past the map: `room` stays behind, so the next small record comes here first
            return
        self._prepare_map(tail, self.max_offset - self._start, size)

    def _prepare_map(self, tail: MappedFile, at: int, size: int) -> None:
        """Have pages ready for what goes to a position, and some more."""
        end = at + size + _BLANK_SIZE
        ready = min(end - end % _POPULATE_STEP + _POPULATE_STEP, tail.reserved)
        tail.populate(at, ready)
        self._map = tail.map()
        self.room = self._start + ready - _BLANK_SIZE

    def _reserved_tail(self, size: int) -> MappedFile:
        """The file a record of this size goes to, with blocks for it."""
        if size + _BLANK_SIZE > self._file_size:
            raise StorageFailed(f"a record of {size} bytes does not fit a commit log file of {self._file_size}")
        if not self.files.files or self.max_offset - self._start + size + _BLANK_SIZE > self._file_size:
            self._roll()
        tail = self.files.files[-1]
        at = self.max_offset - self._start
        end = at + size + _BLANK_SIZE  # with room for the blank that may have to follow
        if end > tail.reserved:
            tail.reserve(at, end)
        return tail

    def _roll(self) -> None:
        """Begin the next file; the present one is closed by a blank."""
        self.settle()
        files, at = self.files.files, self.max_offset - self._start
        is_first, remaining = not files, self._file_size - at
        # The blank goes first: when the next file cannot be had, a shorter record may still be written over it.
        if not is_first and remaining >= _BLANK_SIZE:
            files[-1].write(at, BLANK.pack(remaining, MAGIC_BLANK))
        # No power cut may leave the next file without this one.
        if not is_first and files[-1].is_new:
            self._sync_now(files[-1])
        if not is_first:
            files[-1].end_calls()
        fresh = self.files.append_file(self.max_offset if is_first else None)
        self._start = self.max_offset = self.written_offset = fresh.start

    def _sync_now(self, file: MappedFile) -> None:
        try:
            file.sync_with_name()
        except OSError as error:
            self._sync_error = error
            raise

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of one record; fewer or none when the log does not hold them."""
        if offset < self.min_offset or offset + size > self.max_offset:
            return b""
        if self._gathered:
            self.settle()
        return self.files.read(offset, size)

    def window(self, offset: int) -> tuple[mmap.mmap, int, int] | None:
        """The map of the file an offset is in, the offset it begins at and the one where what is written in it ends."""
        file = self.files.find(offset)
        if file is None or offset >= self.max_offset:
            return None
        if self._gathered:
            self.settle()
        return file.map(), file.start, min(file.end, self.max_offset)

    def record_at(self, offset: int) -> Record | None:
        """The whole record at an offset; None when there is none."""
        head = self.read(offset, 4)
        if len(head) < 4:
            return None
        data = self.read(offset, int.from_bytes(head))
        try:
            record = decode_record(data) if data else None
        except ProtocolError:
            return None
        return record if record is not None and record.physical_offset == offset else None

    # -- flushing --------------------------------------------------------------------------------------------

    def flush(self, up_to: int) -> None:
        """Make everything below an offset durable. Blocking; may run beside the writer. Raises OSError."""
        if self._sync_error is not None:
            raise self._sync_error
        for file in list(self.files.files):
            if file.end > self.flushed_offset and file.start < up_to:
                file.sync_with_name()
        self.flushed_offset = max(self.flushed_offset, up_to)

    # -- recovery --------------------------------------------------------------------------------------------

    def load(self) -> None:
        self.files.load()
        if self.files.files:
            self.cut(self.files.end)

    def scan(self, offset: int) -> Iterator[tuple[int, Record | None]]:
        """(offset after it, record) for each whole record from an offset on; a blank gives (next file, None).

        Ends where the log does: at bytes that are neither.
        """
        while True:
            file = self.files.find(offset)
            if file is None:
                return
            data, position = file.map(), offset - file.start
            size, magic = BLANK.unpack_from(data, position) if position + _BLANK_SIZE <= file.size else (0, MAGIC_BLANK)
            if magic == MAGIC_BLANK:
                offset = file.end
                yield offset, None
                continue
            try:
                record = decode_record(data[position : position + size])
            except ProtocolError:
                return
            if record.physical_offset != offset:
                return
            offset += size
            yield offset, record

    def cut(self, offset: int) -> None:
        """The log ends here. What follows is removed, so that no later crash can bring it back."""
        self.files.drop_files_from(offset)
        tail = self.files.files[-1] if self.files.files else None
        self._map, self.room, self.reserved_room = None, 0, 0
        self._start = tail.start if tail is not None else offset
        self.max_offset = self.written_offset = offset
        if tail is None:
            return
        if offset < tail.end:
            tail.cut(offset - tail.start)
        self.flushed_offset = min(self.flushed_offset, offset)

    def close(self) -> None:
        self.settle()
        self._map, self.room = None, 0
        self.files.close()
