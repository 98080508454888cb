"""Just enough of the wire for a load generator: frames made once, answers read by length.

The benchmark keeps its own few lines of codec so that it measures the servers and not, by a
shared slip, the package under test.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, NamedTuple

JAVA_5_5_0 = 513
FIRST_OPAQUE = 1_000_000_000
"""Opaques of ten digits from here on keep every frame and every answer of a kind equally long."""

_PREFIX = struct.Struct(">ii")


class Answer(NamedTuple):
    """One response: its length on the wire, its header and its body."""

    size: int
    header: dict[str, Any]
    body: bytes


def encode(code: int, fields: dict[str, str], *, opaque: int, body: bytes = b"") -> bytes:
    """A request frame as a Java 5.5.0 peer writes it (JSON header, no whitespace)."""
    header = {
        "code": code,
        "extFields": fields,
        "flag": 0,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": JAVA_5_5_0,
    }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return _PREFIX.pack(4 + len(text) + len(body), len(text)) + text + body


def connect(host: str, port: int) -> socket.socket:
    """A blocking socket to the server, with Nagle off as every RocketMQ client has it."""
    sock = socket.create_connection((host, port), timeout=30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def receive(sock: socket.socket) -> Answer:
    """Read one whole answer."""
    prefix = _exactly(sock, 8)
    length, mark = _PREFIX.unpack(prefix)
    rest = _exactly(sock, length - 4)
    header_size = mark & 0xFFFFFF
    return Answer(4 + length, json.loads(rest[:header_size]), rest[header_size:])


def ask(sock: socket.socket, frame: bytes) -> Answer:
    """Send one request and read its answer, which must be a success."""
    sock.sendall(frame)
    answer = receive(sock)
    if answer.header["code"] != 0:
        raise RuntimeError(f"the server answered {answer.header}")
    return answer


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(size - len(parts))
        if not part:
            raise ConnectionError("the server closed the connection")
        parts += part
    return bytes(parts)
