"""Whole frames in both codecs."""

from __future__ import annotations

import pytest

from apogeemq.errors import ProtocolError
from apogeemq.protocol import versions
from apogeemq.protocol.codec import TypedDecoders, decode_frame, encode_frame, encode_ok, encode_reply, encode_request
from apogeemq.protocol.command import BINARY, JSON, Command, CommandHead
from apogeemq.protocol.headers.broker import SendCommand, decode_send, read_send_message

# RemotingCommand.encode() of Apache 5.5.0: GET_ROUTEINFO_BY_TOPIC with topic T1, opaque 7 and a body.
JAVA_FRAMES = {
    JSON: bytes.fromhex("000000820000007a")
    + b'{"code":105,"extFields":{"topic":"T1"},"flag":0,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":0}body',
    BINARY: bytes.fromhex(
        "0000002a0100002200690000000000000700000000000000000000000d0005746f706963000000025431626f6479"
    ),
}
CODECS = pytest.mark.parametrize("codec", [JSON, BINARY], ids=["json", "binary"])


@CODECS
def test_frames_are_those_of_java(codec: int) -> None:
    head = CommandHead(105, 7, language="JAVA", version=0)
    assert encode_frame(head, {"topic": "T1"}, b"body", codec) == JAVA_FRAMES[codec]


@CODECS
def test_java_frames_are_read(codec: int) -> None:
    command = decode_frame(JAVA_FRAMES[codec][4:])
    assert (command.code, command.opaque, command.fields()) == (105, 7, {"topic": "T1"})
    assert (command.body, command.codec, command.language) == (b"body", codec, "JAVA")


@CODECS
def test_a_frame_without_a_body_has_an_empty_one(codec: int) -> None:
    assert decode_frame(encode_request(105, 7, codec=codec)[4:]).body == b""


@CODECS
def test_one_way_requests_and_replies_carry_their_flags(codec: int) -> None:
    request = decode_frame(encode_request(1, 2, {}, one_way=True, codec=codec)[4:])
    assert request.is_one_way
    assert not request.is_response
    reply = decode_frame(encode_reply(request)[4:])
    assert reply.is_response
    assert not reply.is_one_way  # Java does not echo that bit


@CODECS
def test_a_reply_has_the_codec_and_opaque_of_its_request(codec: int) -> None:
    request = decode_frame(encode_request(1, -5, codec=codec)[4:])
    reply = decode_frame(encode_reply(request, 17, "why", {"a": "b"}, b"body")[4:])
    assert (reply.codec, reply.opaque, reply.code, reply.remark) == (codec, -5, 17, "why")
    assert (reply.fields(), reply.body, reply.version) == ({"a": "b"}, b"body", versions.CURRENT)


@CODECS
@pytest.mark.parametrize("opaque", [0, 7, -1, 2**31 - 1, -(2**31)])
def test_the_template_of_success_is_what_the_encoder_writes(codec: int, opaque: int) -> None:
    request = Command(code=1, opaque=opaque, codec=codec)
    assert encode_ok(request, b"body") == encode_reply(request, body=b"body")


@pytest.mark.parametrize("frame", [b"", b"\x00", b"\x00\x00\x00"])
def test_a_frame_too_short_for_its_mark_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_frame(frame)


def test_a_header_that_runs_past_the_frame_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="runs past"):
        decode_frame(b"\x00\x00\x00\x0c" + b'{"code":1}')


@pytest.mark.parametrize("codec", [2, 127, 255])
def test_an_unknown_codec_is_a_protocol_error(codec: int) -> None:
    with pytest.raises(ProtocolError, match="unknown header codec"):
        decode_frame(bytes([codec]) + b"\x00\x00\x0a" + b'{"code":1}')


def test_a_header_too_long_for_its_length_field_is_refused_when_written() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode_request(1, 1, {"a": "x" * 2**24})


SEND_FIELDS = {"a": "P", "b": "T", "e": "3", "f": "0", "g": "17", "h": "0", "i": "K\x01v\x02", "m": "false"}
TYPED: TypedDecoders = {b'{"code":310,': decode_send}


def test_a_send_is_read_with_its_header_in_one_pass() -> None:
    frame = encode_request(310, 7, SEND_FIELDS, b"body")[4:]
    usual, typed = decode_frame(frame), decode_frame(frame, TYPED)
    assert isinstance(typed, SendCommand)
    assert typed.header == read_send_message(usual)
    for name in ("code", "opaque", "flag", "version", "language", "body", "codec"):
        assert getattr(typed, name) == getattr(usual, name)


@pytest.mark.parametrize(
    ("code", "fields", "codec"),
    [
        (311, SEND_FIELDS, JSON),  # another code
        (310, {**SEND_FIELDS, "e": "x"}, JSON),  # what Java may read otherwise
        (310, {"b": "T"}, JSON),  # fields are missing
        (310, SEND_FIELDS, BINARY),
    ],
)
def test_what_the_typed_decoder_does_not_take_is_read_as_always(code: int, fields: dict[str, str], codec: int) -> None:
    command = decode_frame(encode_request(code, 7, fields, codec=codec)[4:], TYPED)
    assert type(command) is Command
    assert command.fields() == fields


def test_a_send_without_fields_has_no_header() -> None:
    command = decode_frame(encode_request(310, 7)[4:], TYPED)
    assert isinstance(command, SendCommand)
    assert command.header is None
    assert command.fields() == {}
