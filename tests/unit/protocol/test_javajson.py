"""The JSON dialect of fastjson, read and written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from apogeemq.errors import ProtocolError
from apogeemq.protocol import javajson
from apogeemq.protocol.javajson import Pairs, dumps, loads, parse

# ConsumeStats.toJson() of Apache 5.5.0: the key is an object.
JAVA_STATS = (
    b'{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T1"}:'
    b'{"brokerOffset":0,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}}'
)


class Group(msgspec.Struct):
    addresses: dict[int, str] = {}
    name: str = ""


@pytest.mark.parametrize(
    "text",
    [
        b'{"addresses":{"0":"h:1","-1":"h:2"},"name":"n"}',
        b'{"addresses":{0:"h:1",-1:"h:2"},"name":"n"}',
        b' { "name" : "n" , addresses : { 0 : "h:1" , "-1" : "h:2" } } ',
        b'{\n\t"addresses":\r\n{0:"h:1",\n-1:"h:2"},$x:null,"name":"n"}',
    ],
)
def test_bare_and_quoted_keys_are_read_alike(text: bytes) -> None:
    assert loads(text, Group) == Group({0: "h:1", -1: "h:2"}, "n")


@pytest.mark.parametrize("name", ["{0:1}", ',5:"', "\\", '\\"', "a,0:b", '"', "\\\\", "{,:}", "x\u2028", "主题"])
def test_what_looks_like_a_key_inside_a_string_is_left_alone(name: str) -> None:
    text = b'{"name":' + msgspec.json.encode(name) + b',"addresses":{0:' + msgspec.json.encode(name) + b"}}"
    assert loads(text, Group) == Group({0: name}, name)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b'{"name":"n', "truncated"),
        (b'{addresses:{0:"h"', "truncated"),
        (b'{"name":"n"} x', "trailing"),
        (b'{name:"n"} x', "trailing"),
        (b"{'name':'n'}", "malformed"),
        (b"{{}:1}", "malformed"),
        (b'{"name":5}', r"Expected `str`, got `int` - at `\$.name`"),
        (b"{name:5}", r"Expected `str`, got `int` - at `\$.name`"),
        (b'{addresses:{zero:"h"}}', "Expected `int`"),
        (b'{"name":"\xff"}', "utf-8"),
        (b"[1,2]", "Expected `object`"),
        (b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}", "recursion"),
        (b"{x:" + b"[" * 5000 + b"]" * 5000 + b"}", "recursion"),
    ],
)
def test_anything_else_is_a_protocol_error_that_says_why(text: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        loads(text, Group)


def test_more_bare_keys_than_any_body_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javajson, "MAX_BARE_KEYS", 3)
    assert loads(b'{addresses:{0:"a"}}', Group) == Group({0: "a"})
    with pytest.raises(ProtocolError, match="more than 3 bare keys"):
        loads(b'{addresses:{0:"a",1:"b",2:"c"}}', Group)


@pytest.mark.parametrize(
    "hostile",
    [
        b'{x:"' + b"a" * 1_000_000,
        b'{x:"' + b"\\" * 1_000_001,
        b'{x:"' + b'\\"' * 500_000,
        b"{x:" + b'"\\' * 500_000,
        b"{x:" + b", " * 500_000,
        b"{x:," + b" " * 1_000_000,
        b"{x:" + b"1," * 500_000,
        b"{x:" + b"{" * 1_000_000,
        b"{x:" + b"a" * 1_000_000,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_hostile_bodies_are_refused_without_backtracking(hostile: bytes) -> None:
    # A reader that tried twice what it cannot read would need minutes for these.
    with pytest.raises(ProtocolError):
        loads(hostile, Group)


def test_object_keys_are_read_into_pairs() -> None:
    queue = {"brokerName": "broker-a", "queueId": 0, "topic": "T1"}
    offsets = {"brokerOffset": 0, "consumerOffset": 0, "lastTimestamp": 0, "pullOffset": 0}
    assert parse(JAVA_STATS) == {"consumeTps": 0.0, "offsetTable": [(queue, offsets)]}
    assert isinstance(parse(JAVA_STATS)["offsetTable"], Pairs)


def test_object_keys_are_written_as_java_writes_them() -> None:
    assert dumps(parse(JAVA_STATS)) == JAVA_STATS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"null", None),
        (b"true", True),
        (b" -1.5e3 ", -1500.0),
        (b'"a\\u0001\\n\\"\\\\"', 'a\x01\n"\\'),
        (b"[]", []),
        (b"[ 1 , [ 2 ] , {} ]", [1, [2], {}]),
        (b"{}", {}),
        (b"{0:1,-2:3,a.b$:4}", {0: 1, -2: 3, "a.b$": 4}),
        (b"{null:1,true:2}", {None: 1, True: 2}),
        (b"{[1,2]:3}", [([1, 2], 3)]),
        (b"{{}:{},{1:2}:{3:4}}", [({}, {}), ({1: 2}, {3: 4})]),
        (b"{{{1:2}:3}:4}", [([({1: 2}, 3)], 4)]),
        (b"NaN", "NaN"),
    ],
)
def test_every_form_of_the_dialect(text: bytes, value: Any) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"{",
        b"[1",
        b"[1,",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"{1}",
        b"{1:",
        b"{1:2",
        b"{1:2,}",
        b"{1:2 3:4}",
        b'"a',
        b'"\x01"',
        b'"\\x"',
        b"1 2",
        b"*",
        b"[" * 70 + b"]" * 70,
    ],
)
def test_what_is_not_the_dialect_is_a_protocol_error(text: bytes) -> None:
    with pytest.raises(ProtocolError, match="body: "):
        parse(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({0: "10.0.0.1:10911"}, b'{0:"10.0.0.1:10911"}'),
        ({"a": {1: [2, None, True, 1.5]}}, b'{"a":{1:[2,null,true,1.5]}}'),
        (Group({0: "h:1"}, "n"), b'{"addresses":{0:"h:1"},"name":"n"}'),
        ([Group({}, "n"), (1, "x")], b'[{"addresses":{},"name":"n"},[1,"x"]]'),
        (Pairs([({"q": 0}, 5), ({"q": 1}, 6)]), b'{{"q":0}:5,{"q":1}:6}'),
        ("主题\x01", '"主题\\u0001"'.encode()),
    ],
)
def test_the_dialect_is_written_without_spaces(value: Any, text: bytes) -> None:
    assert dumps(value) == text
    assert dumps(parse(text)) == text
