"""Cut a byte stream into frames.

A frame on the wire is::

    length   4 bytes, big-endian   number of bytes that follow
    mark     4 bytes               high byte: header codec (0 JSON, 1 binary); low 24 bits: header length
    header   `header length` bytes
    body     the rest

`FrameReader.feed` hands out each complete frame without its length word, starting at the mark.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from apogeemq.errors import ProtocolError

LENGTH: Final = Struct(">I")
MAX_FRAME_SIZE: Final = 16 * 1024 * 1024  # length word included, as Apache counts it
MIN_LENGTH: Final = 4  # a frame holds at least its mark

_SMALL_CHUNK: Final = 1024  # smaller ones are put together: as objects of their own they would cost more than they hold
_LARGE: Final = 16 * 1024  # below, one more copy costs less than to avoid it

_unpack_length: Final = LENGTH.unpack_from


class FrameReader:
    """Collects bytes and gives back whole frames.

    When the stream stops being the protocol, `feed` still returns the frames before the bad one and sets
    `error`; the caller serves those frames, then closes the connection and feeds no more.
    """

    __slots__ = ("_chunks", "_max_length", "_missing", "error")

    def __init__(self, max_frame_size: int = MAX_FRAME_SIZE) -> None:
        self._max_length = max_frame_size - LENGTH.size
        self._chunks: list[bytes | bytearray] = []
        self._missing = 0  # bytes until the chunks hold a whole frame, as far as is known
        self.error: ProtocolError | None = None

    @property
    def is_mid_frame(self) -> bool:
        """Some bytes of a frame have come, but not all."""
        return bool(self._chunks)

    @property
    def partial_size(self) -> int:
        return sum(map(len, self._chunks))

    def feed(self, data: bytes) -> list[bytes]:
        frames: list[bytes] = []
        if self._chunks:
            self._missing -= len(data)
            if self._missing > 0:
                self._keep(data)
                return frames
            begun = len(self._chunks[0])
            # It must be the end of a frame that was missing, not of its length.
            if begun >= LENGTH.size and begun + len(data) >= _LARGE:
                end_in_data = len(data) + self._missing
                frames.append(self._whole_frame(data, end_in_data))
                data = data[end_in_data:]
            else:
                data = b"".join((*self._chunks, data))
            self._chunks = []
        position, end = 0, len(data)
        while end - position >= 4:
            length: int = _unpack_length(data, position)[0]
            if length < MIN_LENGTH or length > self._max_length:
                self.error = ProtocolError(f"frame length {length} is not between {MIN_LENGTH} and {self._max_length}")
                return frames
            after = position + 4 + length
            if after > end:
                self._missing = after - end
                self._chunks = [data[position:]]
                return frames
            frames.append(data[position + 4 : after])
            position = after
        if position < end:
            self._missing = 4 - (end - position)
            self._chunks = [data[position:]]
        return frames

    def _whole_frame(self, data: bytes, end: int) -> bytes:
        """Of all chunks, without the length, and the beginning of the data; large ones are copied just this once."""
        first, *others = self._chunks
        return b"".join((memoryview(first)[LENGTH.size :], *others, memoryview(data)[:end]))

    def _keep(self, data: bytes) -> None:
        last = self._chunks[-1]
        if len(data) >= _SMALL_CHUNK:
            self._chunks.append(data)
        elif isinstance(last, bytearray):
            last += data
        else:
            self._chunks.append(bytearray(data))
