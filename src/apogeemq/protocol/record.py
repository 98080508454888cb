"""The message record: one layout in the commit log, in pull answers and wherever a whole message travels.

::

    total size                       4
    magic                            4          V1, or V2 when the topic is longer than 127 bytes
    body CRC                         4          CRC-32 of the stored body, sign bit cleared
    queue id                         4
    flag                             4          the user's
    queue offset                     8
    physical offset                  8          where in the commit log
    system flag                      4
    born time                        8          ms
    born host                        8 or 20    address, then port as int32; 20 for IPv6, see the system flag
    store time                       8          ms
    store host                       8 or 20
    reconsume times                  4
    prepared offset                  8          of the half message a transaction began with
    body length, body                4 + n
    topic length, topic              1 + n      2 + n in V2
    properties length, properties    2 + n
"""

from __future__ import annotations

from struct import Struct, error
from typing import Any, Final, NamedTuple

from isal.isal_zlib import crc32

from apogeemq.errors import ProtocolError
from apogeemq.model.flags import BORN_HOST_IPV6, STORE_HOST_IPV6

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194  # the rest of a commit log file is not used
BLANK: Final = Struct(">II")  # remaining size, magic

CRC_MASK: Final = 0x7FFFFFFF
_crc32: Final = crc32  # a name of this module is found at once where it is compiled, an imported one looked up
MAX_V1_TOPIC: Final = 127

_HOST_SIZES: Final = (8, 20)
_HEADS: Final = {
    born_flag | store_flag: Struct(f">IIIiiqqiq{born_size}sq{store_size}siqi")
    for born_flag, born_size in zip((0, BORN_HOST_IPV6), _HOST_SIZES, strict=True)
    for store_flag, store_size in zip((0, STORE_HOST_IPV6), _HOST_SIZES, strict=True)
}
HOST_FLAGS: Final = BORN_HOST_IPV6 | STORE_HOST_IPV6
_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")

# Size of the part from the total size to the body's length, by the flags of the hosts.
HEAD_SIZES: Final = {flags: head.size for flags, head in _HEADS.items()}
MAX_HEAD_SIZE: Final = max(HEAD_SIZES.values())
_MAX_SHORT: Final = 0x7FFF
_MAX_WITHOUT_BODY: Final = MAX_HEAD_SIZE + 2 * (2 + _MAX_SHORT)  # topic and properties
_HEAD_SIZE: Final = HEAD_SIZES[0]
_unpack_head: Final = _HEADS[0].unpack_from
# Of the same part, what `outline_record` gives.
_OUTLINES: Final = {flags: Struct(f">II8xiq8xi{size - 56}xi8xi") for flags, size in HEAD_SIZES.items()}
_unpack_outline: Final = _OUTLINES[0].unpack_from
SYSTEM_FLAG_AT: Final = 36


class Record(NamedTuple):
    """A record taken apart; body, topic and properties are still bytes."""

    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    system_flag: int
    born_time: int
    born_host: bytes
    store_time: int
    store_host: bytes
    reconsume_times: int
    prepared_offset: int
    body: bytes
    topic: bytes
    properties: bytes


class RecordHead(NamedTuple):
    """What the beginning of a record says, for whoever wants no more of it."""

    size: int
    magic: int
    physical_offset: int
    store_time: int
    body_length: int

    @property
    def is_plausible(self) -> bool:
        """Whether a body of this length can be in a record of this size."""
        return _HEAD_SIZE < self.size - self.body_length <= _MAX_WITHOUT_BODY


def topic_part(topic: bytes) -> tuple[int, bytes]:
    """The magic a topic asks for, and the topic with its length before it."""
    length = len(topic)
    if length <= MAX_V1_TOPIC:
        return MAGIC_V1, bytes((length,)) + topic
    return MAGIC_V2, _SHORT.pack(length) + topic


def record_size(system_flag: int, topic_length: int, body_length: int, properties_length: int) -> int:
    """`topic_length` with the length before it, as `topic_part` gives it."""
    return HEAD_SIZES[system_flag & HOST_FLAGS] + body_length + topic_length + 2 + properties_length


