"""What a broker says of itself, in the forms brokers of different ages use."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pytest

from apogeemq.errors import ProtocolError
from apogeemq.model import topics as model
from apogeemq.model.routes import DataVersion, QueueMapping
from apogeemq.protocol import versions
from apogeemq.protocol.bodies import registration as module
from apogeemq.protocol.bodies.registration import (
    Registration,
    TopicConfig,
    decode_registration,
    encode_registration,
    encode_topic_table,
    pack_topic_table,
)

# RegisterBrokerBody.encode(false) and encode(true), and TopicConfigSerializeWrapper.toJson(), of Apache 5.5.0.
TABLE = (
    b'"topicConfigTable":{"T1":{"attributes":{"+message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":4,'
    b'"topicFilterType":"SINGLE_TAG","topicName":"T1","topicSysFlag":2,"writeQueueNums":8},"T2":{"attributes":{},'
    b'"order":false,"perm":6,"readQueueNums":16,"topicFilterType":"SINGLE_TAG","topicName":"T2","topicSysFlag":0,'
    b'"writeQueueNums":16}}'
)
VERSION = b'"dataVersion":{"counter":5,"stateVersion":2,"timestamp":1700000000000}'
JAVA_JSON = (
    b'{"filterServerList":["10.0.0.1:30000"],"topicConfigSerializeWrapper":{' + VERSION + b',"mappingDataVersion":'
    b'{"counter":0,"stateVersion":0,"timestamp":1794778774860},' + TABLE + b',"topicQueueMappingDetailMap":{},'
    b'"topicQueueMappingInfoMap":{"T1":{"bname":"broker-a","currIdMap":{0:1,2:3},"dirty":false,"epoch":3,'
    b'"scope":"__global__","topic":"T1","totalQueues":8}}}}'
)
JAVA_ZLIB = bytes.fromhex(
    "78da554f4d4fc3300c0dfc044e1c235f17a6a665a3f28d039b2af12144c505a128cdcca8689b2a490f53d5ff4eb20bc2f63bf859efd966"
    "8c9533183b0d811ce046800f3ad03b39dfda01301710da9e22d98f80f22efb8b85317619216ac96f79c9b7fcad7ade3f3ea8fa7ecf6758"
    "4595d7475a87d34880b0ab762f9034d775cee536d57f459a5d7d80ccd629251669097c46f62222ccd00cba4f4e8db33fe46e340830937"
    "3d5e149c7dbe60ca5c8b158041c5a174e805fbaf32480466bbe018bf89ab1e753943a76b6d19d52d122d8b13591ace5b909ba7b9d6822"
    "0f582ebf0ad54e21"
)
JAVA_OLD = b"{" + VERSION + b"," + TABLE + b"}"

DATA_VERSION = DataVersion(5, 2, 1_700_000_000_000)
TOPICS = {"T1": TopicConfig("T1", 4, 8, 6, 2), "T2": TopicConfig("T2", 16, 16, 6, 0)}
MAPPINGS = {"T1": QueueMapping("broker-a", {0: 1, 2: 3}, False, 3, "__global__", "T1", 8)}


def test_the_json_form() -> None:
    decoded = decode_registration(JAVA_JSON, versions.V5_5_0, compressed=False)
    assert decoded == Registration(DATA_VERSION, TOPICS, MAPPINGS, ["10.0.0.1:30000"])


@pytest.mark.parametrize("says_compressed", [True, False], ids=["told", "found-out"])
def test_the_zlib_form(says_compressed: bool) -> None:
    decoded = decode_registration(JAVA_ZLIB, versions.V5_5_0, says_compressed)
    without_flag = {**TOPICS, "T1": TopicConfig("T1", 4, 8, 6, 0)}  # this form does not carry the system flag
    assert decoded == Registration(DATA_VERSION, without_flag, MAPPINGS, ["10.0.0.1:30000"])


def test_queue_mappings_are_read_only_from_versions_that_send_them() -> None:
    decoded = decode_registration(JAVA_ZLIB, versions.V5_0_0 - 1, compressed=True)
    assert decoded.queue_mappings == {}
    assert list(decoded.topics) == ["T1", "T2"]


def test_the_form_from_before_3_0_11() -> None:
    decoded = decode_registration(JAVA_OLD, versions.V3_0_11 - 1, compressed=False)
    assert decoded == Registration(DATA_VERSION, TOPICS, {}, None)


@pytest.mark.parametrize("version", [0, versions.V3_0_11, versions.V5_5_0])
@pytest.mark.parametrize("compressed", [True, False])
def test_no_body_is_an_empty_registration(version: int, compressed: bool) -> None:
    assert decode_registration(b"", version, compressed) == Registration()


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"topicConfigSerializeWrapper":null,"filterServerList":null}', b'{"topicConfigSerializeWrapper":{}}'],
)
def test_parts_may_be_missing(body: bytes) -> None:
    assert decode_registration(body, versions.V5_5_0, compressed=False) == Registration()


def test_what_a_topic_leaves_out_has_javas_defaults() -> None:
    body = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{}}}}'
    assert decode_registration(body, versions.V5_5_0, compressed=False).topics == {"T": TopicConfig(None, 16, 16, 6, 0)}


def test_what_we_write_is_read_back() -> None:
    said = Registration(DATA_VERSION, TOPICS, MAPPINGS, ["a:1"])
    assert decode_registration(encode_registration(said), versions.V5_5_0, compressed=False) == said


OWN_TABLE = {
    "T1": model.TopicConfig(topic_name="T1", read_queue_nums=4, write_queue_nums=2, perm=7, topic_sys_flag=3),
    "T2": model.TopicConfig(topic_name="T2", attributes={"message.type": "FIFO", "a b": "c d"}, order=True),
}


def test_a_brokers_own_table_is_read_back() -> None:
    decoded = decode_registration(encode_topic_table(OWN_TABLE, DATA_VERSION), versions.V5_5_0, compressed=False)
    topics = {"T1": TopicConfig("T1", 4, 2, 7, 3), "T2": TopicConfig("T2", 16, 16, 6, 0)}
    assert decoded == Registration(DATA_VERSION, topics, {}, [])


@pytest.mark.parametrize("version", [versions.V3_0_11, versions.V5_5_0])
def test_a_brokers_own_table_is_read_back_from_the_zlib_form(version: int) -> None:
    body = zlib.compress(pack_topic_table(OWN_TABLE, DATA_VERSION), 9)
    topics = {"T1": TopicConfig("T1", 4, 2, 7, 0), "T2": TopicConfig("T2", 16, 16, 6, 0)}
    assert decode_registration(body, version, compressed=True) == Registration(DATA_VERSION, topics, {}, [])


def test_an_empty_table_has_a_zlib_form_too() -> None:
    body = zlib.compress(pack_topic_table({}, DATA_VERSION))
    assert decode_registration(body, versions.V5_5_0, compressed=True) == Registration(DATA_VERSION, {}, {}, [])


@pytest.mark.parametrize(
    "body",
    [
        b"not JSON",
        b"[]",
        b'{"topicConfigSerializeWrapper":[]}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"x"}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"readQueueNums":2147483648}}}}',
        b'{"filterServerList":[1]}',
        JAVA_JSON[:-1],
        JAVA_JSON + b"}",
        b"[" * 100_000,
    ],
)
def test_json_that_is_no_registration_is_a_protocol_error(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_registration(body, versions.V5_5_0, compressed=False)


@pytest.mark.parametrize("body", [b"not JSON", b"[]", b'{"topicConfigTable":[]}', JAVA_OLD[:-1], JAVA_OLD + b"}"])
def test_an_old_body_that_is_no_registration_is_a_protocol_error(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_registration(body, versions.V3_0_11 - 1, compressed=False)


# -- the zlib form, piece by piece -----------------------------------------------------------------------------


def block(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


def number(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def inflated(
    topics: Sequence[bytes] = (), *, topic_count: int | None = None, version: bytes = b"{}", mappings: bytes = number(0)
) -> bytes:
    count = len(topics) if topic_count is None else topic_count
    return block(version) + number(count) + b"".join(map(block, topics)) + block(b"[]") + mappings


def decode_inflated(data: bytes) -> Registration:
    return decode_registration(zlib.compress(data), versions.V5_5_0, compressed=True)


def test_topics_are_lines_of_text() -> None:
    decoded = decode_inflated(inflated([b"T1 4 8 6 SINGLE_TAG", '主题 1 2 4 MULTI_TAG {"a":"b c"}'.encode()]))
    assert decoded.topics == {"T1": TopicConfig("T1", 4, 8, 6), "主题": TopicConfig("主题", 1, 2, 4)}
    assert decoded.filter_servers == []


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"T1",
        b"T1 4 8",
        b"T1 a 8 6 X",
        b"T1 4 8 99999999999 X",
        b"\xff 4 8 6 X",
        b"T1  4 8 6",
        b"T1 4 8 " + b"9" * 5000,
    ],
)
def test_a_line_that_is_no_topic_is_a_protocol_error(line: bytes) -> None:
    with pytest.raises(ProtocolError, match="topic"):
        decode_inflated(inflated([line]))


@pytest.mark.parametrize(
    "data",
    [
        inflated(version=b"[]"),
        inflated(version=b""),
        inflated(topic_count=-1),
        inflated(topic_count=2**31 - 1),
        number(-1),
        number(2**31 - 1),
        inflated(mappings=number(-1)),
        inflated(mappings=number(1)),
        inflated(mappings=number(1) + block(b"[]")),
    ],
)
def test_sizes_and_parts_that_cannot_be_are_protocol_errors(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_inflated(data)


def test_cut_off_anywhere_is_a_protocol_error() -> None:
    whole = inflated([b"T1 4 8 6 SINGLE_TAG"])
    for length in range(len(whole)):
        with pytest.raises(ProtocolError):
            decode_inflated(whole[:length])
    for length in range(1, len(JAVA_ZLIB)):
        with pytest.raises(ProtocolError):
            decode_registration(JAVA_ZLIB[:length], versions.V5_5_0, compressed=True)


def test_bytes_after_the_last_part_are_ignored() -> None:
    assert decode_inflated(inflated() + b"more") == decode_inflated(inflated())


def test_plain_text_that_claims_to_be_compressed_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="compressed body"):
        decode_registration(JAVA_JSON, versions.V5_5_0, compressed=True)


def test_a_zip_bomb_stops_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_INFLATED_SIZE", 100_000)
    bomb = zlib.compress(bytes(10_000_000), 9)
    with pytest.raises(ProtocolError, match="grows beyond 100000 bytes"):
        decode_registration(bomb, versions.V5_5_0, compressed=True)
