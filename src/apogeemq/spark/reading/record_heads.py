"""Where records lie within pulled bytes, and the fixed parts of all of them at once. Pure.

Only records of the usual layout are read like this: the first magic, IPv4 hosts, and parts that add up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import repeat
from struct import Struct, error
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from apogeemq.errors import ProtocolError
from apogeemq.protocol.record import HEAD_SIZES, HOST_FLAGS, MAGIC_V1

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_HEAD_SIZE: Final = HEAD_SIZES[0]
MIN_RECORD_SIZE: Final = _HEAD_SIZE + 1 + 2  # with neither body, topic nor properties
MAX_DATA_SIZE: Final = 2**31 - 1  # Arrow's offsets are int32

# Much data is gone through from many places, side by side, that are at least so far from each other.
_MUCH_DATA: Final = 1 << 20
_STRIDE: Final = 1 << 14
_find_magic: Final = re.compile(re.escape(MAGIC_V1.to_bytes(4))).search
_MAGIC_AT: Final = 4

_unpack_size: Final = Struct(">I").unpack_from
# One item of this at every byte: taking some copies whole heads.
_RAW_HEAD: Final = np.dtype(f"V{_HEAD_SIZE}")
_HEAD: Final = np.dtype(
    {
        "names": [
            *("size", "magic", "queue_id", "queue_offset", "physical_offset", "system_flag", "born_time", "born_host"),
            *("store_time", "store_host", "reconsume_times", "body_length"),
        ],
        "formats": [">u4", ">u4", ">i4", ">i8", ">i8", ">i4", ">i8", "V8", ">i8", "V8", ">i4", ">i4"],
        "offsets": [0, 4, 12, 20, 28, 36, 40, 48, 56, 64, 72, 84],
        "itemsize": _HEAD_SIZE,
    }
)
_WORDS_OF_LAYOUT: Final = 1, 9, 21  # of a head, of 4 bytes each: magic, system flag, body length


def record_positions(data: bytes | memoryview, part_sizes: Sequence[int] = ()) -> Positions:
    """Where each record begins, and at last where the data ends. ProtocolError when they do not fill it exactly.

    `part_sizes` are those of the answers the data was put together from, each of whole records.
    """
    if len(data) > MAX_DATA_SIZE:
        raise ProtocolError(f"{len(data)} bytes of records at once: at most {MAX_DATA_SIZE} can be read")
    positions = _positions_if_equal(data, part_sizes or (len(data),))
    if positions is None and len(data) >= _MUCH_DATA:
        positions = _positions_in_step(data)
    return positions if positions is not None else _positions_one_by_one(data)


def _positions_if_equal(data: bytes | memoryview, part_sizes: Sequence[int]) -> Positions | None:
    """Where all records of a part are of one size, as a producer's may be, nobody has to go from one to the next. None
    when any are not, or something is wrong."""
    starts: list[Positions] = []
    start = 0
    for part_size in filter(None, part_sizes):
        if part_size < MIN_RECORD_SIZE:
            return None
        size: int = _unpack_size(data, start)[0]
        if size < MIN_RECORD_SIZE or part_size % size:
            return None
        sizes: npt.NDArray[Any] = np.ndarray((part_size // size,), ">u4", data, start, (size,))
        if (sizes != size).any():
            return None
        starts.append(np.arange(start, start + part_size, size))
        start += part_size
    return np.concatenate((*starts, [start]))


def _positions_one_by_one(data: bytes | memoryview) -> Positions:
    found = chased(data)
    sizes = np.diff(found)
    if found[-1] != len(data) or (sizes < MIN_RECORD_SIZE).any():
        raise _bad_size(data, found, sizes)
    return found


def chased(data: bytes | memoryview) -> Positions:
    """Where records begin by what the sizes of those before say, as far as there is data; the last may lie beyond it.
    Nobody has looked at the sizes yet."""
    positions: list[int] = []
    add, position = positions.append, 0
    try:
        for _ in repeat(None, len(data) // MIN_RECORD_SIZE + 2):  # with sizes of 0 it would not end
            add(position)
            position += _unpack_size(data, position)[0]
    except error:  # past the end
        pass
    return np.array(positions, dtype=np.int64)


def _positions_in_step(data: bytes | memoryview) -> Positions | None:
    """From many places at once, each as far as to the next. A place that is no record's start, because bytes of a body
    look like one, is not arrived at from the one before: None then, as when something is wrong."""
    every_byte: npt.NDArray[Any] = np.ndarray((len(data) - 3,), ">u4", data, strides=(1,))
    starts = _likely_starts(data)
    at, ends = starts, np.append(starts[1:], len(data))
    steps: list[Positions] = []
    for _ in repeat(None, _STRIDE // MIN_RECORD_SIZE + 2):
        is_open = at < ends
        if not is_open.any():
            break
        steps.append(at)
        at = at + every_byte[np.minimum(at, len(data) - 4)].astype(np.int64) * is_open
    by_part = np.array(steps).T
    positions = np.append(by_part[by_part < ends[:, None]], len(data))
    return None if (at != ends).any() or (np.diff(positions) < MIN_RECORD_SIZE).any() else positions


def _likely_starts(data: bytes | memoryview) -> Positions:
    starts = [0]
    while (found := _find_magic(data, starts[-1] + _MAGIC_AT + _STRIDE)) is not None:
        starts.append(found.start() - _MAGIC_AT)
    return np.array(starts)


def _bad_size(data: bytes | memoryview, positions: Positions, sizes: Positions) -> ProtocolError:
    too_small = np.flatnonzero(sizes < MIN_RECORD_SIZE)
    if not len(too_small) and positions[-1] < len(data):
        return ProtocolError(f"record at {positions[-1]} of {len(data)} bytes is cut off")
    bad = int(too_small[0]) if len(too_small) else len(sizes) - 1
    return ProtocolError(f"record at {positions[bad]} of {len(data)} bytes: its size says {sizes[bad]}")


class RecordHeads:
    """Of some of the records: their heads as an array with a field for each number, and where their parts lie.

    `data` is Arrow's buffer of all bytes. The topic's length byte is at `topic_starts`, where the body ends.
    """

    def __init__(
        self,
        data: Any,
        heads: npt.NDArray[Any],
        body_starts: Positions,
        topic_starts: Positions,
        property_starts: Positions,
        ends: Positions,
    ) -> None:
        self.data = data
        self.heads = heads
        self.body_starts = body_starts
        self.topic_starts = topic_starts
        self.property_starts = property_starts
        self.ends = ends

    def __len__(self) -> int:
        return len(self.heads)

    def only(self, wanted: Mask | Positions) -> RecordHeads:
        return RecordHeads(
            self.data,
            self.heads[wanted],
            self.body_starts[wanted],
            self.topic_starts[wanted],
            self.property_starts[wanted],
            self.ends[wanted],
        )

    @cached_property
    def queue_offsets(self) -> Positions:
        """Nobody may change them."""
        return self.int64("queue_offset")

    def int64(self, field: str) -> Positions:
        return self.heads[field].astype(np.int64)

    def int32(self, field: str) -> npt.NDArray[np.int32]:
        return self.heads[field].astype(np.int32)


def read_heads(data: bytes | memoryview, positions: Positions, unusual_flags: int) -> tuple[RecordHeads, Mask]:
    """Of all records, which begin at the positions, the last of them being where they end; and which are usual and have
    none of these system flags. The data may go on behind them.

    Of the others nothing but the numbers at the beginning, up to the system flag, means what it says.
    """
    alike = _read_alike(data, positions, unusual_flags)
    return (alike, np.ones(len(alike), np.bool_)) if alike is not None else _read_any(data, positions, unusual_flags)


def _read_alike(data: bytes | memoryview, positions: Positions, unusual_flags: int) -> RecordHeads | None:
    """Where all parts of all records are of the same lengths, as a producer's may be, what is true of the first is true
    of all. None when any are not, or the first is not usual."""
    count, size = len(positions) - 1, int(positions[1]) if len(positions) > 1 else 0
    if not size or (np.diff(positions) != size).any():
        return None
    first, is_usual = _read_any(data[:size], positions[:2], unusual_flags)
    topic_start, property_start = int(first.topic_starts[0]), int(first.property_starts[0])
    lengths_at = (topic_start, 1), (property_start - 2, 2)
    if not is_usual[0] or not all(_are_same(data, *place, size, count) for place in lengths_at):
        return None
    every: npt.NDArray[Any] = np.ndarray((count,), _RAW_HEAD, data, 0, (size,))
    heads = every.copy()
    words = heads.view(np.uint32).reshape(count, -1)
    if any((words[:, place] != words[0, place]).any() for place in _WORDS_OF_LAYOUT):
        return None
    starts = positions[:-1]
    return RecordHeads(
        *(pa.py_buffer(data), heads.view(_HEAD), starts + _HEAD_SIZE),
        *(starts + topic_start, starts + property_start, positions[1:]),
    )


def _are_same(data: bytes | memoryview, first: int, length: int, step: int, count: int) -> bool:
    """So many parts of this length, which begin so far from each other."""
    parts: npt.NDArray[Any] = np.ndarray((count,), f"V{length}", data, first, (step,))
    found = parts.copy().view(f"u{length}")
    return bool((found == found[0]).all())


def _read_any(data: bytes | memoryview, positions: Positions, unusual_flags: int) -> tuple[RecordHeads, Mask]:
    starts, ends = positions[:-1], positions[1:]
    every_byte: npt.NDArray[Any] = np.ndarray((max(len(data) - _HEAD_SIZE + 1, 0),), _RAW_HEAD, data, strides=(1,))
    heads = every_byte[starts].view(_HEAD)
    octets = np.frombuffer(data, np.uint8)

    body_starts = starts + _HEAD_SIZE
    body_lengths = heads["body_length"].astype(np.int64)
    is_usual = (heads["magic"] == MAGIC_V1) & ((heads["system_flag"] & (unusual_flags | HOST_FLAGS)) == 0)
    is_usual &= (body_lengths >= 0) & (body_lengths <= ends - starts - MIN_RECORD_SIZE)
    topic_starts = np.where(is_usual, body_starts + body_lengths, body_starts)
    lengths_at = topic_starts + 1 + octets[topic_starts].astype(np.int64)
    is_usual &= lengths_at + 2 <= ends
    lengths_at = np.where(is_usual, lengths_at, topic_starts)
    property_starts = lengths_at + 2
    property_lengths = (octets[lengths_at].astype(np.int64) << 8) | octets[lengths_at + 1]
    is_usual &= property_starts + property_lengths == ends
    is_usual &= property_lengths < 2**15  # it is an int16
    return RecordHeads(pa.py_buffer(data), heads, body_starts, topic_starts, property_starts, ends), is_usual
