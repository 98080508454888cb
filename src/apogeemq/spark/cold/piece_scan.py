"""One piece of a log, read from its beginning to its end, some megabytes at a time.

A log ends where nothing follows: with zeros, or with a record that was being written when its broker ended, or is being
written now. Anything else that is no record is damage: an error, or passed over and told. A broker may be writing while
this reads, so what looks like damage at the end is looked at again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final

from apogeemq.errors import ProtocolError, StorageFailed
from apogeemq.protocol.record import (
    BLANK,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MAX_HEAD_SIZE,
    Record,
    decode_head,
    decode_record,
    is_intact,
)
from apogeemq.spark.cold.chunks import Chunk
from apogeemq.spark.cold.planning import Piece
from apogeemq.spark.reading.record_heads import MIN_RECORD_SIZE

log = logging.getLogger(__name__)

CHUNK_SIZE: Final = 4 * 1024 * 1024
# Beyond the end of a log, a record is looked for so far: zeros may go on for a gigabyte.
MAX_LOOK_AHEAD: Final = 16 * 1024 * 1024
_MAGICS: Final = tuple(magic.to_bytes(4) for magic in (MAGIC_V1, MAGIC_V2))
_MAGIC_AT: Final = 4

# Reads so many bytes of the log from a physical offset on; fewer where its file ends.
ReadLog = Callable[[int, int], bytes]


class _Next(Enum):
    """What comes after whole records."""

    MORE = auto()  # a record that has to be read further
    END = auto()  # of the piece
    NOTHING = auto()  # no record


class PieceScan:
    """`damaged_bytes` and `damaged_records` count what was passed over."""

    def __init__(self, piece: Piece, read: ReadLog, *, skips_damage: bool) -> None:
        self._piece = piece
        self._read = read
        self._skips_damage = skips_damage
        self._last_time = 0  # at which a message was stored
        self.damaged_bytes = 0
        self.damaged_records = 0

    def chunks(self) -> Iterator[Chunk]:
        """The whole records, in order. Raises StorageFailed."""
        position, length = self._piece.start, CHUNK_SIZE
        while position < self._piece.end:
            asked = min(length, self._piece.end - position)
            chunk = Chunk(self._read(position, asked), position)
            following = self._following(chunk, asked)
            if following is _Next.MORE and len(chunk) < self._least:
                length = chunk.size + self._size_after(chunk)
                continue
            after = self._after(chunk, following)
            if len(chunk):
                self._last_time = chunk.record(len(chunk) - 1).store_time
                yield chunk
            if after is None:
                return
            position, length = after, CHUNK_SIZE

    # -- where records end -----------------------------------------------------------------------------------

    def _following(self, chunk: Chunk, asked: int) -> _Next:
        at = chunk.size
        room = self._piece.end - chunk.base - at
        if room < BLANK.size:  # of a file that is full but for a few bytes
            return _Next.END
        is_cut_off = asked < self._piece.end - chunk.base and len(chunk.data) == asked
        if len(chunk.data) - at < BLANK.size:
            return _Next.MORE if is_cut_off else _Next.NOTHING
        size, magic = BLANK.unpack_from(chunk.data, at)
        if magic == MAGIC_BLANK:
            return _Next.END
        if not is_cut_off or magic not in (MAGIC_V1, MAGIC_V2) or not len(chunk.data) - at < size <= room:
            return _Next.NOTHING
        if len(chunk.data) - at < MAX_HEAD_SIZE:
            return _Next.MORE
        head = decode_head(chunk.data, at)  # a wrong size must not make us read a gigabyte at once
        return _Next.MORE if head.is_plausible and head.physical_offset == chunk.base + at else _Next.NOTHING

    @property
    def _least(self) -> int:
        """Records to go on with. Of a tail the last one is read again, with what follows."""
        return 2 if self._piece.is_tail else 1

    def _size_after(self, chunk: Chunk) -> int:
        """Enough to have the record whole that is cut off, or to see how long it is."""
        if len(chunk.data) - chunk.size < MAX_HEAD_SIZE:
            return CHUNK_SIZE
        size: int = BLANK.unpack_from(chunk.data, chunk.size)[0]
        return max(size, CHUNK_SIZE)

    def _after(self, chunk: Chunk, following: _Next) -> int | None:
        """Where to go on; None at the end. Without records, in a tail, that may turn out to be its torn end."""
        end = chunk.base + chunk.size
        if following is _Next.END:
            return None
        if following is _Next.MORE:
            if self._piece.is_tail:
                chunk.keep(len(chunk) - 1)
            return chunk.base + chunk.size
        last_time = chunk.record(len(chunk) - 1).store_time if len(chunk) else self._last_time
        after = self._after_break(end, last_time)
        if after is None and self._piece.is_tail:
            while len(chunk) and chunk.is_torn(len(chunk) - 1):
                chunk.keep(len(chunk) - 1)
        return after

    # -- damage ----------------------------------------------------------------------------------------------

    def _after_break(self, at: int, last_time: int) -> int | None:
        """Where to go on after something that is no record; None when the log, or this piece of it, ends there."""
        is_tail = self._piece.is_tail
        limit = min(self._piece.end, at + MAX_LOOK_AHEAD) if is_tail else self._piece.end
        found = self._next_record(at + 1, limit)
        if is_tail and (found is None or found.store_time < last_time):  # older ones were cut off before
            return None
        if is_tail and self._record_at(at) is not None:  # it has been written meanwhile
            return at
        after = found.physical_offset if found is not None else None
        self._tell(at, self._piece.end if after is None else after)
        return after

    def _tell(self, start: int, end: int) -> None:
        problem = f"{self._piece.file} is damaged: there are no records from offset {start} to {end}"
        if not self._skips_damage:
            raise StorageFailed(f"{problem} (option onCorrupt=skip passes over it)")
        log.warning("%s", problem)
        self.damaged_bytes += end - start

    def _next_record(self, start: int, end: int) -> Record | None:
        """The first whole record in a range."""
        position = start
        while position + MIN_RECORD_SIZE <= end:
            data = self._read(position, min(CHUNK_SIZE, end - position))
            if len(data) < MIN_RECORD_SIZE:
                return None
            at = 0
            while (at := _first_magic(data, at)) >= 0:
                record = self._record_at(position + at - _MAGIC_AT)
                if record is not None:
                    return record
                at += 1
            position += len(data) - 2 * _MAGIC_AT + 1  # a magic may lie across
        return None

    def _record_at(self, offset: int) -> Record | None:
        head = self._read(offset, MAX_HEAD_SIZE)
        try:
            found = decode_head(head)
            is_possible = found.is_plausible and offset + found.size <= self._piece.end
            if found.physical_offset != offset or not is_possible:
                return None
            record = decode_record(self._read(offset, found.size))
        except ProtocolError:
            return None
        return record if is_intact(record) else None

    def pass_over(self, offset: int) -> None:
        """A record is whole, but not what was stored. Raises StorageFailed if that is not to be passed over."""
        problem = f"{self._piece.file} is damaged: the message at offset {offset} is not what was stored"
        if not self._skips_damage:
            raise StorageFailed(f"{problem} (option onCorrupt=skip leaves it out)")
        log.warning("%s", problem)
        self.damaged_records += 1


def _first_magic(data: bytes, start: int) -> int:
    """Where the first one is that a record before it could have; -1 if nowhere."""
    found = (data.find(magic, max(start, _MAGIC_AT)) for magic in _MAGICS)
    return min((at for at in found if at >= 0), default=-1)
