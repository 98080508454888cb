"""The message record, byte by byte."""

from __future__ import annotations

from zlib import crc32

import pytest

from apogeemq.errors import ProtocolError
from apogeemq.model.flags import BORN_HOST_IPV6, STORE_HOST_IPV6
from apogeemq.protocol.record import (
    CRC_MASK,
    HEAD_SIZES,
    MAGIC_V1,
    MAGIC_V2,
    MAX_HEAD_SIZE,
    decode_head,
    decode_record,
    encode_record_head,
    is_intact,
    outline_record,
    record_size,
    topic_part,
    unpack_record_head,
)
from apogeemq.protocol.record_writing import encode_record

# Topic T1, queue 3, queue offset 5, at 4096, KEYS=K1 TAGS=TagA, body `hi`.
EXAMPLE = bytes.fromhex(
    "00000071daa320a758932aac000000030000000000000000000000050000000000001000000000000000018bcfe56800"
    "0a0000010000c3500000018bcfe568010a00000200002a9f000000000000000000000000000000026869025431"
    "00124b455953014b310254414753015461674102"
)


def encode(topic: bytes = b"T1", system_flag: int = 0, born: bytes = bytes(8), stored: bytes = bytes(8)) -> bytes:
    part = topic_part(topic)
    return encode_record(
        record_size(system_flag, len(part[1]), 4, 4),
        part,
        3,
        7,
        5,
        4096,
        system_flag,
        1,
        born,
        2,
        stored,
        4,
        9,
        crc32(b"body") & CRC_MASK,
        b"body",
        b"a\x01b\x02",
    )


def test_a_record_is_laid_out_as_apache_does() -> None:
    record = encode_record(
        113,
        topic_part(b"T1"),
        3,
        0,
        5,
        4096,
        0,
        1700000000000,
        bytes.fromhex("0a0000010000c350"),
        1700000000001,
        bytes.fromhex("0a00000200002a9f"),
        0,
        0,
        crc32(b"hi") & CRC_MASK,
        b"hi",
        b"KEYS\x01K1\x02TAGS\x01TagA\x02",
    )
    assert record == EXAMPLE


def test_every_part_is_read_back() -> None:
    record = decode_record(b"before" + EXAMPLE + b"after", 6)
    assert (record.size, record.magic, record.queue_id, record.queue_offset) == (113, MAGIC_V1, 3, 5)
    assert (record.physical_offset, record.born_time, record.store_time) == (4096, 1700000000000, 1700000000001)
    assert (record.body, record.topic, record.properties) == (b"hi", b"T1", b"KEYS\x01K1\x02TAGS\x01TagA\x02")
    assert is_intact(record)
    assert not is_intact(record._replace(body=b"ho"))


@pytest.mark.parametrize("system_flag", [0, BORN_HOST_IPV6, STORE_HOST_IPV6, BORN_HOST_IPV6 | STORE_HOST_IPV6])
def test_hosts_may_be_ipv6(system_flag: int) -> None:
    born = b"b" * (20 if system_flag & BORN_HOST_IPV6 else 8)
    stored = b"s" * (20 if system_flag & STORE_HOST_IPV6 else 8)
    data = encode(system_flag=system_flag, born=born, stored=stored)
    record = decode_record(data)
    assert (record.born_host, record.store_host, record.body) == (born, stored, b"body")
    assert len(data) == record_size(system_flag, 3, 4, 4)


@pytest.mark.parametrize("system_flag", [0, BORN_HOST_IPV6, STORE_HOST_IPV6, BORN_HOST_IPV6 | STORE_HOST_IPV6])
def test_the_head_is_read_alone(system_flag: int) -> None:
    born = bytes(20 if system_flag & BORN_HOST_IPV6 else 8)
    stored = bytes(20 if system_flag & STORE_HOST_IPV6 else 8)
    record = encode(system_flag=system_flag, born=born, stored=stored)
    whole = decode_record(record)
    head = decode_head(b"xx" + record[:MAX_HEAD_SIZE], 2)
    assert head == (whole.size, whole.magic, whole.physical_offset, whole.store_time, len(whole.body))
    assert head == (len(record), MAGIC_V1, 4096, 2, 4)
    assert head.is_plausible
    assert not head._replace(size=100_000).is_plausible
    assert not head._replace(body_length=len(record)).is_plausible
    for wrong in (record[: HEAD_SIZES[system_flag] - 1], b"", bytes(200), record[1:]):
        with pytest.raises(ProtocolError, match="record at 0"):
            decode_head(wrong)


def test_a_long_topic_makes_a_record_of_the_second_kind() -> None:
    record = decode_record(encode(b"t" * 200))
    assert (record.magic, record.topic) == (MAGIC_V2, b"t" * 200)


def test_a_cut_or_padded_record_is_an_error() -> None:
    for length in range(len(EXAMPLE)):
        with pytest.raises(ProtocolError):
            decode_record(EXAMPLE[:length])
    with pytest.raises(ProtocolError, match="its parts end"):
        decode_record((len(EXAMPLE) + 1).to_bytes(4) + EXAMPLE[4:] + b"x")


def test_any_wrong_byte_of_a_length_is_an_error_or_another_record_of_the_same_size() -> None:
    for position in range(len(EXAMPLE)):
        data = bytearray(EXAMPLE)
        data[position] ^= 0xFF
        try:
            assert decode_record(bytes(data)).size == len(EXAMPLE)
        except ProtocolError:
            continue


@pytest.mark.parametrize("topic", [b"T1", b"T" * 127, b"T" * 128, b"T" * 300])
@pytest.mark.parametrize("flags", [0, BORN_HOST_IPV6, STORE_HOST_IPV6, BORN_HOST_IPV6 | STORE_HOST_IPV6])
def test_an_outline_says_what_the_whole_record_says(topic: bytes, flags: int) -> None:
    born, stored = (bytes(range(20 if flags & flag else 8)) for flag in (BORN_HOST_IPV6, STORE_HOST_IPV6))
    data = b"before" + encode(topic, flags, born, stored) + b"after"
    whole = decode_record(data, 6)
    outline, body_at, properties_at = outline_record(data, 6)
    assert outline == (whole.size, whole.magic, 7, 5, flags, 4, 4)
    assert data[body_at : body_at + 4] == whole.body
    assert data[properties_at : 6 + whole.size] == whole.properties
    head = data[6:body_at]
    assert encode_record_head(whole) == head
    assert unpack_record_head(head) == (*whole[:14], 4)


@pytest.mark.parametrize("topic", [b"T1", b"T" * 128])
def test_nothing_but_a_whole_record_has_an_outline(topic: bytes) -> None:
    data = encode(topic)
    for end in range(len(data)):
        with pytest.raises(ProtocolError):
            outline_record(data[:end], 0)
    for at, value in ((0, 0), (4, 0), (84, 0xFF), (87, 0xFF), (len(data) - 6, 0x80)):  # sizes, magic, lengths
        with pytest.raises(ProtocolError):
            outline_record(data[:at] + bytes((value ^ data[at] if value else data[at] ^ 1,)) + data[at + 1 :], 0)
