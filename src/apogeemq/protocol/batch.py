"""The body of a batch: messages one after the other.

::

    size                             4          the whole entry
    magic                            4          0, not looked at
    body CRC                         4          0, not looked at
    flag                             4          the user's
    body length, body                4 + n
    properties length, properties    2 + n
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from apogeemq.errors import ProtocolError

if TYPE_CHECKING:
    from mypy_extensions import i64

_HEAD: Final = Struct(">iiiii")
_HEAD_SIZE: Final = _HEAD.size
_FLAG_AT: Final = 12
_BODY_LENGTH_AT: Final = 16
_MAX_SHORT: Final = 0x7FFF
_SIGN_BIT: Final = 0x8000_0000
_UNSIGNED_END: Final = 0x1_0000_0000


def decode_batch(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """(flag, body, properties) of each message; ProtocolError when the parts do not add up."""
    messages: list[tuple[int, bytes, bytes]] = []
    position: i64 = 0
    end: i64 = len(data)
    while position < end:
        body_at = position + _HEAD_SIZE
        if body_at > end:
            raise ProtocolError(f"message {len(messages)} of the batch is cut off")
        size = _signed_word(data, position)
        body_length = _signed_word(data, position + _BODY_LENGTH_AT)
        body_end = body_at + body_length
        properties_at = body_end + 2
        if body_length < 0 or properties_at > end:
            raise ProtocolError(f"message {len(messages)} of the batch: a body of {body_length} bytes does not fit")
        properties_length: i64 = data[body_end] << 8 | data[body_end + 1]
        after = properties_at + properties_length
        if properties_length > _MAX_SHORT or after != position + size or after > end:
            raise ProtocolError(f"message {len(messages)} of the batch: its parts do not add up to {size} bytes")
        flag = int(_signed_word(data, position + _FLAG_AT))
        messages.append((flag, data[body_at:body_end], data[properties_at:after]))
        position = after
    return messages


def _signed_word(data: bytes, at: i64) -> i64:
    """Byte by byte: compiled, that makes no object."""
    value: i64 = data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
    return value if value < _SIGN_BIT else value - _UNSIGNED_END


class BatchEncoder:
    """Puts the messages of a batch together. They are often alike: what says how long their parts are is kept."""

    __slots__ = ("_before", "_body_length", "_flag", "_head", "_middle", "_pieces", "_properties_length")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._flag = self._body_length = self._properties_length = -1  # of the last message
        self._before = b""
        self._head = self._middle = b""  # what was before its body, and after it

    def add(self, flag: int, body: bytes, properties: bytes) -> None:
        self._begin(flag, body, len(properties), b"")
        self._pieces.append(properties)

    def add_named(self, flag: int, body: bytes, before_name: bytes, name: bytes, after_name: bytes) -> None:
        """The same, of properties that are in three pieces."""
        self._begin(flag, body, len(before_name) + len(name) + len(after_name), before_name)
        pieces = self._pieces
        pieces.append(name)
        pieces.append(after_name)

    def _begin(self, flag: int, body: bytes, properties_length: int, before: bytes) -> None:
        length = len(body)
        if (
            length != self._body_length
            or properties_length != self._properties_length
            or flag != self._flag
            or before is not self._before
        ):
            self._flag, self._body_length, self._properties_length = flag, length, properties_length
            self._before = before
            self._head = _HEAD.pack(_HEAD_SIZE + length + 2 + properties_length, 0, 0, flag, length)
            self._middle = properties_length.to_bytes(2) + before
        pieces = self._pieces
        pieces.append(self._head)
        pieces.append(body)
        pieces.append(self._middle)

    def joined(self) -> bytes:
        return b"".join(self._pieces)


def encode_batch(messages: list[tuple[int, bytes, bytes]]) -> bytes:
    """From (flag, body, properties) of each message."""
    encoder = BatchEncoder()
    for flag, body, properties in messages:
        encoder.add(flag, body, properties)
    return encoder.joined()
