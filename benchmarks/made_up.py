"""Made-up clusters: the frames their brokers and clients send, and brokers that stay connected."""

from __future__ import annotations

import json
import zlib
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from benchmarks import wire

GET_ROUTE = 105
REGISTER_BROKER = 103
CLUSTER = "bench-cluster"
QUEUES = 4

Change = Literal["nothing", "one topic", "all topics"]


class Cluster(NamedTuple):
    """Every broker carries every topic, so a route names all brokers."""

    brokers: int
    topics: int

    def __str__(self) -> str:
        return f"{self.brokers}×{self.topics:,}"


def topic_name(index: int) -> str:
    """Fixed width: all routes of a cluster are then equally long."""
    return f"bench-topic-{index:05d}"


def broker_name(index: int) -> str:
    return f"bench-broker-{index:03d}"


def broker_address(index: int) -> str:
    return f"127.0.0.1:{20000 + 10 * index}"


def route_frames(cluster: Cluster, count: int, *, first: int = 0) -> list[bytes]:
    """Route queries as a Java 5.5.0 client sends them, going round all topics."""
    return [
        wire.encode(
            GET_ROUTE,
            {"topic": topic_name((first + i) % cluster.topics), "acceptStandardJsonOnly": "true"},
            opaque=wire.FIRST_OPAQUE + i,
        )
        for i in range(count)
    ]


def register_frame(
    cluster: Cluster, broker: int, *, variant: int = 0, change: Change = "nothing", opaque: int = 0
) -> bytes:
    """The registration of one 5.5.0 master: plain JSON body, checked by CRC."""
    body = _register_body(cluster, variant, change)
    fields = {
        "brokerId": "0",
        "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
        "clusterName": CLUSTER,
        "brokerAddr": broker_address(broker),
        "enableActingMaster": "false",
        "haServerAddr": f"127.0.0.1:{20001 + 10 * broker}",
        "compressed": "false",
        "brokerName": broker_name(broker),
    }
    return wire.encode(REGISTER_BROKER, fields, opaque=wire.FIRST_OPAQUE + opaque, body=body)


def queues_of(topic: int, variant: int, change: Change) -> int:
    """How many queues the topic has in that variant of the registration."""
    altered = change == "all topics" or (change == "one topic" and topic == 0)
    return QUEUES + variant % 5 if altered else QUEUES


def _register_body(cluster: Cluster, variant: int, change: Change) -> bytes:
    version = {
        "counter": 1_000 + (0 if change == "nothing" else variant),
        "stateVersion": 0,
        "timestamp": 1_700_000_000_000,
    }
    table = {topic_name(i): _topic(i, queues_of(i, variant, change)) for i in range(cluster.topics)}
    wrapper = {
        "dataVersion": version,
        "mappingDataVersion": version | {"counter": 0},
        "topicConfigTable": table,
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    body = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}
    return json.dumps(body, separators=(",", ":")).encode()


def _topic(index: int, queues: int) -> dict[str, Any]:
    return {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic_name(index),
        "topicSysFlag": 0,
        "writeQueueNums": queues,
    }


class Brokers:
    """The cluster's brokers, registered and connected for as long as the block lasts."""

    def __init__(self, cluster: Cluster, address: tuple[str, int]) -> None:
        self._frames = [register_frame(cluster, i) for i in range(cluster.brokers)]
        self._sockets = [wire.connect(*address) for _ in self._frames]
        self.register()

    def register(self) -> None:
        """What each broker does every 30 s: the whole table again."""
        for sock, frame in zip(self._sockets, self._frames, strict=True):
            wire.ask(sock, frame)

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def brokers_in(answer: wire.Answer) -> set[str]:
    """Names of the brokers that a route answer gives queues of."""
    return {data["brokerName"] for data in json.loads(answer.body)["queueDatas"]}


def check_route(answer: wire.Answer, cluster: Cluster, queues: int | None = QUEUES) -> None:
    """Refuse to measure a server whose answer is not the cluster's route."""
    route = json.loads(answer.body)
    addresses = {data["brokerName"]: data["brokerAddrs"] for data in route["brokerDatas"]}
    expected = {broker_name(i): {"0": broker_address(i)} for i in range(cluster.brokers)}
    assert addresses == expected, route
    assert brokers_in(answer) == set(expected), route
    if queues is not None:
        seen = {(data["readQueueNums"], data["writeQueueNums"]) for data in route["queueDatas"]}
        assert seen == {(queues, queues)}, route
