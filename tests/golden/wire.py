"""Frames put together and taken apart by hand, so that these tests share no codec with what they test."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

JSON = 0
BINARY = 1
LANGUAGES = ("JAVA", "CPP", "DOTNET", "PYTHON")

_PREFIX = struct.Struct(">ii")
_BINARY_FIXED = struct.Struct(">hBhiii")


class Frame(NamedTuple):
    """One frame in its parts; `codec` is the serialize type of the header."""

    codec: int
    header: bytes
    body: bytes

    def encode(self) -> bytes:
        length = 4 + len(self.header) + len(self.body)
        return _PREFIX.pack(length, self.codec << 24 | len(self.header)) + self.header + self.body

    @classmethod
    def decode(cls, data: bytes) -> Frame:
        length, mark = _PREFIX.unpack_from(data)
        assert length + 4 == len(data), f"a frame of {length} bytes in {len(data)}"
        end = 8 + (mark & 0xFFFFFF)
        return cls(mark >> 24, data[8:end], data[end:])

    def fields(self) -> dict[str, Any]:
        """The header by the names of the JSON codec, whichever codec it came in."""
        return dict(json.loads(self.header)) if self.codec == JSON else _binary_fields(self.header)


def json_header(code: int, fields: Mapping[str, str], *, opaque: int, version: int, flag: int = 0) -> bytes:
    """As Java writes it: no whitespace, text as UTF-8."""
    header = {
        "code": code,
        "extFields": dict(fields),
        "flag": flag,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": version,
    }
    return json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()


def binary_header(code: int, fields: Mapping[str, str], *, opaque: int, version: int, flag: int = 0) -> bytes:
    entries = b"".join(_entry(name.encode(), value.encode()) for name, value in fields.items())
    return _BINARY_FIXED.pack(code, 0, version, opaque, flag, 0) + struct.pack(">i", len(entries)) + entries


def _entry(name: bytes, value: bytes) -> bytes:
    return struct.pack(">h", len(name)) + name + struct.pack(">i", len(value)) + value


def _binary_fields(header: bytes) -> dict[str, Any]:
    code, language, version, opaque, flag, remark_length = _BINARY_FIXED.unpack_from(header)
    position = _BINARY_FIXED.size
    found = {"code": code, "flag": flag, "language": LANGUAGES[language], "opaque": opaque, "version": version}
    if remark_length:
        found["remark"] = header[position : position + remark_length].decode()
    position += remark_length + 4
    fields = {}
    while position < len(header):
        (size,) = struct.unpack_from(">h", header, position)
        name = header[position + 2 : position + 2 + size].decode()
        position += 2 + size
        (size,) = struct.unpack_from(">i", header, position)
        fields[name] = header[position + 4 : position + 4 + size].decode()
        position += 4 + size
    return found | ({"extFields": fields} if fields else {})


def read_frame(sock: socket.socket) -> Frame:
    """The next whole frame; ConnectionError when the peer closes instead."""
    prefix = _exactly(sock, 4)
    return Frame.decode(prefix + _exactly(sock, int.from_bytes(prefix, "big")))


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise ConnectionError(f"closed after {len(data)} of {size} bytes")
        data += part
    return bytes(data)
