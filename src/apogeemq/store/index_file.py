"""One file of the key index: header, slots, items (`layout.INDEX_*`).

A slot holds the newest item of the keys whose hash leads to it, each item the one before it. Items are in the order of
the log. The header is written when the file is synced and closed, not with each item: it may be behind the items, so
after a crash `repair` believes the items, and makes header and slots of them. One writer.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from sys import byteorder
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be

from apogeemq.errors import StorageFailed
from apogeemq.store.layout import (
    HASHED_KEY,
    HASHED_KEY_SIZE,
    INDEX_HEADER,
    INDEX_HEADER_SIZE,
    INDEX_ITEM,
    INDEX_ITEM_SIZE,
    INDEX_SLOT,
)
from apogeemq.store.mapped_file import MappedFile

if TYPE_CHECKING:
    from mypy_extensions import i32, i64

_RESERVE_STEP: Final = 1024 * 1024
_FIRST_ITEM: Final = 1  # item 0 means "none"
_MAX_SECONDS: Final = 2**31 - 1
_REPAIR_STEP: Final = 65_536  # items

_WORD: Final = 4
_HEADER_WORDS: Final = INDEX_HEADER_SIZE // _WORD
_ITEM_WORDS: Final = INDEX_ITEM_SIZE // _WORD
_PREVIOUS_WORD: Final = _ITEM_WORDS - 1  # in an item

_OFFSET_AT: Final = 4  # in a hashed key
_ITEM_START: Final = "iqi"  # key hash, physical offset, seconds; the previous item's number is copied from the slot
_pack_item_start: Final = Struct(">" + _ITEM_START).pack_into
_pack_slot: Final = INDEX_SLOT.pack_into
_items: Final = INDEX_ITEM.iter_unpack
_IS_BIG_ENDIAN: Final = byteorder == "big"
_SIGN_BIT: Final = 0x8000_0000
_UNSIGNED_END: Final = 0x1_0000_0000


def _big_endian(number: i64) -> i64:
    """The word whose bytes, in this machine's order, are a positive number from its highest byte on; or back."""
    if _IS_BIG_ENDIAN:
        return number
    return (number & 0xFF) << 24 | (number & 0xFF00) << 8 | number >> 8 & 0xFF00 | number >> 24


def _signed(word: i64) -> int:
    """A damaged slot may hold anything; it is passed on as it is, and not followed."""
    return int(word if word < _SIGN_BIT else word - _UNSIGNED_END)


