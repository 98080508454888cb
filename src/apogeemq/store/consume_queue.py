"""A consume queue: for each message of one queue, where its record is, how long it is, and its tag's hash.

Files of 300,000 entries of 20 bytes (`layout.QUEUE_ENTRY`). Derived from the commit log: whatever is missing or wrong
here is rebuilt from there. Logical offset n is the entry at byte 20·n. One writer.

The map of the last file is kept at hand for `append` while blocks are reserved ahead of it; it is let go of, and asked
for again by `make_room`, when the file is full or the cache of maps takes it back.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from pathlib import Path
from typing import Final

from apogeemq.store.file_queue import FileQueue
from apogeemq.store.layout import FILLER_ENTRY, FILLER_SIZE, QUEUE_ENTRY, QUEUE_ENTRY_SIZE
from apogeemq.store.mapped_file import MapCache, MappedFile

_RESERVE_STEP: Final = 4096

_pack_into: Final = QUEUE_ENTRY.pack_into
_unpack: Final = QUEUE_ENTRY.unpack_from


class ConsumeQueue:
    """Holds logical offsets from `min_offset` to below `max_offset`; `end_physical` is the end of its last message.

    Entries below `synced_offset` are on the disk.
    """

    __slots__ = (
        "_at",
        "_files",
        "_map",
        "_map_start",
        "end_physical",
        "max_offset",
        "min_offset",
        "queue_id",
        "room",
        "synced_offset",
        "topic",
    )

    def __init__(self, root: Path, topic: str, queue_id: int, file_size: int, cache: MapCache) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self._files = FileQueue(root / topic / str(queue_id), file_size, _RESERVE_STEP, cache)
        self.max_offset = 0
        self.min_offset = 0
        self.end_physical = 0
        self.synced_offset = 0
        self.room = 0  # logical offsets below this can be appended without `make_room`
        self._map: mmap.mmap | None = None
        self._map_start = 0  # logical offset of its first entry
        self._at = 0  # of the next entry in the map, while there is room

    # -- writing ---------------------------------------------------------------------------------------------

    def append(self, physical_offset: int, size: int, tags_code: int) -> None:
        """The entry at `max_offset`. There is room: `max_offset` is below `room`, or `make_room` was called."""
        at = self._at
        _pack_into(self._map, at, physical_offset, size, tags_code)  # type: ignore[arg-type]
        self._at = at + QUEUE_ENTRY_SIZE
        self.max_offset += 1
        self.end_physical = physical_offset + size

    def append_many(self, entries: bytes, end_physical: int) -> None:
        """Packed entries from `max_offset` on. `make_room` was called for as many."""
        count = len(entries) // QUEUE_ENTRY_SIZE
        at, offset = self._at, self.max_offset
        if offset + count <= self.room:
            self._at = end = at + len(entries)
            self._map[at:end] = entries  # type: ignore[index]
        else:  # they go on in the next file
            for done in range(0, len(entries), QUEUE_ENTRY_SIZE):
                self._write(offset + done // QUEUE_ENTRY_SIZE, entries[done : done + QUEUE_ENTRY_SIZE])
            self._let_go()
        self.max_offset = offset + count
        self.end_physical = end_physical

    def append_at(self, offset: int, physical_offset: int, size: int, tags_code: int) -> None:
        """An entry as the log has it, when a queue is built again. May raise OSError.

        What is missing before it is filled up. A topic that was deleted and made again begins at 0 once more: what was
        built of the earlier one is given up.
        """
        if offset < self.max_offset:
            self._cut_at(offset)
        if self.min_offset == self.max_offset and not self._files.files:
            self.min_offset = self.max_offset = offset
        while self.max_offset < offset:
            self._append_filler()
        self._append_with_room(physical_offset, size, tags_code)

    def _append_with_room(self, physical_offset: int, size: int, tags_code: int) -> None:
        if self.max_offset >= self.room:
            self.make_room()
        self.append(physical_offset, size, tags_code)

    def _append_filler(self) -> None:
        end_physical = self.end_physical
        self._append_with_room(end_physical, FILLER_SIZE, 0)
        self.end_physical = end_physical

    def make_room(self, count: int = 1) -> None:
        """Files and blocks for `count` more entries, all or OSError: after this, appending those cannot fail."""
        offset = self.max_offset
        if offset + count <= self.room:
            return
        self._let_go()
        position, end = offset * QUEUE_ENTRY_SIZE, (offset + count) * QUEUE_ENTRY_SIZE
        while position < end:
            file = self._files.find(position) or self._next_file(position)
            end_here = min(end, file.end)
            if end_here - file.start > file.reserved:
                file.reserve(position - file.start, end_here - file.start)
                if file.reserved - (position - file.start) > _RESERVE_STEP:
                    file.populate(position - file.start, file.reserved)
            position = end_here
        self._hold(offset)

    def _hold(self, offset: int) -> None:
        """Keep the map of the file an offset is in at hand."""
        file = self._files.find(offset * QUEUE_ENTRY_SIZE)
        if file is not None:
            self._map = file.map()
            file.on_idle = self._let_go
            self._map_start = file.start // QUEUE_ENTRY_SIZE
            self._at = offset * QUEUE_ENTRY_SIZE - file.start
            self.room = (file.start + file.reserved) // QUEUE_ENTRY_SIZE

    def _let_go(self) -> None:
        self._map = None
        self.room = 0

    def _next_file(self, position: int) -> MappedFile:
        is_first = not self._files.files
        file = self._files.append_file(position)
        if is_first:
            self.min_offset = position // QUEUE_ENTRY_SIZE
            count = (position - file.start) // QUEUE_ENTRY_SIZE
            if count:  # the queue begins in the middle of a file: say that nothing is before
                try:
                    file.write(0, FILLER_ENTRY * count)
                except OSError:
                    self._files.drop_files_from(file.start)
                    raise
        return file

    def _write(self, offset: int, entries: bytes) -> None:
        position = offset * QUEUE_ENTRY_SIZE
        file = self._files.find(position)
        if file is not None:
            file.write(position - file.start, entries)

    # -- reading ---------------------------------------------------------------------------------------------

    def entries(self, offset: int, most: int) -> bytes:
        """Up to `most` entries from a logical offset on, packed; fewer at the end of a file."""
        count = self.max_offset - offset
        if count <= 0 or offset < self.min_offset:
            return b""
        if count > most:
            count = most
        if self._map is not None and offset >= self._map_start:
            at = (offset - self._map_start) * QUEUE_ENTRY_SIZE
            return self._map[at : at + count * QUEUE_ENTRY_SIZE]
        return self._files.read(offset * QUEUE_ENTRY_SIZE, count * QUEUE_ENTRY_SIZE)

    def entry(self, offset: int) -> tuple[int, int, int] | None:
        """(physical offset, size, tags code)"""
        data = self.entries(offset, 1)
        return _unpack(data) if data else None

    def next_file_offset(self, offset: int) -> int:
        """The first logical offset of the file after the one that holds `offset`."""
        per_file = self._files.file_size // QUEUE_ENTRY_SIZE
        return (offset // per_file + 1) * per_file

    # -- recovery and retention ------------------------------------------------------------------------------

    def load(self) -> None:
        """Find the end: the last entry that says something."""
        self._files.load()
        self.min_offset = self.max_offset = self._files.start // QUEUE_ENTRY_SIZE
        for file in reversed(self._files.files):
            count = _valid_count(file)
            if count:
                self._end_at(file.start // QUEUE_ENTRY_SIZE + count)
                break
        self.synced_offset = self.max_offset

    def _end_at(self, offset: int) -> None:
        self._let_go()
        self.max_offset = offset
        self.synced_offset = min(self.synced_offset, offset)
        last = self.entry(offset - 1)
        if last is not None and last[1] != FILLER_SIZE:
            self.end_physical = last[0] + last[1]
        else:
            self.end_physical = 0

    def cut(self, physical_offset: int) -> None:
        """Forget the messages that end after a physical offset: the log does not have them any more."""
        while self.max_offset > self.min_offset and self.end_physical > physical_offset:
            self._files.write_zeros((self.max_offset - 1) * QUEUE_ENTRY_SIZE, QUEUE_ENTRY_SIZE)
            self._end_at(self.max_offset - 1)
        self._files.drop_files_from(self.max_offset * QUEUE_ENTRY_SIZE + 1)

    def last_before(self, physical_offset: int) -> tuple[int, int, int] | None:
        """The entry of the last message that begins before a physical offset."""
        offset = bisect_left(
            range(self.max_offset),
            True,
            self.min_offset,
            key=lambda offset: not _leads_before(self.entries(offset, 1), physical_offset),
        )
        return self.entry(offset - 1) if offset > self.min_offset else None

    def cut_from(self, physical_offset: int) -> None:
        """After a crash: keep the entries of messages before a physical offset. What follows may be torn in any way."""
        first, end = self._files.start // QUEUE_ENTRY_SIZE, self._files.end // QUEUE_ENTRY_SIZE
        self.max_offset = end
        offset = bisect_left(
            range(end), True, first, key=lambda offset: not _leads_before(self.entries(offset, 1), physical_offset)
        )
        self._end_at(offset)
        position = offset * QUEUE_ENTRY_SIZE
        self._files.drop_files_from(position + 1)
        file = self._files.find(position)
        if file is not None:
            file.cut(position - file.start)
            file.is_new = True  # its name may be known to nobody but the kernel

    def blank_out(self, start: int, end: int) -> int:
        """Let the entries that lead between two physical offsets lead nowhere; gives how many there were."""
        first = bisect_left(
            range(self.max_offset),
            True,
            self.min_offset,
            key=lambda offset: not _is_before(self.entries(offset, 1), start),
        )
        count = 0
        while (entry := self.entry(first + count)) is not None and entry[0] < end:
            self._write(first + count, QUEUE_ENTRY.pack(entry[0], FILLER_SIZE, 0))
            count += 1
        return count

    def _cut_at(self, offset: int) -> None:
        """Forget the messages from a logical offset on."""
        for gone in range(max(offset, self.min_offset), self.max_offset):
            self._files.write_zeros(gone * QUEUE_ENTRY_SIZE, QUEUE_ENTRY_SIZE)
        if offset <= self.min_offset:
            self.delete()
        else:
            self._end_at(offset)
            self._files.drop_files_from(offset * QUEUE_ENTRY_SIZE + 1)

    def correct_min_offset(self, min_physical: int) -> int:
        """Messages before a physical offset are deleted: begin after them. Gives the number of files deleted."""
        self.min_offset = bisect_left(  # physical offsets grow with logical ones
            range(self.max_offset),
            True,
            self.min_offset,
            key=lambda offset: not _is_before(self.entries(offset, 1), min_physical),
        )
        return self.drop_expired_files()

    def begin_at(self, min_physical: int) -> None:
        """As `correct_min_offset`, beside the thread that puts: reads files, not maps, and deletes nothing."""
        if self.end_physical <= min_physical:
            self.min_offset = self.max_offset
            return
        low, high = self.min_offset, self.max_offset
        if low < high and _is_before(self._files.read_unmapped(low * QUEUE_ENTRY_SIZE, QUEUE_ENTRY_SIZE), min_physical):
            low = bisect_left(
                range(high),
                True,
                low + 1,
                key=lambda offset: (
                    not _is_before(self._files.read_unmapped(offset * QUEUE_ENTRY_SIZE, QUEUE_ENTRY_SIZE), min_physical)
                ),
            )
        self.min_offset = low

    def drop_expired_files(self) -> int:
        """Delete files with nothing from `min_offset` on; gives how many."""
        return self._files.drop_files_before(self.min_offset * QUEUE_ENTRY_SIZE)

    def sync(self) -> list[Path]:
        """Make what was written so far durable, but for the names of new files: gives the folders those are in.

        Blocking; may run beside the writer.
        """
        end, folders = self.max_offset, []
        start_position, end_position = self.synced_offset * QUEUE_ENTRY_SIZE, end * QUEUE_ENTRY_SIZE
        for file in list(self._files.files):
            if file.end > start_position and file.start < end_position:
                file.sync()
                if file.is_new:
                    folders.append(file.path.parent)
                    file.is_new = False
        self.synced_offset = end
        return folders

    def delete(self) -> None:
        self._files.delete()
        self.min_offset = self.max_offset = self.end_physical = self.synced_offset = 0

    def close(self) -> None:
        self._files.close()


def _is_before(entry: bytes, min_physical: int) -> bool:
    """Whether an entry, or none at all, leads to what the log has deleted, or nowhere."""
    if not entry:
        return True
    physical_offset, size, _ = _unpack(entry)
    return bool(physical_offset < min_physical or (physical_offset == 0 and size == FILLER_SIZE))


def _leads_before(entry: bytes, physical_offset: int) -> bool:
    """Whether an entry is whole, and of a message before an offset."""
    found, size, _ = _unpack(entry)
    return bool(size > 0 and 0 <= found < physical_offset)


def _valid_count(file: MappedFile) -> int:
    """Entries are written in order, so the valid ones are a prefix: found by halving."""
    data = file.map()
    low, high = 0, file.size // QUEUE_ENTRY_SIZE
    while low < high:
        middle = (low + high) // 2
        physical_offset, size, _ = _unpack(data, middle * QUEUE_ENTRY_SIZE)
        if physical_offset >= 0 and size > 0:
            low = middle + 1
        else:
            high = middle
    return low
