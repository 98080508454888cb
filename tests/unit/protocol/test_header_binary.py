"""The ROCKETMQ binary header codec, byte by byte."""

from __future__ import annotations

import pytest

from apogeemq.errors import ProtocolError
from apogeemq.protocol import header_binary
from apogeemq.protocol.command import BINARY, FLAG_RESPONSE, CommandHead

# What org.apache.rocketmq.remoting.protocol.RocketMQSerializable of Apache 5.5.0 writes.
JAVA_REQUEST = bytes.fromhex("00690000000000000700000000000000000000000d0005746f706963000000025431")
JAVA_REPLY = bytes.fromhex("0011000000fffffffd00000001000000106e6f20726f7574653a20e4b8bbe9a29800000000")


def test_headers_are_written_as_java_writes_them() -> None:
    request = CommandHead(105, 7, language="JAVA", version=0)
    assert header_binary.encode(request, {"topic": "T1"}) == JAVA_REQUEST
    reply = CommandHead(17, -3, FLAG_RESPONSE, "no route: 主题", language="JAVA", version=0)
    assert header_binary.encode(reply, None) == JAVA_REPLY


def test_every_field_has_its_place() -> None:
    head = CommandHead(0x0102, 0x03040506, 0x0708090A, "rem", language="GO", version=0x0B0C)
    assert header_binary.encode(head, {"k": "v", "name": ""}) == (
        b"\x01\x02"  # code
        b"\x09"  # language
        b"\x0b\x0c"  # version
        b"\x03\x04\x05\x06"  # opaque
        b"\x07\x08\x09\x0a"  # flag
        b"\x00\x00\x00\x03rem"
        b"\x00\x00\x00\x12"  # bytes of all fields
        b"\x00\x01k\x00\x00\x00\x01v"
        b"\x00\x04name\x00\x00\x00\x00"
    )


def test_java_headers_are_read() -> None:
    request = header_binary.decode(JAVA_REQUEST)
    assert (request.code, request.opaque, request.flag, request.language) == (105, 7, 0, "JAVA")
    assert (request.remark, request.version, request.codec) == (None, 0, BINARY)
    assert request.fields() == {"topic": "T1"}
    reply = header_binary.decode(JAVA_REPLY)
    assert (reply.code, reply.opaque, reply.is_response, reply.remark) == (17, -3, True, "no route: 主题")
    assert reply.fields() == {}


def test_bytes_after_the_header_are_ignored_as_in_java() -> None:
    assert header_binary.decode(JAVA_REQUEST + b"trailing").fields() == {"topic": "T1"}


def test_empty_names_and_values_are_dropped() -> None:
    head = CommandHead(1, 1)
    header = header_binary.encode(head, {"": "x", "empty": "", "kept": "v"})
    assert header_binary.decode(header).fields() == {"kept": "v"}


def test_an_unknown_language_is_tolerated_both_ways() -> None:
    header = bytearray(JAVA_REQUEST)
    header[2] = 200
    assert header_binary.decode(bytes(header)).language == 200
    assert header_binary.decode(header_binary.encode(CommandHead(1, 1, language="COBOL"), None)).language == "OTHER"


@pytest.mark.parametrize("length", range(len(JAVA_REQUEST)))
def test_a_header_cut_anywhere_is_a_protocol_error(length: int) -> None:
    with pytest.raises(ProtocolError):
        header_binary.decode(JAVA_REQUEST[:length])


def _with_int(offset: int, value: int) -> bytes:
    return JAVA_REQUEST[:offset] + value.to_bytes(4, "big", signed=True) + JAVA_REQUEST[offset + 4 :]


@pytest.mark.parametrize("value", [-1, -(2**31), 2**31 - 1, 100])
@pytest.mark.parametrize("offset", [13, 17, 28], ids=["remark", "fields", "value"])
def test_lengths_beyond_the_header_or_below_zero_are_protocol_errors(offset: int, value: int) -> None:
    with pytest.raises(ProtocolError):
        header_binary.decode(_with_int(offset, value))


def test_a_negative_name_length_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        header_binary.decode(JAVA_REQUEST[:21] + b"\xff\xff" + JAVA_REQUEST[23:])


def test_text_that_is_not_utf8_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        header_binary.decode(JAVA_REQUEST.replace(b"T1", b"\xff\xff"))


@pytest.mark.parametrize(
    ("head", "fields"),
    [
        (CommandHead(200050, 1), None),  # the pop requests' codes do not fit 16 bits
        (CommandHead(1, 1, version=40_000), None),
        (CommandHead(1, 1), {"n" * 40_000: "v"}),
    ],
)
def test_what_does_not_fit_is_a_value_error(head: CommandHead, fields: dict[str, str] | None) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        header_binary.encode(head, fields)
