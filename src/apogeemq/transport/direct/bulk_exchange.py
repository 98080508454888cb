"""A connection of one thread that reads large answers to where it wants them, without a copy on the way."""

from __future__ import annotations

import socket
import time
from struct import Struct
from typing import Final

from apogeemq.errors import ConnectionLost, ProtocolError, RequestTimedOut
from apogeemq.protocol.codec import decode_frame
from apogeemq.protocol.command import Command
from apogeemq.transport.direct.exchange import Exchange
from apogeemq.transport.direct.signals import heed_signals

_START: Final = Struct(">II")
_HEADER_LENGTH: Final = 0xFFFFFF
_MARK_SIZE: Final = 4
_MAX_HEADER: Final = 64 * 1024


class BulkExchange(Exchange):
    """Requests may be sent before the last is answered. Each answer is read in two steps: `head`, then `body`."""

    __slots__ = ("_max_frame_size", "_start")

    def __init__(self, address: str, max_frame_size: int, connect_seconds: float, unacknowledged_ms: int = 0) -> None:
        super().__init__(address, max_frame_size, connect_seconds, unacknowledged_ms)
        self._max_frame_size = max_frame_size
        self._start = memoryview(bytearray(_START.size))

    def send(self, frame: bytes, seconds: float) -> None:
        """Raises ConnectionLost, RequestTimedOut."""
        try:
            self._send_rest(frame, 0, time.monotonic() + seconds)
        except BlockingIOError:
            raise RequestTimedOut(f"{self.address} took no request in {round(seconds, 2):g} s") from None
        except OSError as error:
            raise ConnectionLost(f"connection to {self.address} ended: {error.strerror}") from None

    def head(self, seconds: float) -> tuple[Command, int]:
        """Of the next answer, and the size of its body, which is not read yet. Raises ConnectionLost,
        RequestTimedOut."""
        self._used_at = time.monotonic()
        deadline = self._used_at + seconds
        self._fill(self._start, deadline, seconds)
        length, mark = _START.unpack(self._start)
        size = mark & _HEADER_LENGTH
        if length < _MARK_SIZE + size or length > self._max_frame_size or size > _MAX_HEADER:
            raise ConnectionLost(f"what {self.address} sent is no answer: {length} bytes with a header of {size}")
        frame = bytearray(_MARK_SIZE + size)
        frame[:_MARK_SIZE] = self._start[_MARK_SIZE:]
        self._fill(memoryview(frame)[_MARK_SIZE:], deadline, seconds)
        try:
            return decode_frame(bytes(frame)), length - _MARK_SIZE - size
        except ProtocolError as error:
            raise ConnectionLost(f"what {self.address} sent is no answer: {error}") from None

    def body(self, room: memoryview, seconds: float) -> None:
        """All of it; the room is as large as that. Raises ConnectionLost, RequestTimedOut."""
        self._fill(room, time.monotonic() + seconds, seconds)

    def _fill(self, room: memoryview, deadline: float, seconds: float) -> None:
        filled, size = 0, len(room)
        try:
            while filled < size:
                try:
                    count = self._socket.recv_into(room[filled:], size - filled, socket.MSG_WAITALL)
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise
                    heed_signals()
                    continue
                if not count:
                    raise ConnectionLost(f"connection to {self.address} ended before the answer")
                filled += count
                if filled < size and time.monotonic() >= deadline:
                    raise BlockingIOError
        except BlockingIOError:
            raise RequestTimedOut(f"{self.address} did not answer in {round(seconds, 2):g} s") from None
        except OSError as error:
            raise ConnectionLost(f"connection to {self.address} ended before the answer: {error.strerror}") from None
