"""Answers that differ in length by a few digits: told apart by the length word each begins with."""

from __future__ import annotations

import socket
import struct

from benchmarks.load import Window

_LENGTH = struct.Struct(">i")
_SLACK = 40
"""By how much answers of a kind may differ: offsets grow. An error has a remark and no fields, and differs more."""


class FramedWindow(Window):
    """A window that reads length words, skips what follows, and refuses an answer that cannot be the expected one."""

    def __init__(self, sock: socket.socket, frames: list[bytes], in_flight: int, typical_size: int) -> None:
        super().__init__(sock, frames, in_flight, typical_size)
        self._least, self._most = typical_size - _SLACK, typical_size + _SLACK
        self._held = 0  # bytes of a length word that has not come whole
        self._skip = 0  # bytes of an answer that are still to come
        self._view = memoryview(self._buffer)

    def receive(self) -> int:
        size = self.sock.recv_into(self._view[self._held :])
        if size == 0:
            raise ConnectionError("the server closed the connection under load")
        count = self._take(self._held + size)
        if count:
            self._note(count)
        return count

    def check_drained(self) -> None:
        if self.waiting or self._held or self._skip:
            raise RuntimeError("the last answers did not come whole")

    def _take(self, end: int) -> int:
        if self._skip > end:
            self._skip -= end
            self._held = 0
            return 0
        position, count = self._skip, int(self._skip > 0)
        self._skip = 0
        buffer = self._buffer
        while end - position >= 4:
            size = 4 + _LENGTH.unpack_from(buffer, position)[0]
            if not self._least <= size <= self._most:
                raise RuntimeError(f"unexpected answer: {bytes(buffer[position : min(end, position + 400)])!r}")
            position += size
            if position > end:
                self._skip = position - end
                position = end
                break
            count += 1
        self._held = end - position
        buffer[: self._held] = buffer[position:end]
        return count
