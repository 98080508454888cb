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


def encode_batch(messages: list[tuple[int, bytes, bytes]]) -> bytes:
    """From (flag, body, properties) of each message."""
    pieces: list[bytes] = []
    for flag, body, properties in messages:
        pieces += (_head(flag, len(body), len(properties)), body, len(properties).to_bytes(2), properties)
    return b"".join(pieces)


def encode_alike(bodies: list[bytes], before_name: bytes, names: list[bytes], after_name: bytes) -> bytes:
    """The same of messages without flags whose properties differ in one part alone, of the same length in all."""
    length = len(before_name) + len(names[0]) + len(after_name)
    sizes = set(map(len, bodies))
    head = _head(0, len(bodies[0]), length)
    pieces = [head, b"", length.to_bytes(2) + before_name, b"", after_name] * len(bodies)
    if len(sizes) > 1:
        heads = {size: _head(0, size, length) for size in sizes}
        pieces[0::5] = [heads[len(body)] for body in bodies]
    pieces[1::5] = bodies
    pieces[3::5] = names
    return b"".join(pieces)


def _head(flag: int, body_length: int, properties_length: int) -> bytes:
    return _HEAD.pack(_HEAD_SIZE + body_length + 2 + properties_length, 0, 0, flag, body_length)
