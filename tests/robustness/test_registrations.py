"""Registrations that are broken or out of all proportion: refused with a reason, or taken and served."""

from __future__ import annotations

import zlib
from struct import Struct

import msgspec
import pytest

from apogeemq.protocol.bodies.registration import MAX_INFLATED_SIZE, TopicConfig
from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.peers.process import wait_for
from tests.robustness.attacked import STEADY_ADDRESS, Attacked, broker_addresses, register_request, route_request
from tests.robustness.raw_peer import request

DEEP = 1_000_000
MANY_TOPICS = 100_000
_INT32 = Struct(">i")
_TWO_TOPICS = {name: TopicConfig(name, 1, 1) for name in ("bad-1", "bad-2")}


def inflated(
    topics: bytes = b"",
    topic_count: int = 0,
    *,
    version: bytes = b"{}",
    mappings: bytes = b"",
    mapping_count: int = 0,
) -> bytes:
    """A compressed registration before it is compressed; `topics` and `mappings` are blocks already."""
    return b"".join(
        (block(version), _INT32.pack(topic_count), topics, block(b"[]"), _INT32.pack(mapping_count), mappings)
    )


def block(content: bytes) -> bytes:
    return _INT32.pack(len(content)) + content


def bomb(size: int) -> bytes:
    """Zlib that grows a thousandfold to `size` bytes: one piece said again and again."""
    compressor = zlib.compressobj(9)
    start = compressor.compress(bytes(2**20)) + compressor.flush(zlib.Z_FULL_FLUSH)
    piece = compressor.compress(bytes(2**20)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return start + piece * (size // 2**20)


_GOOD_TOPIC = block(b"bad-1 1 1 6 SINGLE_TAG")
_GOOD = zlib.compress(inflated(_GOOD_TOPIC * 2, 2))
_MANY = 1_000_000

BROKEN_BODIES = {
    "not JSON": (b"\x00\x01\x02", "body: "),
    "JSON of another shape": (b'{"topicConfigSerializeWrapper":[1]}', "body: "),
    "not UTF-8": (b'{"filterServerList":["\xff"]}', "body: "),
    "a deep list": (b"[" * DEEP + b"]" * DEEP, "body: "),
    "a deep object": (b'{"a":' * DEEP, "body: "),
    "a deep object with bare keys": (b"{0:" * 400_000, "body: "),
    "more bare keys than a server quotes": (b'{"filterServerList":[],' + b"1:1," * 2_000_000, "bare keys"),
    "zlib cut off": (_GOOD[:-8], "compressed body is cut off"),
    "zlib of nothing": (zlib.compress(b""), "compressed body ends too soon"),
    "zlib with a flipped byte": (b"\x78\x9c" + bytes(64), "compressed body: "),
    "zlib that ends early": (zlib.compress(inflated(_GOOD_TOPIC, 2)[:-12]), "compressed body"),
    "zlib with a negative size": (zlib.compress(_INT32.pack(-1)), "negative size, -1"),
    "zlib with a size past its end": (zlib.compress(_INT32.pack(2**31 - 1)), "compressed body ends too soon"),
    "zlib with a topic of no sense": (zlib.compress(inflated(block(b"bad-1 many few"), 1)), "topic b'bad-1 many few'"),
    "a zip bomb": (bomb(2**30), f"grows beyond {MAX_INFLATED_SIZE} bytes"),
    "a zip bomb of one topic said often": (zlib.compress(inflated(block(b"a 1 1 6") * _MANY, _MANY), 1), "entries"),
    "a zip bomb of queue mappings": (
        zlib.compress(inflated(mappings=block(b"{}") * _MANY, mapping_count=_MANY), 1),
        "entries",
    ),
}


def topic_count(attacked: Attacked) -> float:
    return attacked.counters()["topics"]


@pytest.mark.parametrize(("body", "reason"), BROKEN_BODIES.values(), ids=BROKEN_BODIES.keys())
def test_a_broken_body_is_refused_with_its_reason_and_changes_nothing(
    attacked: Attacked, body: bytes, reason: str
) -> None:
    before = attacked.counters()
    with attacked.peer() as peer:
        answer = peer.ask(register_request("bad", {}, body=body))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith("Failed to decode RegisterBrokerBody: ")
        assert reason in (answer.remark or "")
        assert peer.ask(route_request("bad-1")).code == ResponseCode.TOPIC_NOT_EXIST  # the connection lives on
    after = attacked.counters()
    unchanged = ("topics", "brokers", "clusters", "journal_sequence", "request_failures_total")
    assert [after[name] for name in unchanged] == [before[name] for name in unchanged]


def test_a_body_whose_checksum_is_wrong_is_refused(attacked: Attacked) -> None:
    with attacked.peer() as peer:
        answer = peer.ask(register_request("bad", _TWO_TOPICS, fields={"bodyCrc32": "12345"}))
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
        assert peer.ask(route_request("bad-1")).code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize("field", ["brokerName", "brokerAddr", "clusterName", "brokerId"])
def test_a_registration_without_a_needed_field_is_refused_by_its_name(attacked: Attacked, field: str) -> None:
    header = {"brokerName": "bad", "brokerAddr": "10.0.0.8:1", "clusterName": "c", "haServerAddr": "", "brokerId": "0"}
    del header[field]
    with attacked.peer() as peer:
        answer = peer.ask(request(RequestCode.REGISTER_BROKER, header))
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, f"the header field {field} is missing")


@pytest.mark.parametrize("code", [RequestCode.QUERY_DATA_VERSION, RequestCode.WATCH_ROUTES])
def test_deep_json_is_refused_wherever_a_body_is_read(attacked: Attacked, code: int) -> None:
    fields = {"brokerName": "bad", "brokerAddr": "10.0.0.8:1", "clusterName": "c", "brokerId": "0"}
    with attacked.peer() as peer:
        answer = peer.ask(request(code, {**fields, "timeoutMillis": "1"}, b'{"topics":' * DEEP))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith("body: ")
        assert list(broker_addresses(peer.ask(route_request()))) == ["steady-broker"]


def test_a_hundred_thousand_topics_are_taken_and_their_routes_answered(attacked: Attacked) -> None:
    before = topic_count(attacked)
    topics = {f"many-{number:06d}": TopicConfig(None, 4, 4) for number in range(MANY_TOPICS)}
    said = register_request("many", topics, address="10.0.0.7:10911")
    with attacked.peer() as broker, attacked.peer() as client:
        assert broker.ask(said).code == ResponseCode.SUCCESS
        assert topic_count(attacked) == before + MANY_TOPICS
        for number in range(0, MANY_TOPICS, 9_999):
            answer = client.ask(route_request(f"many-{number:06d}"))
            assert broker_addresses(answer) == {"many": "10.0.0.7:10911"}
        assert broker_addresses(client.ask(route_request())) == {"steady-broker": STEADY_ADDRESS}
        listed = client.ask(request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
        assert len(msgspec.json.decode(listed.body)["topicList"]) == before + MANY_TOPICS
        assert broker.ask(said).code == ResponseCode.SUCCESS  # as every broker does again each 30 s
    wait_for(lambda: topic_count(attacked) == before, "the broker is gone with its topics")
