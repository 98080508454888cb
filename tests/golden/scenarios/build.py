"""Requests as brokers and clients send them, with fixed values."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tests.golden.steps import GO_CLIENT, Ask

PUT_KV, GET_KV, DELETE_KV = 100, 101, 102
REGISTER, UNREGISTER, ROUTE, CLUSTER_INFO = 103, 104, 105, 106
WIPE_WRITE, ALL_TOPICS, DELETE_TOPIC, REGISTER_TOPIC = 205, 206, 216, 217
KV_LIST, TOPICS_BY_CLUSTER, SYSTEM_TOPICS = 219, 224, 304
UNIT_TOPICS, UNIT_SUB_TOPICS, UNIT_SUB_UNUNIT_TOPICS = 311, 312, 313
UPDATE_CONFIG, GET_CONFIG, QUERY_DATA_VERSION, ADD_WRITE = 318, 319, 322, 327
MEMBER_GROUP, HEARTBEAT = 901, 904

T = TypeVar("T")

TIMESTAMP = 1_700_000_000_000
STATE = {"counter": 1, "stateVersion": 0, "timestamp": TIMESTAMP}


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def data_version(counter: int = 1, state: int = 0, timestamp: int = TIMESTAMP) -> dict[str, int]:
    return {"counter": counter, "stateVersion": state, "timestamp": timestamp}


def topic(name: str, *, read: int = 4, write: int = 4, perm: int = 6, flag: int = 0) -> dict[str, Any]:
    return {
        "attributes": {},
        "order": False,
        "perm": perm,
        "readQueueNums": read,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": flag,
        "writeQueueNums": write,
    }


def table(*topics: dict[str, Any] | str) -> dict[str, Any]:
    made = [topic(one) if isinstance(one, str) else one for one in topics]
    return {one["topicName"]: one for one in made}


def register_body(
    topics: Mapping[str, Any],
    version: Mapping[str, int] = STATE,
    *,
    filter_servers: Sequence[str] = (),
    mappings: Mapping[str, Any] | None = None,
) -> bytes:
    """The body of a 5.x broker, plain."""
    wrapper = {
        "dataVersion": version,
        "mappingDataVersion": data_version(0),
        "topicConfigTable": topics,
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": mappings or {},
    }
    return compact({"filterServerList": list(filter_servers), "topicConfigSerializeWrapper": wrapper})


def register_body_4(topics: Mapping[str, Any], counter: int = 1) -> bytes:
    """The body of a 4.9 broker, plain: no state version, no mappings, no attributes."""
    old = {name: {k: v for k, v in one.items() if k != "attributes"} for name, one in topics.items()}
    version = {"counter": counter, "timestamp": TIMESTAMP}
    wrapper = {"dataVersion": version, "topicConfigTable": old}
    return compact({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})


def register_body_compressed(topics: Sequence[str], *, mappings: Sequence[Mapping[str, Any]] | None = None) -> bytes:
    """The zlib form: version, topics as text, filter servers, and (5.x) the mappings."""
    parts = [_sized(compact(data_version())), struct.pack(">i", len(topics))]
    parts += [_sized(text.encode()) for text in topics]
    parts.append(_sized(b"[]"))
    if mappings is not None:
        parts.append(struct.pack(">i", len(mappings)))
        parts += [_sized(compact(one)) for one in mappings]
    return zlib.compress(b"".join(parts), 9)


def _sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def broker_fields(
    name: str = "broker-a", *, cluster: str = "cluster-a", broker_id: int = 0, port: int = 10911, **extra: str
) -> dict[str, str]:
    """The fields of a registration; a name given as `address` replaces the made-up one."""
    fields = {
        "brokerId": str(broker_id),
        "bodyCrc32": "0",
        "clusterName": cluster,
        "brokerAddr": f"127.0.0.1:{port}",
        "enableActingMaster": "false",
        "haServerAddr": f"127.0.0.1:{port + 1}",
        "compressed": "false",
        "brokerName": name,
    }
    return fields | extra


def without(fields: Mapping[str, T], *names: str) -> dict[str, T]:
    return {name: value for name, value in fields.items() if name not in names}


def register(step: str, fields: Mapping[str, str], body: bytes, **options: Any) -> Ask:
    """A registration with its CRC, unless the fields already name one."""
    crc = zlib.crc32(body) & 0x7FFFFFFF
    checked = {**fields, "bodyCrc32": str(crc)} if fields.get("bodyCrc32") == "0" else dict(fields)
    return Ask(step, REGISTER, checked, body, **options)


def identity(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields by which 104, 322 and 904 name a broker."""
    return {name: fields[name] for name in ("brokerName", "brokerAddr", "clusterName", "brokerId")}


def route(step: str, topic_name: str, **options: Any) -> Ask:
    """As a 5.5.0 client asks."""
    return Ask(step, ROUTE, {"topic": topic_name, "acceptStandardJsonOnly": "true"}, **options)


def route_old(step: str, topic_name: str, **options: Any) -> Ask:
    """As an old client asks, which reads only fastjson's dialect."""
    return Ask(step, ROUTE, {"topic": topic_name}, version=GO_CLIENT, **options)
