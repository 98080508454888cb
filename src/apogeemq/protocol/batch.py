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
from typing import Final

from apogeemq.errors import ProtocolError

_HEAD: Final = Struct(">iiiii")
_SHORT: Final = Struct(">h")
_HEAD_SIZE: Final = _HEAD.size
_unpack_head: Final = _HEAD.unpack_from
_unpack_short: Final = _SHORT.unpack_from


def decode_batch(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """(flag, body, properties) of each message; ProtocolError when the parts do not add up."""
    messages: list[tuple[int, bytes, bytes]] = []
    position, end = 0, len(data)
    while position < end:
        if position + _HEAD_SIZE > end:
            raise ProtocolError(f"message {len(messages)} of the batch is cut off")
        size, _, _, flag, body_length = _unpack_head(data, position)
        body_at = position + _HEAD_SIZE
        properties_at = body_at + body_length + 2
        if body_length < 0 or properties_at > end:
            raise ProtocolError(f"message {len(messages)} of the batch: a body of {body_length} bytes does not fit")
        properties_length = _unpack_short(data, properties_at - 2)[0]
        after = properties_at + properties_length
        if properties_length < 0 or after != position + size or after > end:
            raise ProtocolError(f"message {len(messages)} of the batch: its parts do not add up to {size} bytes")
        messages.append((flag, data[body_at : properties_at - 2], data[properties_at:after]))
        position = after
    return messages


def encode_batch(messages: list[tuple[int, bytes, bytes]]) -> bytes:
    """From (flag, body, properties) of each message."""
    pieces: list[bytes] = []
    head = properties_length = b""
    last_flag = last_size = last_rest = -1  # the messages of a batch are often alike
    for flag, body, properties in messages:
        size, rest = len(body), len(properties)
        if size != last_size or rest != last_rest or flag != last_flag:
            last_flag, last_size, last_rest = flag, size, rest
            head = _HEAD.pack(_HEAD_SIZE + size + 2 + rest, 0, 0, flag, size)
            properties_length = rest.to_bytes(2)
        pieces.append(head)
        pieces.append(body)
        pieces.append(properties_length)
        pieces.append(properties)
    return b"".join(pieces)
