"""The JSON header codec, byte by byte."""

from __future__ import annotations

import msgspec
import pytest

from apogeemq.errors import ProtocolError
from apogeemq.protocol import header_json, versions
from apogeemq.protocol.command import FLAG_ONE_WAY, FLAG_RESPONSE, CommandHead

# What org.apache.rocketmq.remoting.protocol.RemotingCommand of Apache 5.5.0 writes.
JAVA_REQUEST = (
    b'{"code":105,"extFields":{"topic":"T1"},"flag":0,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":0}'
)
JAVA_REPLY = (
    '{"code":17,"flag":1,"language":"JAVA","opaque":-3,"remark":"no route: 主题",'
    '"serializeTypeCurrentRPC":"JSON","version":0}'
).encode()


def test_headers_are_written_as_java_writes_them() -> None:
    request = CommandHead(105, 7, language="JAVA", version=0)
    assert header_json.encode(request, {"topic": "T1"}) == JAVA_REQUEST
    reply = CommandHead(17, -3, FLAG_RESPONSE, "no route: 主题", language="JAVA", version=0)
    assert header_json.encode(reply, None) == JAVA_REPLY


def test_our_own_headers_name_language_and_version() -> None:
    assert header_json.encode(CommandHead(1, 2, FLAG_ONE_WAY), {}) == (
        b'{"code":1,"extFields":{},"flag":2,"language":"PYTHON","opaque":2,"serializeTypeCurrentRPC":"JSON",'
        b'"version":%d}' % versions.CURRENT
    )


def test_java_headers_are_read() -> None:
    request = header_json.decode(JAVA_REQUEST)
    assert (request.code, request.opaque, request.flag, request.language) == (105, 7, 0, "JAVA")
    assert (request.remark, request.version, request.fields()) == (None, 0, {"topic": "T1"})
    reply = header_json.decode(JAVA_REPLY)
    assert (reply.code, reply.opaque, reply.is_response, reply.remark) == (17, -3, True, "no route: 主题")
    assert reply.fields() == {}


def test_go_headers_are_read() -> None:
    command = header_json.decode(
        b'{"code":105,"language":"GO","version":317,"opaque":1,"flag":0,"remark":"","extFields":{"topic":"T"}}'
    )
    assert (command.code, command.language, command.version, command.remark) == (105, "GO", 317, "")
    assert command.fields() == {"topic": "T"}


def test_keys_in_any_order_spaces_and_unknown_keys() -> None:
    command = header_json.decode(b' { "unknown" : [1, {"a": null}] , "opaque" : 5 , "code" : 3 } ')
    assert (command.code, command.opaque, command.flag, command.version) == (3, 5, 0, 0)


@pytest.mark.parametrize(
    ("text", "code", "remark", "language"),
    [
        (b'{"code":"105"}', 105, None, None),  # a number as a string
        (b'{"code":1,"flag":null,"opaque":null,"version":null,"extFields":null}', 1, None, None),
        (b'{"code":1,"remark":5}', 1, "5", None),
        (b'{"code":1,"remark":true}', 1, "true", None),
        (b'{"code":1,"language":9}', 1, None, 9),  # fastjson takes the ordinal of an enum
        (b'{"code":1,"language":{}}', 1, None, None),
        (b'{"code":1,"language":"COBOL"}', 1, None, "COBOL"),
    ],
)
def test_values_of_other_types_are_read_as_java_reads_them(
    text: bytes, code: int, remark: str | None, language: str | int | None
) -> None:
    command = header_json.decode(text)
    assert (command.code, command.remark, command.language) == (code, remark, language)
    assert command.fields() == {}


def test_fields_that_are_not_strings_become_what_java_would_write() -> None:
    command = header_json.decode(b'{"code":1,"extFields":{"a":1,"b":true,"c":null,"d":"x","e":{"f":[1]},"g":1.5}}')
    assert command.fields() == {"a": "1", "b": "true", "d": "x", "e": '{"f":[1]}', "g": "1.5"}


def test_odd_values_do_not_lose_the_fields() -> None:
    command = header_json.decode(b'{"code":1,"remark":5,"extFields":{"a":1,"b":null}}')
    assert command.fields() == {"a": "1"}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"1",
        b"{}",  # no code
        b'{"code":null}',
        b'{"code":"x"}',
        b'{"code":2147483648}',
        b'{"code":1,"opaque":-2147483649}',
        b'{"code":1} x',
        b'{"code":1}{"code":1}',
        b'{"code":1,"remark":"\xff"}',
        b'{"code":1,"extFields":{"a":"b"}',
        b'{"code":1,"x":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_anything_else_is_a_protocol_error(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        header_json.decode(text)


@pytest.mark.parametrize("fields", [b"[]", b"5", b'"x"', b'{"a":"\xff"}'])
def test_fields_that_are_no_map_are_an_error_when_they_are_read(fields: bytes) -> None:
    command = header_json.decode(b'{"code":1,"extFields":' + fields + b"}")
    with pytest.raises(ProtocolError, match="extFields"):
        command.fields()


def test_a_peer_cannot_set_what_is_ours() -> None:
    command = header_json.decode(
        b'{"code":1,"extFields":{"a":"real"},"#ext":{"a":"forged"},"#shortcut":["x","y"],"#codec":1,"#body":"AAAA"}'
    )
    assert command.fields() == {"a": "real"}
    assert command.shortcut is None


@pytest.mark.parametrize(
    ("escaped", "read"),
    [
        (rb"\ud800", "?"),
        (rb"a\uDFFFb", "a?b"),
        (rb"\ud83d\ude00", "\U0001f600"),
        (rb"\ud83d\ud83d\ude00\ude00", "?\U0001f600?"),
        (rb"\\ud800", "\\ud800"),
        (rb"\\\ud800\"", '\\?"'),
    ],
)
def test_half_a_character_is_a_question_mark_as_java_makes_it(escaped: bytes, read: str) -> None:
    # The second field makes the header one that needs a second look in any case.
    header = b'{"code":1,"remark":5,"extFields":{"a":"' + escaped + b'","b":"\\ud800"}}'
    command = header_json.decode(header)
    assert command.fields() == {"a": read, "b": "?"}
    assert msgspec.json.decode(command.ext_json) == {"a": read, "b": "?"}
