"""Bodies of the name server's answers, in both JSON dialects; fields in the order Apache writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from apogeemq.model.routes import BrokerGroup, QueueMapping, QueueSettings, TopicRoute
from apogeemq.protocol import javajson
from apogeemq.protocol.command import Int32, Int64

_encode = msgspec.json.Encoder().encode


def encode(value: Any, standard: bool) -> bytes:
    """Standard JSON has every key quoted; fastjson's dialect leaves number keys bare."""
    return _encode(value) if standard else javajson.dumps(value)


def broker_group(group: BrokerGroup) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "brokerAddrs": dict(sorted(group.addresses.items())),
        "brokerName": group.name,
        "cluster": group.cluster,
        "enableActingMaster": group.acting_master,
    }
    if group.zone is not None:
        wire["zoneName"] = group.zone
    return wire


def queue_data(broker_name: str, queues: QueueSettings) -> dict[str, Any]:
    return {
        "brokerName": broker_name,
        "perm": queues.perm,
        "readQueueNums": queues.read_queues,
        "topicSysFlag": queues.sys_flag,
        "writeQueueNums": queues.write_queues,
    }


def topic_route(route: TopicRoute) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "brokerDatas": [broker_group(group) for group in route.brokers],
        "filterServerTable": route.filter_servers,
    }
    if route.order_conf is not None:
        wire["orderTopicConf"] = route.order_conf
    wire["queueDatas"] = [queue_data(name, route.queues[name]) for name in sorted(route.queues)]
    if route.queue_mappings is not None:
        wire["topicQueueMappingByBroker"] = {
            name: {key: value for key, value in msgspec.structs.asdict(mapping).items() if value is not None}
            for name, mapping in route.queue_mappings.items()
        }
    return wire


def cluster_info(brokers: Mapping[str, BrokerGroup], clusters: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    return {
        "brokerAddrTable": {name: broker_group(group) for name, group in brokers.items()},
        "clusterAddrTable": {cluster: list(names) for cluster, names in clusters.items()},
    }


def topic_list(topics: Iterable[str], broker_address: str | None = None) -> dict[str, Any]:
    wire: dict[str, Any] = {} if broker_address is None else {"brokerAddr": broker_address}
    wire["topicList"] = list(topics)
    return wire


class WireBroker(msgspec.Struct):
    brokerAddrs: dict[Int64, str] = {}
    brokerName: str = ""
    cluster: str = ""
    enableActingMaster: bool = False
    zoneName: str | None = None


class WireQueue(msgspec.Struct):
    brokerName: str
    readQueueNums: Int32 = 0
    writeQueueNums: Int32 = 0
    perm: Int32 = 0
    topicSysFlag: Int32 = 0


class WireRoute(msgspec.Struct):
    brokerDatas: list[WireBroker] = []
    queueDatas: list[WireQueue] = []
    filterServerTable: dict[str, list[str] | None] | None = None
    orderTopicConf: str | None = None
    topicQueueMappingByBroker: dict[str, QueueMapping] | None = None


class WireClusterInfo(msgspec.Struct):
    brokerAddrTable: dict[str, WireBroker] = {}
    clusterAddrTable: dict[str, list[str]] = {}


class WireTopicList(msgspec.Struct):
    topicList: list[str] = []
    brokerAddr: str | None = None


class KvTable(msgspec.Struct):
    table: dict[str, str] = {}


def decode_route(body: bytes) -> TopicRoute:
    wire = javajson.loads(body, WireRoute)
    return TopicRoute(
        queues={queue.brokerName: wire_queue_settings(queue) for queue in wire.queueDatas},
        brokers=[
            BrokerGroup(
                broker.cluster, broker.brokerName, broker.brokerAddrs, broker.zoneName, broker.enableActingMaster
            )
            for broker in wire.brokerDatas
        ],
        filter_servers={address: servers or [] for address, servers in (wire.filterServerTable or {}).items()},
        queue_mappings=wire.topicQueueMappingByBroker,
        order_conf=wire.orderTopicConf,
    )


def wire_queue_settings(queue: WireQueue) -> QueueSettings:
    return QueueSettings(queue.readQueueNums, queue.writeQueueNums, queue.perm, queue.topicSysFlag)
