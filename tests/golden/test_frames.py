"""Our codec reads what Apache's peers sent, and writes the same bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from apogeemq.model import topics as model
from apogeemq.model.routes import DataVersion, QueueMapping, TopicRoute
from apogeemq.protocol import codec, javajson
from apogeemq.protocol.bodies.registration import (
    Registration,
    TopicConfig,
    decode_registration,
    encode_topic_table,
)
from apogeemq.protocol.bodies.routes import KvTable, WireClusterInfo, WireTopicList, decode_route, encode, topic_route
from apogeemq.protocol.command import Command, CommandHead
from apogeemq.protocol.framing import FrameReader
from apogeemq.protocol.headers import nameserver as headers
from tests.golden import files, scenarios
from tests.golden.capture import answers_path, frames_path
from tests.golden.compare import as_4_9, parsed
from tests.golden.java_frames import GROUPS
from tests.golden.scenarios import build
from tests.golden.steps import BOTH, V4, V5, Ask, Scenario
from tests.golden.wire import JSON, Frame

ODD = 'grün/<b>"q" \u2028\u0001 日本 🚀'
BOTH_CODECS = ("JSON", "binary")

ESCAPES_OF_FASTJSON_1 = {rb"\u2028": "\u2028", rb"\u007F": "\u007f"}
"""4.9 escapes these; 5.x and ours write them as they are, and everyone reads both."""

PATHS = {
    f"{path.parent.name} {path.stem}": path
    for path in (
        *(frames_path(version, group) for version in BOTH for group in GROUPS),
        *(answers_path(version, scenario) for scenario in scenarios.ALL for version in scenario.versions),
    )
}


def _frames(path: Path) -> dict[str, Frame]:
    return {name: frame for name, frame in files.read(path).items() if frame is not None}


def _decode(frame: Frame) -> Command:
    (data,) = FrameReader().feed(frame.encode())
    return codec.decode_frame(data)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
def test_every_part_is_read(path: Path) -> None:
    for name, frame in _frames(path).items():
        expected, command = frame.fields(), _decode(frame)
        found = {part: getattr(command, part) for part in ("code", "flag", "opaque", "version", "language")}
        assert found == {part: expected[part] for part in found}, name
        assert command.remark == expected.get("remark"), name
        assert command.fields() == expected.get("extFields", {}), name
        assert (command.codec, command.body) == (frame.codec, frame.body), name


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
def test_written_again_every_frame_is_the_same(path: Path) -> None:
    for name, frame in _frames(path).items():
        command = _decode(frame)
        language = str(command.language)
        head = CommandHead(command.code, command.opaque, command.flag, command.remark, language, command.version)
        fields = command.fields() if "extFields" in frame.fields() else None
        assert codec.encode_frame(head, fields, command.body, command.codec) == _as_5_escapes(frame).encode(), name


def _as_5_escapes(frame: Frame) -> Frame:
    header = frame.header
    if frame.codec == JSON:
        for escape, character in ESCAPES_OF_FASTJSON_1.items():
            header = header.replace(escape, character.encode())
    return frame._replace(header=header)


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_a_stream_of_frames_is_cut_wherever_it_is_read(size: int) -> None:
    frames = [frame for version in BOTH for frame in _frames(frames_path(version, "requests")).values()]
    stream = b"".join(frame.encode() for frame in frames)
    reader = FrameReader()
    found = [data for at in range(0, len(stream), size) for data in reader.feed(stream[at : at + size])]
    assert found == [frame.encode()[4:] for frame in frames]
    assert not reader.is_mid_frame


IDENTITY = headers.BrokerIdentity("broker-a", "127.0.0.1:10911", "DefaultCluster", 0)
KEY = {"namespace": "ns", "key": "k"}

TYPED: dict[str, tuple[Callable[[Command], msgspec.Struct], msgspec.Struct]] = {
    "unregister": (headers.read_broker_identity, IDENTITY),
    "data version": (headers.read_broker_identity, IDENTITY),
    "heartbeat": (
        headers.read_broker_heartbeat,
        headers.BrokerHeartbeat("DefaultCluster", "127.0.0.1:10911", "broker-a"),
    ),
    "member group": (headers.read_broker_member_group, headers.BrokerMemberGroup("DefaultCluster", "broker-a")),
    "lowest id changed": (
        headers.read_notify_min_broker_id,
        headers.NotifyMinBrokerIdChange(1, None, "127.0.0.1:10921", "127.0.0.1:10911", "127.0.0.1:10922"),
    ),
    "wipe write permission": (headers.read_broker_name, headers.BrokerNameOnly("broker-a")),
    "add write permission": (headers.read_broker_name, headers.BrokerNameOnly("broker-a")),
    "route": (headers.read_get_route_info, headers.GetRouteInfo("T1")),
    "route, standard JSON only, odd text": (headers.read_get_route_info, headers.GetRouteInfo(ODD, True)),
    "register one topic": (headers.read_topic_only, headers.TopicOnly("T1")),
    "delete a topic": (headers.read_delete_topic, headers.DeleteTopic("T1", "DefaultCluster")),
    "topics by cluster": (headers.read_cluster_only, headers.ClusterOnly("DefaultCluster")),
    "put kv": (headers.read_kv_key, headers.KvKey("ns", "k", ODD)),
    "get kv": (headers.read_kv_key, headers.KvKey("ns", "k")),
    "delete kv": (headers.read_kv_key, headers.KvKey("ns", "k")),
    "list kv": (headers.read_kv_namespace, headers.KvNamespace("ns")),
}
SINCE_5 = ("heartbeat", "member group", "lowest id changed", "register one topic")


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("form", BOTH_CODECS)
@pytest.mark.parametrize("name", TYPED)
def test_headers_become_typed_values(version: str, form: str, name: str) -> None:
    if version == V4 and name in SINCE_5:
        assert f"{name}, {form}" not in _frames(frames_path(version, "requests"))
        return
    read, expected = TYPED[name]
    assert read(_request(version, name, form)) == expected


def _request(version: str, name: str, form: str) -> Command:
    return _decode(_frames(frames_path(version, "requests"))[f"{name}, {form}"])


TOPICS = {
    "T1": TopicConfig("T1", 4, 4, 6, 0),
    "T2": TopicConfig("T2", 8, 2, 7, 3),
    "thème/日本": TopicConfig("thème/日本", 1, 1, 6, 0),
}
MAPPING = QueueMapping("broker-a", {0: 0, 5: 1}, False, 7, "__global__", "T1", 8)
FORMS = {
    "plain": Registration(DataVersion(5, 2, build.TIMESTAMP), TOPICS, {}, []),
    "with mappings and filter servers": Registration(
        DataVersion(5, 2, build.TIMESTAMP), TOPICS, {"T1": MAPPING}, ["127.0.0.1:30001"]
    ),
    "slave in a zone that may act as master": Registration(DataVersion(5, 2, build.TIMESTAMP), TOPICS, {}, []),
    "topic table alone": Registration(DataVersion(5, 0, build.TIMESTAMP), TOPICS, {}, None),
}
FORMS["compressed"] = msgspec.structs.replace(
    FORMS["with mappings and filter servers"],
    topics=TOPICS | {"T2": TopicConfig("T2", 8, 2, 7, 0)},  # the flag is not carried
)


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("form", BOTH_CODECS)
@pytest.mark.parametrize("name", FORMS)
def test_registrations_become_one_thing(version: str, form: str, name: str) -> None:
    command = _request(version, f"register, {name}", form)
    header = headers.read_register_broker(command)
    assert header.bodyCrc32 == zlib.crc32(command.body) & 0x7FFFFFFF
    sent_version = 0 if name == "topic table alone" else command.version
    found = decode_registration(command.body, sent_version, header.compressed)
    assert found == (FORMS[name] if version == V5 else _of_4_9(FORMS[name]))


def _of_4_9(registration: Registration) -> Registration:
    """4.9 has no state version and no mappings."""
    version = msgspec.structs.replace(registration.data_version, stateVersion=0)
    return msgspec.structs.replace(registration, data_version=version, queue_mappings={})


def test_a_registration_header_in_full() -> None:
    found = headers.read_register_broker(_request(V5, "register, slave in a zone that may act as master", "binary"))
    assert found == headers.RegisterBroker(
        brokerName="broker-a",
        brokerAddr="127.0.0.1:10911",
        clusterName="DefaultCluster",
        brokerId=1,
        haServerAddr="127.0.0.1:10912",
        heartbeatTimeoutMillis=10_000,
        enableActingMaster=True,
        compressed=False,
        bodyCrc32=found.bodyCrc32,
        zone="zone-1",
    )


@pytest.mark.parametrize("version", BOTH)
def test_a_real_brokers_registration(version: str) -> None:
    command = _decode(_frames(frames_path(version, "broker"))["register"])
    header = headers.read_register_broker(command)
    found = decode_registration(command.body, command.version, header.compressed)
    assert header.bodyCrc32 == zlib.crc32(command.body) & 0x7FFFFFFF
    assert found.topics["TBW102"] == TopicConfig("TBW102", 8, 8, 7, 0)
    assert {"broker-a", "DefaultCluster", "SCHEDULE_TOPIC_XXXX"} <= found.topics.keys()


BODIES: dict[int, Callable[[bytes], object]] = {
    build.ROUTE: decode_route,
    build.CLUSTER_INFO: lambda body: javajson.loads(body, WireClusterInfo),
    build.KV_LIST: lambda body: javajson.loads(body, KvTable),
    **dict.fromkeys((206, 224, 304, 311, 312, 313), lambda body: javajson.loads(body, WireTopicList)),
}


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("scenario", scenarios.ALL, ids=lambda scenario: scenario.name)
def test_bodies_of_answers_are_read(version: str, scenario: Scenario) -> None:
    if version not in scenario.versions:
        return
    frames = _frames(answers_path(version, scenario))
    for step in scenario.steps:
        if isinstance(step, Ask) and step.code in BODIES and step.name in frames and frames[step.name].body:
            assert _same(BODIES[step.code](frames[step.name].body), parsed(frames[step.name].body)), step.name


def _same(found: object, expected: dict[str, Any]) -> bool:
    """Every value that was sent is there, by the wire's names."""
    if isinstance(found, TopicRoute):
        return bool(as_4_9(parsed(encode(topic_route(found), standard=True))) == as_4_9(expected))
    wire = msgspec.to_builtins(found, str_keys=True)
    return all(_holds(wire[name], value) for name, value in expected.items())


def _holds(found: Any, expected: Any) -> bool:
    """`found` has everything of `expected`, in whatever order, and perhaps defaults besides."""
    if isinstance(expected, dict):
        return all(name in found and _holds(found[name], value) for name, value in expected.items())
    if isinstance(expected, list):
        return sorted(found, key=str) == sorted(expected, key=str)
    return bool(found == expected)


def test_a_brokers_table_is_written_as_apache_writes_it() -> None:
    frame = _frames(frames_path(V5, "broker"))["register"]
    table = msgspec.json.decode(frame.body)["topicConfigSerializeWrapper"]
    topics = msgspec.convert(table["topicConfigTable"], dict[str, model.TopicConfig])
    versions = [msgspec.convert(table[name], DataVersion) for name in ("dataVersion", "mappingDataVersion")]
    assert len(topics) > 5
    assert encode_topic_table(topics, *versions) == frame.body
