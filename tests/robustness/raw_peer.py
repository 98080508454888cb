"""A peer that sends whatever bytes it likes, from an address of its own, so that the log can be asked about it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from itertools import count
from struct import Struct
from typing import Self

from apogeemq.protocol.codec import decode_frame, encode_frame
from apogeemq.protocol.command import JSON, Command, CommandHead

JAVA_5_5_0 = 513
TIMEOUT_S = 60.0
"""For answers that must come; a failure, never a pace."""

_LENGTH = Struct(">I")
_LENGTH_AND_MARK = Struct(">II")
_hosts = count(1)


def new_host() -> str:
    """A loopback address that no other peer of this run has."""
    number = next(_hosts)
    return f"127.77.{number // 250}.{number % 250 + 1}"


def frame(header: bytes, body: bytes = b"", *, codec: int = JSON) -> bytes:
    """Whatever header, correctly framed."""
    return _LENGTH_AND_MARK.pack(4 + len(header) + len(body), codec << 24 | len(header)) + header + body


def request(
    code: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    opaque: int = 1,
    codec: int = JSON,
    version: int = JAVA_5_5_0,
) -> bytes:
    return encode_frame(CommandHead(code, opaque, language="JAVA", version=version), fields or {}, body, codec)


class RawPeer:
    """One blocking connection."""

    def __init__(self, port: int, host: str | None = None, *, receive_buffer: int | None = None) -> None:
        self.host = host or new_host()
        self.socket = socket.socket()
        self.socket.settimeout(TIMEOUT_S)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.bind((self.host, 0))
        self.socket.connect(("127.0.0.1", port))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """As much as the server takes before it closes."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def receive(self) -> Command:
        """One whole answer."""
        return decode_frame(self._exactly(_LENGTH.unpack(self._exactly(4))[0]))

    def ask(self, data: bytes) -> Command:
        self.send(data)
        return self.receive()

    def ended(self) -> bool:
        """Wait for the server to close; False when it sends something instead. A timeout is an error."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def has_ended(self) -> bool:
        """What is known now, without waiting."""
        self.socket.setblocking(False)
        try:
            return self.ended()
        except BlockingIOError:
            return False
        finally:
            self.socket.settimeout(TIMEOUT_S)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self.socket.recv(size - len(parts))
            if not part:
                raise ConnectionError(f"closed after {len(parts)} of {size} bytes")
            parts += part
        return bytes(parts)