class IndexFile:
    __slots__ = (
        "_file",
        "_item_count",
        "_items_at",
        "_items_word",
        "_map",
        "_room",
        "_seconds",
        "_slot_count",
        "_synced_item",
        "_words",
        "begin_offset",
        "begin_time",
        "end_offset",
        "end_time",
        "next_item",
        "used_slots",
    )

    def __init__(self, path: Path, slot_count: int, item_count: int) -> None:
        self._slot_count = slot_count
        self._item_count = item_count
        self._items_at = INDEX_HEADER_SIZE + slot_count * INDEX_SLOT.size
        self._items_word = self._items_at // _WORD
        self._file = MappedFile(path, 0, self._items_at + item_count * INDEX_ITEM_SIZE, _RESERVE_STEP)
        self.begin_time = self.end_time = self.begin_offset = self.end_offset = 0
        self.used_slots = 0
        self.next_item = _FIRST_ITEM
        self._synced_item = 0  # items before this are on the disk
        self._seconds = 0  # from begin time to end time
        self._room = 0  # items below this number can be written at once
        # While there is room: the map, and the same as words, to copy a slot's number without looking at it.
        self._map: mmap.mmap | None = None
        self._words: memoryview | None = None

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def mapped(self) -> MappedFile:
        return self._file

    @property
    def is_full(self) -> bool:
        return self.next_item >= self._item_count

    @property
    def is_empty(self) -> bool:
        return self.next_item == _FIRST_ITEM

    def create(self) -> None:
        """May raise OSError, and leaves no file then."""
        self._file.create()
        try:
            self._reserve(self._items_at)
        except OSError:
            self._file.delete()
            raise

    # -- writing ---------------------------------------------------------------------------------------------

    def put(self, hash_value: int, physical_offset: int, store_time: int) -> None:
        """An item more; the file is not full. May raise OSError when the disk has no room."""
        number = self.next_item
        if number >= self._room:
            self._make_room(physical_offset, store_time)
        if store_time != self.end_time:
            self._tell_time(store_time)
        slot_word = hash_value % self._slot_count + _HEADER_WORDS
        item_word = self._items_word + number * _ITEM_WORDS
        words: memoryview = self._words  # type: ignore[assignment]
        data: mmap.mmap = self._map  # type: ignore[assignment]
        previous = words[slot_word]
        if not previous:
            self.used_slots += 1
        _pack_item_start(data, item_word * _WORD, hash_value, physical_offset, self._seconds)
        words[item_word + _PREVIOUS_WORD] = previous
        _pack_slot(data, slot_word * _WORD, number)
        self.end_offset = physical_offset
        self.next_item = number + 1

    def put_many(self, hashed_keys: bytes, position: int, store_time: int) -> int:
        """Those from a position on, as `layout.HASHED_KEY` has them, of one moment; gives how many there was room for,
        at least one. May raise OSError."""
        number = self.next_item
        if number >= self._room:
            _, first_offset = HASHED_KEY.unpack_from(hashed_keys, position)
            self._make_room(first_offset, store_time)
        if store_time != self.end_time:
            self._tell_time(store_time)
        count = min((len(hashed_keys) - position) // HASHED_KEY_SIZE, self._room - number)
        start = self._items_at + number * INDEX_ITEM_SIZE
        words: memoryview = self._words  # type: ignore[assignment]
        data: mmap.mmap = self._map  # type: ignore[assignment]
        data[start : start + count * INDEX_ITEM_SIZE] = self._linked_items(words, hashed_keys, position, count)
        _, last_offset = HASHED_KEY.unpack_from(hashed_keys, position + (count - 1) * HASHED_KEY_SIZE)
        # Side by side, as in `put`: a sync by another thread must not tell of items that are not counted.
        self.end_offset = last_offset
        self.next_item = number + count
        return count

    def _linked_items(self, words: memoryview, hashed_keys: bytes, position: i64, count: i64) -> bytes:
        """The next items, as `layout.INDEX_ITEM` has them; their slots lead to them already."""
        items = BytesWriter()
        slot_count: i64 = self._slot_count
        number: i64 = self.next_item
        seconds: i32 = self._seconds
        end = position + count * HASHED_KEY_SIZE
        while position < end:
            hash_value: i64 = int(read_i32_be(hashed_keys, position))
            slot_word = hash_value % slot_count + _HEADER_WORDS
            previous: i64 = words[slot_word]
            if previous == 0:
                self.used_slots += 1
            words[slot_word] = _big_endian(number)
            write_i32_be(items, int(hash_value))
            write_i64_be(items, read_i64_be(hashed_keys, position + _OFFSET_AT))
            write_i32_be(items, seconds)
            write_i32_be(items, _signed(_big_endian(previous)))
            number += 1
            position += HASHED_KEY_SIZE
        return items.getvalue()

    def _tell_time(self, store_time: int) -> None:
        self.end_time = store_time
        self._seconds = min(max((store_time - self.begin_time) // 1000, 0), _MAX_SECONDS)

    def _make_room(self, physical_offset: int, store_time: int) -> None:
        """Reserve blocks for the next item and some more, and keep the map at hand."""
        self._reserve(self._items_at + (self.next_item + 1) * INDEX_ITEM_SIZE)
        if self._words is None:
            self._map = self._file.map()
            self._words = memoryview(self._map).cast("I")
            self._file.on_idle = self._let_go
        self._room = min((self._file.reserved - self._items_at) // INDEX_ITEM_SIZE, self._item_count)
        if self.next_item == _FIRST_ITEM:
            self.begin_time = self.end_time = store_time
            self.begin_offset = self.end_offset = physical_offset
            self._write_header(_FIRST_ITEM)  # items say their time as seconds from the beginning's

    def _reserve(self, end: int) -> None:
        """All blocks before a position, and some more: slots are written all over the place."""
        if end > self._file.reserved:
            self._file.reserve(0, end)

    def _write_header(self, next_item: int) -> None:
        """Of the items before this one; from those themselves, as another one may be written meanwhile."""
        data, end_offset, end_time = self._file.map(), self.end_offset, self.end_time
        if next_item < self.next_item:
            item_at = self._items_at + (next_item - 1) * INDEX_ITEM_SIZE
            _, end_offset, seconds, _ = INDEX_ITEM.unpack_from(data, item_at)
            end_time = self.begin_time + seconds * 1000
        INDEX_HEADER.pack_into(
            data, 0, self.begin_time, end_time, self.begin_offset, end_offset, self.used_slots, next_item
        )

    def _let_go(self) -> None:
        self._room = 0
        words, self._words, self._map = self._words, None, None
        if words is not None:
            words.release()

    # -- reading ---------------------------------------------------------------------------------------------

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

    # -- opening and closing ---------------------------------------------------------------------------------

    def load(self) -> None:
        size = self.path.stat().st_size
        if size != self._file.size:
            raise StorageFailed(f"{self.path} has {size} bytes instead of {self._file.size}")
        header = INDEX_HEADER.unpack(self._file.read(0, INDEX_HEADER_SIZE))
        self.begin_time, self.end_time, self.begin_offset, self.end_offset, self.used_slots, next_item = header
        self.next_item = min(max(next_item, _FIRST_ITEM), self._item_count)
        self._tell_time(self.end_time)

    def repair(self, physical_offset: int) -> bool:
        """After a crash: keep the items of messages before an offset, and make slots and header of them.

        False when some of those are torn: then all before the first of them are kept. Takes a second for five million.
        """
        slots = array("i", bytes(self._slot_count * INDEX_SLOT.size))
        number, last_offset, is_whole = _FIRST_ITEM, 0, self.begin_time > 0 or self.next_item == _FIRST_ITEM
        for hash_value, offset, seconds, _ in self._all_items() if self.begin_time > 0 else ():
            if offset >= physical_offset:
                break
            if hash_value < 0 or offset < last_offset or not (hash_value or offset):
                is_whole = number >= self.next_item  # the header counts what was synced at least
                break
            slots[hash_value % self._slot_count] = number
            last_offset, self._seconds = offset, seconds
            number += 1
        self.next_item, self.end_offset = number, last_offset
        self.end_time = self.begin_time + self._seconds * 1000
        self.used_slots = self._slot_count - slots.count(0)
        if byteorder == "little":
            slots.byteswap()
        self._rewrite(slots.tobytes())
        return is_whole

    def _all_items(self) -> Iterator[tuple[int, int, int, int]]:
        """From the first, written or not."""
        for number in range(_FIRST_ITEM, self._item_count, _REPAIR_STEP):
            count = min(_REPAIR_STEP, self._item_count - number)
            yield from _items(self._file.read(self._items_at + number * INDEX_ITEM_SIZE, count * INDEX_ITEM_SIZE))

    def _rewrite(self, slots: bytes) -> None:
        """Slots and header; no item is left after the last."""
        self._file.cut(self._items_at + self.next_item * INDEX_ITEM_SIZE)
        self._reserve(self._items_at)
        self._file.map()[INDEX_HEADER_SIZE : self._items_at] = slots
        self._write_header(self.next_item)
        self._synced_item = 0

    def cut(self, physical_offset: int) -> None:
        """Forget the messages from an offset on: the log does not have them any more. At least one before it stays."""
        if self.end_offset < physical_offset:
            return
        self._let_go()
        self._reserve(self._items_at)
        data = self._file.map()
        while self.end_offset >= physical_offset and self.next_item > _FIRST_ITEM:
            self.next_item -= 1
            item_at = self._items_at + self.next_item * INDEX_ITEM_SIZE
            hash_value, _, _, previous = INDEX_ITEM.unpack_from(data, item_at)
            _pack_slot(data, INDEX_HEADER_SIZE + hash_value % self._slot_count * INDEX_SLOT.size, previous)
            self.used_slots -= not previous
            data[item_at : item_at + INDEX_ITEM_SIZE] = bytes(INDEX_ITEM_SIZE)
            _, self.end_offset, self._seconds, _ = INDEX_ITEM.unpack_from(data, item_at - INDEX_ITEM_SIZE)
        self.end_time = self.begin_time + self._seconds * 1000
        self._synced_item = 0
        self._write_header(self.next_item)

    def sync(self) -> None:
        """Blocking; may run beside the writer."""
        end = self.next_item
        if end > self._synced_item:
            self._write_header(end)
            self._file.sync_with_name()
            self._synced_item = end

    def delete(self) -> None:
        self._file.delete()

    def finish(self) -> None:
        """No more is put."""
        if self._map is not None:
            self._write_header(self.next_item)
            self._let_go()

    def close(self) -> None:
        self.finish()
        self._file.close()
