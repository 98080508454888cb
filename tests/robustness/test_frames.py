"""Bytes that are not the protocol: the connection is closed, counted and logged once; nobody else notices."""

from __future__ import annotations

from random import Random

import pytest

from apogeemq.protocol.codec import MAX_HEADER_SIZE
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import BINARY, JSON
from apogeemq.protocol.framing import MAX_FRAME_SIZE
from apogeemq.transport.dispatch import MAX_REMARK_LENGTH
from tests.peers.process import wait_for
from tests.robustness.attacked import MIB, Attacked, broker_addresses, route_request
from tests.robustness.raw_peer import frame, request

DEEP = 100_000

NOT_FRAMES = {
    "an oversize frame": (MAX_FRAME_SIZE - 3).to_bytes(4, "big"),
    "the largest length": b"\x7f\xff\xff\xff",
    "a negative length": b"\xff\xff\xff\xfe" + bytes(64),
    "a zero length": bytes(4),
    "a length without a mark": b"\x00\x00\x00\x03abc",
    "a header longer than its frame": b"\x00\x00\x00\x08" + b"\x00\x00\x00\x05{}{}",
    "the longest header in a small frame": b"\x00\x00\x00\x08" + b"\x00\xff\xff\xff{}{}",
    "a header longer than any": frame(b'{"code":105,"remark":1,"x":[' + b"[]," * MAX_HEADER_SIZE + b"[]]}"),
    "an unknown serialize type": frame(b'{"code":105}', codec=7),
    "a header that is empty": frame(b""),
    "a header that is not JSON": frame(b"\x00\x01\x02\x03"),
    "a header that is a JSON list": frame(b"[105]"),
    "a header without a code": frame(b'{"opaque":1}'),
    "a code beyond Java's int": frame(b'{"code":99999999999}'),
    "a header that is not UTF-8": frame(b'{"code":105,"remark":"\xff\xfe"}'),
    "a deep JSON list as header": frame(b"[" * DEEP + b"]" * DEEP),
    "a deep JSON object as header": frame(b'{"code":' * DEEP),
    "deep extension fields": frame(b'{"code":105,"extFields":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}"),
    "deep JSON under an unknown key": frame(b'{"code":105,"remark":1,"x":' + b"[" * DEEP + b"]" * DEEP + b"}"),
    "a binary header of zeros, cut": frame(bytes(16), codec=BINARY),
    "a binary header of noise": frame(Random(1).randbytes(1024), codec=BINARY),
    "a binary header with a negative remark": frame(bytes(13) + b"\xff\xff\xff\xff" + bytes(4), codec=BINARY),
    "a binary header with fields past its end": frame(bytes(17) + b"\x00\x00\x10\x00", codec=BINARY),
    "a binary header with a field past its end": frame(
        bytes(17) + b"\x00\x00\x00\x08" + b"\x00\x01a" + b"\x7f\xff\xff\xff" + b"b", codec=BINARY
    ),
    "a browser's request": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}


@pytest.mark.parametrize("data", NOT_FRAMES.values(), ids=NOT_FRAMES.keys())
def test_a_peer_that_does_not_speak_the_protocol_is_closed(attacked: Attacked, data: bytes) -> None:
    before = attacked.closed("malformed")
    with attacked.peer() as first:
        first.send(data)
        assert first.ended()
    with attacked.peer(first.host) as again:
        again.send(data)
        assert again.ended()
    assert attacked.closed("malformed") == before + 2
    said = attacked.lines_about(f"closed {first.host}:")
    assert len(said) == 1  # the second time is counted, not logged
    assert "WARNING" in said[0]
    assert len(said[0]) < 500


def test_requests_before_the_bad_frame_are_answered(attacked: Attacked) -> None:
    with attacked.peer() as peer:
        good = b"".join(route_request(opaque=number) for number in range(100))
        peer.send(good + NOT_FRAMES["a negative length"])
        assert [peer.receive().opaque for _ in range(100)] == list(range(100))
        assert peer.ended()


def test_a_frame_of_the_largest_size_is_read(attacked: Attacked) -> None:
    small = route_request()
    filled = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "steady"}, bytes(MAX_FRAME_SIZE - len(small)))
    assert len(filled) == MAX_FRAME_SIZE
    with attacked.peer() as peer:
        assert list(broker_addresses(peer.ask(filled))) == ["steady-broker"]


def test_random_bytes_are_closed_whatever_they_look_like(attacked: Attacked) -> None:
    """Noise may pass for the start of a frame or of a TLS handshake; then it ends with the peer."""
    before = attacked.counters()
    random = Random(20_240)
    peers = [attacked.peer() for _ in range(200)]
    for peer in peers:
        peer.send(bytes([random.randrange(1, 256)]) + random.randbytes(random.randrange(8, 4096)))
    for peer in peers:
        peer.ended()
        peer.socket.close()
    wait_for(lambda: attacked.counters()["connections"] == before["connections"], "all are gone")
    after = attacked.counters()
    closed = sum(after[key] - before[key] for key in after if key.startswith("connections_closed_total"))
    assert closed == len(peers)


@pytest.mark.parametrize("codec", [JSON, BINARY], ids=["JSON", "binary"])
def test_an_unknown_request_code_is_said_to_be_unknown(attacked: Attacked, codec: int) -> None:
    with attacked.peer() as peer:
        answer = peer.ask(request(31_999, {"a": "b"}, codec=codec))
        assert (answer.code, answer.remark) == (
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            " request type 31999 not supported",
        )
        assert list(broker_addresses(peer.ask(route_request()))) == ["steady-broker"]


@pytest.mark.parametrize("codec", [JSON, BINARY], ids=["JSON", "binary"])
def test_a_topic_as_long_as_a_header_is_unknown_in_few_words(attacked: Attacked, codec: int) -> None:
    topic = "t" * (MAX_HEADER_SIZE - 256)
    with attacked.peer() as peer:
        answer = peer.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, codec=codec))
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        assert len(answer.remark or "") <= MAX_REMARK_LENGTH + 1
        assert list(broker_addresses(peer.ask(route_request()))) == ["steady-broker"]


@pytest.mark.parametrize("key", ['"x"', '"extFields"'])
def test_a_header_of_countless_small_parts_takes_little_memory(attacked: Attacked, key: str) -> None:
    """One with odd values is read a second time, as objects."""
    parts = "[" + "[]," * (MAX_HEADER_SIZE // 4) + "[]]"
    attacked.reset_peak()
    before = attacked.memory()
    with attacked.peer() as peer:
        for _ in range(5):
            answer = peer.ask(frame(f'{{"code":105,"remark":1,"opaque":7,{key}:{parts}}}'.encode()))
            assert answer.opaque == 7
            assert answer.code != ResponseCode.SUCCESS
    assert attacked.memory("VmHWM") - before < 96 * MIB


def test_answers_nobody_asked_for_are_ignored(attacked: Attacked) -> None:
    with attacked.peer() as peer:
        peer.send(frame(b'{"code":0,"flag":1,"opaque":1}') * 10_000)
        assert list(broker_addresses(peer.ask(route_request()))) == ["steady-broker"]
