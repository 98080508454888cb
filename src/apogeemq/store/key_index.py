"""The key index: from a topic and a key to the messages that carry it.

Files named by their creation time, `layout.INDEX_*`: slots by the key's hash hold the newest item, items are chained to
older ones of the same slot. Only hashes are kept, so whoever asks must look at the messages found. Derived from the
commit log; what is missing is built again from there. One writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from apogeemq.errors import StorageFailed
from apogeemq.filter.tags import java_hash
from apogeemq.store.layout import INDEX_HEADER, INDEX_HEADER_SIZE, INDEX_ITEM, INDEX_ITEM_SIZE, INDEX_SLOT
from apogeemq.store.mapped_file import MappedFile

_RESERVE_STEP = 1024 * 1024
_FIRST_ITEM = 1  # item 0 means "none"


def key_hash(topic: str, key: str) -> int:
    value = abs(java_hash(f"{topic}#{key}"))
    return value if value < 2**31 else 0


class IndexFile:
    """One file: header, slots, items."""

    def __init__(self, path: Path, slot_count: int, item_count: int) -> None:
        self._slot_count = slot_count
        self._item_count = item_count
        self._items_at = INDEX_HEADER_SIZE + slot_count * INDEX_SLOT.size
        self._file = MappedFile(path, 0, self._items_at + item_count * INDEX_ITEM_SIZE, _RESERVE_STEP)
        self.begin_time = self.end_time = self.begin_offset = self.end_offset = 0
        self.used_slots = 0
        self.next_item = _FIRST_ITEM
        self._synced_item = 0  # items before this are on the disk

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def is_full(self) -> bool:
        return self.next_item >= self._item_count

    def create(self) -> None:
        """Slots are written all over the place, so their blocks are reserved at once."""
        self._file.create()
        self._file.reserve(0, self._items_at)

    def load(self) -> None:
        size = self.path.stat().st_size
        if size != self._file.size:
            raise StorageFailed(f"{self.path} has {size} bytes instead of {self._file.size}")
        header = INDEX_HEADER.unpack(self._file.read(0, INDEX_HEADER_SIZE))
        self.begin_time, self.end_time, self.begin_offset, self.end_offset, self.used_slots, next_item = header
        self.next_item = max(next_item, _FIRST_ITEM)

    def put(self, hash_value: int, physical_offset: int, store_time: int) -> None:
        """May raise OSError when the disk has no room."""
        if self.next_item == _FIRST_ITEM and not self.begin_time:
            self.begin_time, self.begin_offset = store_time, physical_offset
        slot_at = INDEX_HEADER_SIZE + hash_value % self._slot_count * INDEX_SLOT.size
        data = self._file.map()
        (previous,) = INDEX_SLOT.unpack_from(data, slot_at)
        if not 0 < previous < self.next_item:
            previous = 0
            self.used_slots += 1
        seconds = min(max((store_time - self.begin_time) // 1000, 0), 2**31 - 1)
        item = INDEX_ITEM.pack(hash_value, physical_offset, seconds, previous)
        self._file.write(self._items_at + self.next_item * INDEX_ITEM_SIZE, item)
        INDEX_SLOT.pack_into(data, slot_at, self.next_item)
        self.next_item += 1
        self.end_time, self.end_offset = store_time, physical_offset
        INDEX_HEADER.pack_into(
            data, 0, self.begin_time, self.end_time, self.begin_offset, self.end_offset, self.used_slots, self.next_item
        )

    def find(self, hash_value: int, begin: int, end: int) -> Iterator[int]:
        """Physical offsets of items with this hash and a store time in the range, newest first."""
        data = self._file.map()
        slot_at = INDEX_HEADER_SIZE + hash_value % self._slot_count * INDEX_SLOT.size
        (number,) = INDEX_SLOT.unpack_from(data, slot_at)
        while 0 < number < self.next_item:
            item_hash, offset, seconds, previous = INDEX_ITEM.unpack_from(
                data, self._items_at + number * INDEX_ITEM_SIZE
            )
            time = self.begin_time + seconds * 1000
            if item_hash == hash_value and begin <= time <= end:
                yield offset
            if previous >= number or time < begin:
                return
            number = previous

    def sync(self) -> None:
        """Blocking; may run beside the writer."""
        end = self.next_item
        if end > self._synced_item:
            self._file.sync_with_name()
            self._synced_item = end

    def delete(self) -> None:
        self._file.delete()

    def close(self) -> None:
        self._file.close()


class KeyIndex:
    """All index files, oldest first."""

    def __init__(self, folder: Path, slot_count: int, item_count: int) -> None:
        self._folder = folder
        self._slot_count = slot_count
        self._item_count = item_count
        self.files: list[IndexFile] = []

    @property
    def end_offset(self) -> int:
        """Messages up to this physical offset are indexed."""
        return self.files[-1].end_offset if self.files else -1

    @property
    def end_time(self) -> int:
        return self.files[-1].end_time if self.files else 0

    def load(self, is_clean: bool, safe_time: int) -> None:
        """After a crash, files that were written to after the last checkpoint are built again."""
        if not self._folder.is_dir():
            return
        for path in sorted(path for path in self._folder.iterdir() if path.name.isdigit()):
            file = IndexFile(path, self._slot_count, self._item_count)
            try:
                file.load()
            except StorageFailed:
                path.unlink()  # made by other settings, or torn: built again from the log
                continue
            if not is_clean and file.end_time > safe_time:
                file.delete()
                continue
            self.files.append(file)

    def put(self, topic: str, keys: Sequence[str], physical_offset: int, store_time: int) -> None:
        """Nothing for a message that is in already. May raise OSError."""
        if physical_offset <= self.end_offset:
            return
        for key in keys:
            self._writable(store_time).put(key_hash(topic, key), physical_offset, store_time)

    def _writable(self, store_time: int) -> IndexFile:
        if not self.files or self.files[-1].is_full:
            moment = datetime.fromtimestamp(store_time / 1000)
            name = moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03d}"
            while self.files and name <= self.files[-1].path.name:
                name = str(int(self.files[-1].path.name) + 1)
            file = IndexFile(self._folder / name, self._slot_count, self._item_count)
            file.create()
            self.files.append(file)
        return self.files[-1]

    def find(self, topic: str, key: str, begin: int, end: int, most: int) -> list[int]:
        """Physical offsets that may hold the key, newest first."""
        hash_value = key_hash(topic, key)
        found: list[int] = []
        for file in reversed(self.files):
            if file.begin_time > end:
                continue
            for offset in file.find(hash_value, begin, end):
                found.append(offset)
                if len(found) >= most:
                    return found
            if file.begin_time < begin:
                break
        return found

    def sync(self) -> None:
        for file in list(self.files):
            file.sync()

    def close(self) -> None:
        for file in self.files:
            file.close()
