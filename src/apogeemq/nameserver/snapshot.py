"""The routes of the last run, so that a restarted name server can answer before brokers have come back.

The file `routes.json` in the data folder, written whole and atomically::

    {"version": 1, "sequence": N,                     last journal number when it was taken
     "brokers": [[cluster, address, name, id, ha address or null, acting master, zone or null,
                  [counter, state version, timestamp]], …],
     "topics": {topic: {broker name: [read queues, write queues, perm, system flag]}},
     "mappings": {topic: {broker name: {…}}}}

Pure: bytes from a table, a table's state from bytes. A file that cannot be read is an error with a reason; the
server then starts empty, as Apache's does.
"""

from __future__ import annotations

import msgspec

from apogeemq.errors import StorageFailed
from apogeemq.model.routes import BrokerGroup, DataVersion, QueueMapping, QueueSettings
from apogeemq.nameserver.route_table import RESTORED, LiveBroker, RouteTable

FORMAT_VERSION = 1


class SavedBroker(msgspec.Struct, array_like=True):
    cluster: str
    address: str
    name: str
    broker_id: int
    ha_address: str | None
    acting_master: bool
    zone: str | None
    data_version: tuple[int, int, int]


class SavedRoutes(msgspec.Struct):
    version: int = FORMAT_VERSION
    sequence: int = 0
    brokers: list[SavedBroker] = []
    topics: dict[str, dict[str, QueueSettings]] = {}
    mappings: dict[str, dict[str, QueueMapping]] = {}


def encode_snapshot(table: RouteTable, sequence: int) -> bytes:
    brokers = []
    for (cluster, address), live in table.live.items():
        group = table.brokers[live.name]
        version = live.data_version
        brokers.append(
            SavedBroker(
                cluster,
                address,
                live.name,
                live.broker_id,
                live.ha_address,
                group.acting_master,
                group.zone,
                (version.counter, version.stateVersion, version.timestamp),
            )
        )
    return msgspec.json.encode(SavedRoutes(FORMAT_VERSION, sequence, brokers, table.topics, table.queue_mappings))


def decode_snapshot(data: bytes) -> SavedRoutes:
    try:
        saved = msgspec.json.decode(data, type=SavedRoutes)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise StorageFailed(f"not a route snapshot: {error}") from None
    if saved.version != FORMAT_VERSION:
        raise StorageFailed(f"a route snapshot of format {saved.version}; this name server reads {FORMAT_VERSION}")
    return saved


def restore(table: RouteTable, saved: SavedRoutes, now_ms: int, serve_ms: int) -> None:
    """Fill an empty table. The brokers are marked as restored and stay for `serve_ms` unless they register."""
    for broker in saved.brokers:
        group = table.brokers.setdefault(broker.name, BrokerGroup(broker.cluster, broker.name, {}))
        if broker.broker_id in group.addresses:
            continue
        group.addresses[broker.broker_id] = broker.address
        group.acting_master, group.zone = broker.acting_master, broker.zone
        table.clusters.setdefault(broker.cluster, {})[broker.name] = None
        counter, state_version, timestamp = broker.data_version
        live = LiveBroker(
            broker.name,
            broker.broker_id,
            DataVersion(counter, state_version, timestamp),
            now_ms,
            serve_ms,
            broker.ha_address,
        )
        table.add_live((broker.cluster, broker.address), live, RESTORED)
    for topic, queues in saved.topics.items():
        known = {name: table.shared(settings) for name, settings in queues.items() if name in table.brokers}
        if known:
            table.topics[topic] = known
    table.queue_mappings.update(saved.mappings)
