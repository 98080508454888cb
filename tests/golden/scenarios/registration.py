"""One broker's life: registrations accepted and refused, and what routes say afterwards."""

from __future__ import annotations

from tests.golden.scenarios.build import (
    ADD_WRITE,
    ALL_TOPICS,
    CLUSTER_INFO,
    DELETE_TOPIC,
    HEARTBEAT,
    MEMBER_GROUP,
    QUERY_DATA_VERSION,
    REGISTER_TOPIC,
    ROUTE,
    SYSTEM_TOPICS,
    TOPICS_BY_CLUSTER,
    UNIT_SUB_TOPICS,
    UNIT_SUB_UNUNIT_TOPICS,
    UNIT_TOPICS,
    UNREGISTER,
    WIPE_WRITE,
    broker_fields,
    compact,
    data_version,
    identity,
    register,
    register_body,
    route,
    route_old,
    table,
    topic,
)
from tests.golden.steps import GO_CLIENT, V4, Ask, Close, Scenario

A = broker_fields()
TWO = table("T1", topic("T2", read=8, write=2, perm=7))


def _version(step: str, counter: int) -> Ask:
    return Ask(step, QUERY_DATA_VERSION, identity(A), compact(data_version(counter)))


def _new_topic(step: str, name: str, broker: str, **options: int) -> Ask:
    queues = topic(name, **options)
    data = {key: queues[key] for key in ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag")}
    body = compact({"brokerDatas": [], "filterServerTable": {}, "queueDatas": [{"brokerName": broker, **data}]})
    return Ask(step, REGISTER_TOPIC, {"topic": name}, body, silent=(V4,))


EMPTY = Scenario(
    "empty",
    "every question to a name server that knows nothing",
    [
        route("route", "T1"),
        route_old("route, old client", "T1"),
        Ask("route without a topic", ROUTE),
        Ask("cluster info", CLUSTER_INFO),
        Ask("all topics", ALL_TOPICS),
        Ask("topics by cluster", TOPICS_BY_CLUSTER, {"cluster": "none"}),
        Ask("topics by cluster without a cluster", TOPICS_BY_CLUSTER),
        Ask("system topics", SYSTEM_TOPICS),
        Ask("unit topics", UNIT_TOPICS),
        Ask("unit-sub topics", UNIT_SUB_TOPICS),
        Ask("unit-sub topics of no unit", UNIT_SUB_UNUNIT_TOPICS),
        _version("data version", 1),
        Ask("data version without a body", QUERY_DATA_VERSION, identity(A)),
        Ask("member group", MEMBER_GROUP, {"clusterName": "c", "brokerName": "b"}, silent=(V4,)),
        Ask("heartbeat", HEARTBEAT, identity(A), silent=(V4,)),
        Ask("unregister", UNREGISTER, identity(A)),
        Ask("wipe write permission", WIPE_WRITE, {"brokerName": "b"}),
        Ask("wipe write permission of nobody", WIPE_WRITE),
        Ask("add write permission", ADD_WRITE, {"brokerName": "b"}),
        Ask("add write permission of nobody", ADD_WRITE),
        Ask("delete a topic", DELETE_TOPIC, {"topic": "T1"}),
        Ask("delete a topic of a cluster", DELETE_TOPIC, {"topic": "T1", "clusterName": "none"}),
        Ask("delete no topic", DELETE_TOPIC),
        _new_topic("register a topic of an unknown broker", "T9", "nobody"),
        Ask("all topics again", ALL_TOPICS),
    ],
)

ONE_BROKER = Scenario(
    "one-broker",
    "a master registers, changes its topics, and leaves",
    [
        register("register", A, register_body(TWO)),
        route("route", "T1"),
        route_old("route, old client", "T1"),
        Ask(
            "route, old client that accepts only standard JSON",
            ROUTE,
            {"topic": "T1", "acceptStandardJsonOnly": "true"},
            version=GO_CLIENT,
        ),
        Ask("route, new client that says nothing", ROUTE, {"topic": "T1"}),
        Ask("route, new client that takes any JSON", ROUTE, {"topic": "T1", "acceptStandardJsonOnly": "false"}),
        Ask("route, first version with standard JSON", ROUTE, {"topic": "T1"}, version=401),
        Ask("route, last version without", ROUTE, {"topic": "T1"}, version=400),
        route("route of the other topic", "T2"),
        route("route of an unknown topic", "T3"),
        Ask("cluster info", CLUSTER_INFO),
        Ask("cluster info, old client", CLUSTER_INFO, version=GO_CLIENT),
        Ask("all topics", ALL_TOPICS),
        Ask("topics by cluster", TOPICS_BY_CLUSTER, {"cluster": "cluster-a"}),
        Ask("topics by unknown cluster", TOPICS_BY_CLUSTER, {"cluster": "cluster-b"}),
        Ask("system topics", SYSTEM_TOPICS),
        Ask("member group", MEMBER_GROUP, {"clusterName": "cluster-a", "brokerName": "broker-a"}, silent=(V4,)),
        Ask(
            "member group by another cluster",
            MEMBER_GROUP,
            {"clusterName": "x", "brokerName": "broker-a"},
            silent=(V4,),
        ),
        Ask("member group without names", MEMBER_GROUP, silent=(V4,)),
        Ask("heartbeat", HEARTBEAT, identity(A), silent=(V4,)),
        _version("data version, the same", 1),
        _version("data version, another", 2),
        register("register other queues, same version", A, register_body(table(topic("T1", read=16), "T2"))),
        route("route is as before", "T1"),
        register("register a new topic, same version", A, register_body(table("T1", "T2", "T3"))),
        route("route of the new topic", "T3"),
        register(
            "register other queues, next version", A, register_body(table(topic("T1", read=16), "T2"), data_version(2))
        ),
        route("route has changed", "T1"),
        route("route of a topic no longer named", "T3"),
        Ask("wipe write permission", WIPE_WRITE, {"brokerName": "broker-a"}),
        route("route without write permission", "T1"),
        register(
            "register after the wipe, same version",
            A,
            register_body(table(topic("T1", read=16), "T2"), data_version(2)),
        ),
        route("route still without write permission", "T1"),
        Ask("add write permission", ADD_WRITE, {"brokerName": "broker-a"}),
        route("route with write permission", "T1"),
        register(
            "register a topic with inherit bit",
            A,
            register_body(table(topic("T1", perm=7), topic("T2", perm=4)), data_version(3)),
        ),
        Ask("wipe write permission of inherit", WIPE_WRITE, {"brokerName": "broker-a"}),
        route("route of inherit, wiped", "T1"),
        Ask("add write permission to inherit", ADD_WRITE, {"brokerName": "broker-a"}),
        route("route of inherit, added", "T1"),
        route("route of read-only, added", "T2"),
        _new_topic("register one topic", "T4", "broker-a", read=3, write=5, perm=2),
        route("route of the one topic", "T4"),
        _new_topic("register one topic again, changed", "T4", "broker-a", read=9),
        route("route of the one topic, changed", "T4"),
        _new_topic("register one topic of an unknown broker", "T5", "nobody"),
        route("route of an unknown broker's topic", "T5"),
        Ask("register a topic without a body", REGISTER_TOPIC, {"topic": "T6"}, silent=(V4,)),
        Ask("register a topic with a bad body", REGISTER_TOPIC, {"topic": "T6"}, b"no json", silent=(V4,)),
        Ask("delete a topic of another cluster", DELETE_TOPIC, {"topic": "T2", "clusterName": "cluster-b"}),
        route("route of a topic not deleted", "T2"),
        Ask("delete a topic of its cluster", DELETE_TOPIC, {"topic": "T2", "clusterName": "cluster-a"}),
        route("route of a topic deleted", "T2"),
        Ask("delete a topic everywhere", DELETE_TOPIC, {"topic": "T1"}),
        route("route of a topic deleted everywhere", "T1"),
        Ask("all topics at last", ALL_TOPICS, until_code=0),
        Ask("unregister by a wrong address", UNREGISTER, identity(A) | {"brokerAddr": "127.0.0.1:1"}),
        Ask("member group is whole", CLUSTER_INFO),
        Ask("unregister", UNREGISTER, identity(A)),
        route("route after leaving", "T3", until_code=17),
        Ask("cluster info after leaving", CLUSTER_INFO),
        Ask("all topics after leaving", ALL_TOPICS),
    ],
)

CONNECTIONS = Scenario(
    "connections",
    "a broker belongs to the connection of its last registration",
    [
        register("register on the first connection", A, register_body(TWO), on="first"),
        register("register on the second connection", A, register_body(TWO), on="second"),
        register(
            "another broker on the third",
            broker_fields("broker-b", port=10921),
            register_body(table("T1", "T3")),
            on="third",
        ),
        Close("first"),
        Close("third"),
        route("route of the broker whose connection is gone", "T3", until_code=17),
        route("route of the broker whose old connection is gone", "T2"),
        Close("second"),
        route("route after the last connection is gone", "T2", until_code=17),
        Ask("cluster info", CLUSTER_INFO),
    ],
)