def decode_record(data: bytes, position: int = 0) -> Record:
    """Raises ProtocolError for anything but a whole record; the body's CRC is not checked here."""
    head, body, topic, properties = split_record(data, position)
    return Record._make((*head[:-1], body, topic, properties))


def split_record(data: bytes, position: int) -> tuple[tuple[Any, ...], bytes, bytes, bytes]:
    """The same for whoever reads many: the fields up to the length of the body, the body, topic and properties."""
    try:
        head = _unpack_head(data, position)
        start = position + _HEAD_SIZE
        flags = head[7] & HOST_FLAGS
        if flags:
            head = _HEADS[flags].unpack_from(data, position)
            start = position + HEAD_SIZES[flags]
    except error as problem:
        raise ProtocolError(f"record at {position}: {problem}") from None
    topic_at, properties_at = _parts_after_body(data, position, head[0], head[1], start, head[14])
    topic_end, body_end, end = properties_at - 2, start + head[14], position + head[0]
    return head, data[start:body_end], data[topic_at:topic_end], data[properties_at:end]


def outline_record(data: bytes, position: int) -> tuple[tuple[int, int, int, int, int, int, int], int, int]:
    """What a consumer wants of every record: size, magic, flag, queue offset, system flag, reconsume times and the
    length of the body; where the body begins, and where the properties do, which go on to the end.

    Raises ProtocolError for anything but a whole record.
    """
    try:
        outline: tuple[int, int, int, int, int, int, int] = _unpack_outline(data, position)
        start = position + _HEAD_SIZE
        flags = outline[4] & HOST_FLAGS
        if flags:
            outline = _OUTLINES[flags].unpack_from(data, position)
            start = position + HEAD_SIZES[flags]
    except error as problem:
        raise ProtocolError(f"record at {position}: {problem}") from None
    return outline, start, _parts_after_body(data, position, outline[0], outline[1], start, outline[6])[1]


def _parts_after_body(
    data: bytes, position: int, size: int, magic: int, start: int, body_length: int
) -> tuple[int, int]:
    """Where topic and properties begin, of a record whose body begins at `start`. Raises ProtocolError."""
    end = position + size
    if (magic != MAGIC_V1 and magic != MAGIC_V2) or end > len(data):
        raise ProtocolError(f"no record at {position}: size {size}, magic {magic:08x}")
    topic_at = start + body_length + 1
    try:
        topic_length = data[topic_at - 1]
        if magic == MAGIC_V2:
            topic_length = topic_length << 8 | data[topic_at]
            topic_at += 1
        properties_at = topic_at + topic_length + 2
        properties_length = data[properties_at - 2] << 8 | data[properties_at - 1]
    except IndexError as problem:
        raise ProtocolError(f"record at {position}: {problem}") from None
    # Lengths of two bytes are signed.
    if body_length < 0 or max(topic_length, properties_length) > _MAX_SHORT or properties_at + properties_length != end:
        ends = properties_at + properties_length
        raise ProtocolError(f"record at {position}: its parts end at {ends}, its size says {end}")
    return topic_at, properties_at


def encode_record_head(record: Record) -> bytes:
    """The part up to the body."""
    return _HEADS[record.system_flag & HOST_FLAGS].pack(*record[:14], len(record.body))


def unpack_record_head(head: bytes) -> tuple[Any, ...]:
    """The fields up to the length of the body, which is where this part ends."""
    (system_flag,) = _INT.unpack_from(head, SYSTEM_FLAG_AT)
    return _HEADS[system_flag & HOST_FLAGS].unpack(head)


def decode_head(data: bytes, position: int = 0) -> RecordHead:
    """Raises ProtocolError unless a record begins there; whether it is whole is not looked at."""
    try:
        head = _unpack_head(data, position)
        flags = head[7] & HOST_FLAGS
        if flags:
            head = _HEADS[flags].unpack_from(data, position)
    except error as problem:
        raise ProtocolError(f"record at {position}: {problem}") from None
    if head[1] != MAGIC_V1 and head[1] != MAGIC_V2:
        raise ProtocolError(f"no record at {position}: size {head[0]}, magic {head[1]:08x}")
    return RecordHead(head[0], head[1], head[6], head[10], head[14])


def is_intact(record: Record) -> bool:
    return _crc32(record.body) & CRC_MASK == record.body_crc
