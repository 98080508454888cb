"""Message ids: where a message is (offset id), and what its producer called it (unique id). Upper-case hex.

::

    offset id   address 4 or 16, port 4, physical offset 8
    unique id   address 4 or 16, process id 2, hash of the class loader 4, ms since the month began 4, counter 2
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

_PORT: Final = Struct(">i")
_OFFSET_TAIL: Final = Struct(">iq")
_UNIQUE_PREFIX: Final = Struct(">HI")

HOST_SIZES: Final = (8, 20)
_HEX: Final = [f"{number:02X}" for number in range(256)]
_HEX_BYTES: Final = [digits.encode() for digits in _HEX]


def encode_host(address: bytes, port: int) -> bytes:
    """As it stands in records; the address is 4 or 16 bytes."""
    return address + _PORT.pack(port)


def offset_id(store_host: bytes, physical_offset: int) -> str:
    return f"{store_host.hex().upper()}{physical_offset:016X}"


class OffsetId(NamedTuple):
    address: bytes
    port: int
    physical_offset: int


def parse_offset_id(text: str) -> OffsetId:
    """ValueError when it is not one."""
    data = bytes.fromhex(text)
    if len(data) - 8 not in HOST_SIZES:
        raise ValueError(f"{text!r} is not the id of a stored message")
    port, physical_offset = _OFFSET_TAIL.unpack(data[-12:])
    return OffsetId(data[:-12], port, physical_offset)


def unique_id_prefix(address: bytes, process_id: int, seed: int) -> str:
    """What all unique ids of one process begin with."""
    return (address + _UNIQUE_PREFIX.pack(process_id & 0xFFFF, seed & 0xFFFFFFFF)).hex().upper()


def unique_id_start(prefix: str, since_month_ms: int) -> str:
    """What all unique ids of one millisecond begin with."""
    return prefix + (since_month_ms & 0xFFFFFFFF).to_bytes(4).hex().upper()


class UniqueIdRange:
    """As many numbers in a row as there are messages in a batch, with what their ids begin with."""

    __slots__ = ("_first", "_start", "count")

    def __init__(self, start: str, first: int, count: int) -> None:
        self._start = start
        self._first = first
        self.count = count

    def texts(self) -> list[str]:
        ids: list[str] = []
        while len(ids) < self.count:
            number = self._first + len(ids)
            block, low = self._start + _HEX[number >> 8 & 0xFF], number & 0xFF  # that of all up to the next 256th
            ids += [block + digits for digits in _HEX[low : low + self.count - len(ids)]]
        return ids

    def encoded(self) -> list[bytes]:
        """The same as they are written to the wire."""
        ids: list[bytes] = []
        start = self._start.encode()
        while len(ids) < self.count:
            number = self._first + len(ids)
            block, low = start + _HEX_BYTES[number >> 8 & 0xFF], number & 0xFF
            ids += [block + digits for digits in _HEX_BYTES[low : low + self.count - len(ids)]]
        return ids


def unique_id(start: str, count: int) -> str:
    return start + _HEX[count >> 8 & 0xFF] + _HEX[count & 0xFF]
