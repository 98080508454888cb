"""Registrations for tests of the pure modules: one call, with defaults that are an ordinary master of 5.x."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apogeemq.model.routes import DataVersion, QueueMapping
from apogeemq.nameserver.registering import Registered, register
from apogeemq.nameserver.route_table import RouteTable
from apogeemq.protocol.bodies.registration import Registration, TopicConfig
from apogeemq.protocol.headers.nameserver import RegisterBroker

TWO_TOPICS = ("TopicA", "TopicB")


def topic(name: str, *, read: int = 4, write: int = 4, perm: int = 6, flag: int = 0) -> TopicConfig:
    return TopicConfig(name, read, write, perm, flag)


def topic_table(topics: Sequence[str | TopicConfig]) -> dict[str, TopicConfig]:
    made = [topic(one) if isinstance(one, str) else one for one in topics]
    return {one.topicName or "": one for one in made}


def data_version(counter: int = 1, state: int = 0) -> DataVersion:
    return DataVersion(counter, state, 1_700_000_000_000 + counter)


def broker_header(
    name: str = "broker-a",
    broker_id: int = 0,
    *,
    cluster: str = "c1",
    address: str | None = None,
    ha_address: str | None = None,
    timeout_ms: int | None = None,
    acting: bool | None = False,
    zone: str | None = None,
) -> RegisterBroker:
    return RegisterBroker(
        name,
        address or address_of(name, broker_id),
        cluster,
        broker_id,
        ha_address,
        heartbeatTimeoutMillis=timeout_ms,
        enableActingMaster=acting,
        zone=zone,
    )


def address_of(name: str, broker_id: int = 0) -> str:
    return f"{name}-{broker_id}:10911"


def join(
    table: RouteTable,
    name: str = "broker-a",
    broker_id: int = 0,
    topics: Sequence[str | TopicConfig] = TWO_TOPICS,
    *,
    version: int = 1,
    state: int = 0,
    connection: int = 1,
    now_ms: int = 0,
    cluster: str = "c1",
    address: str | None = None,
    ha_address: str | None = None,
    timeout_ms: int | None = None,
    acting: bool | None = False,
    zone: str | None = None,
    filter_servers: list[str] | None = None,
    mappings: Mapping[str, QueueMapping] | None = None,
    delete_missing_topics: bool = False,
) -> Registered:
    """Register a broker; its data version is `version` with the given state version."""
    header = broker_header(
        name,
        broker_id,
        cluster=cluster,
        address=address,
        ha_address=ha_address,
        timeout_ms=timeout_ms,
        acting=acting,
        zone=zone,
    )
    said = Registration(data_version(version, state), topic_table(topics), dict(mappings or {}), filter_servers)
    return register(table, header, said, connection, now_ms, delete_missing_topics=delete_missing_topics)


def perms(table: RouteTable, name: str = "broker-a") -> dict[str, int]:
    """Topic to permission, of one broker name."""
    return {topic: queues[name].perm for topic, queues in table.topics.items() if name in queues}
