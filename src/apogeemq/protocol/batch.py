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
_LENGTH_SIZE: Final = 2
_FLAG_AT: Final = 12
_BODY_LENGTH_AT: Final = 16
_MAX_SHORT: Final = 0x7FFF
_SIGN_BIT: Final = 0x8000_0000
_UNSIGNED_END: Final = 0x1_0000_0000


class BatchEntries:
    """The messages of a batch, one after the other, without an object for each of them.

    `properties` has those of every message. After `begin`, `next_body` gives the body of one message after the other,
    as often as there are properties; `flag` is that of the last one. Raises ProtocolError when made of bytes whose
    parts do not add up.
    """

    __slots__ = ("_data", "_position", "flag", "properties")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.properties: list[bytes] = []
        self.begin()
        position: i64 = 0
        end: i64 = len(data)
        while position < end:
            body_at = position + _HEAD_SIZE
            if body_at > end:
                raise ProtocolError(f"message {self.count} of the batch is cut off")
            size = _signed_word(data, position)
            body_length = _signed_word(data, position + _BODY_LENGTH_AT)
            body_end = body_at + body_length
            properties_at = body_end + _LENGTH_SIZE
            if body_length < 0 or properties_at > end:
                raise ProtocolError(f"message {self.count} of the batch: a body of {body_length} bytes does not fit")
            properties_length: i64 = data[body_end] << 8 | data[body_end + 1]
            after = properties_at + properties_length
            if properties_length > _MAX_SHORT or after != position + size or after > end:
                raise ProtocolError(f"message {self.count} of the batch: its parts do not add up to {size} bytes")
            self.properties.append(data[properties_at:after])
            position = after

    @property
    def count(self) -> int:
        return len(self.properties)

    @property
    def content_size(self) -> int:
        """Of all bodies and properties."""
        return len(self._data) - self.count * (_HEAD_SIZE + _LENGTH_SIZE)

    def begin(self) -> None:
        self._position: i64 = 0
        self.flag: i64 = 0

    def next_body(self) -> bytes:
        data, position = self._data, self._position
        self.flag = _signed_word(data, position + _FLAG_AT)
        self._position = position + _signed_word(data, position)
        body_at = position + _HEAD_SIZE
        return data[body_at : body_at + _signed_word(data, position + _BODY_LENGTH_AT)]


def decode_batch(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """(flag, body, properties) of each message; ProtocolError when the parts do not add up."""
    entries = BatchEntries(data)
    messages: list[tuple[int, bytes, bytes]] = []
    for properties in entries.properties:
        body = entries.next_body()
        messages.append((int(entries.flag), body, properties))
    return messages


def _signed_word(data: bytes, at: i64) -> i64:
    """Byte by byte: compiled, that makes no object."""
    value: i64 = data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
    return value if value < _SIGN_BIT else value - _UNSIGNED_END


def encode_batch(messages: list[tuple[int, bytes, bytes]]) -> bytes:
    """From (flag, body, properties) of each message."""
    pieces: list[bytes] = []
    for flag, body, properties in messages:
        pieces += (_head(flag, len(body), len(properties)), body, len(properties).to_bytes(_LENGTH_SIZE), properties)
    return b"".join(pieces)


def encode_alike(bodies: list[bytes], before_name: bytes, names: list[bytes], after_name: bytes) -> bytes:
    """The same of messages without flags whose properties differ in one part alone, of the same length in all."""
    length = len(before_name) + len(names[0]) + len(after_name)
    sizes = set(map(len, bodies))
    head = _head(0, len(bodies[0]), length)
    pieces = [head, b"", length.to_bytes(_LENGTH_SIZE) + before_name, b"", after_name] * len(bodies)
    if len(sizes) > 1:
        heads = {size: _head(0, size, length) for size in sizes}
        pieces[0::5] = [heads[len(body)] for body in bodies]
    pieces[1::5] = bodies
    pieces[3::5] = names
    return b"".join(pieces)


def _head(flag: int, body_length: int, properties_length: int) -> bytes:
    return _HEAD.pack(_HEAD_SIZE + body_length + _LENGTH_SIZE + properties_length, 0, 0, flag, body_length)
