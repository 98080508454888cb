"""What configuration changes, and configuration itself."""

from __future__ import annotations

from tests.golden.scenarios.build import (
    ALL_TOPICS,
    CLUSTER_INFO,
    GET_CONFIG,
    KV_LIST,
    PUT_KV,
    SYSTEM_TOPICS,
    TOPICS_BY_CLUSTER,
    UPDATE_CONFIG,
    broker_fields,
    data_version,
    register,
    register_body,
    route,
    route_old,
    table,
    topic,
)
from tests.golden.scenarios.kv import ODD_TEXT
from tests.golden.steps import ONLY_5, Ask, Scenario

A = broker_fields()
TWO = table("T1", "T2")
ORDER = "ORDER_TOPIC_CONFIG"


def _put(step: str, key: str, value: str) -> Ask:
    return Ask(step, PUT_KV, {"namespace": ORDER, "key": key, "value": value})


_ORDER_STEPS = [
    register("register before any order conf", A, register_body(TWO)),
    _put("put an order conf", "T1", "broker-a:4;broker-b:4"),
    _put("put an order conf with odd text", "T2", ODD_TEXT),
    register("register, and get the order conf", A, register_body(TWO)),
    Ask("list the order conf", KV_LIST, {"namespace": ORDER}),
    route("route", "T1"),
    route_old("route, old client", "T1"),
    route("route, odd text", "T2"),
    route_old("route, odd text, old client", "T2"),
    route("route of an unknown topic", "T3"),
]

ORDER_CONF = Scenario(
    "order-conf", "order topics, switched on", _ORDER_STEPS, properties={"orderMessageEnable": "true"}
)
ORDER_CONF_OFF = Scenario("order-conf-off", "order topics, at the defaults", _ORDER_STEPS)
ORDER_CONF_NOT_RETURNED = Scenario(
    "order-conf-not-returned",
    "order topics that brokers are not told of",
    [_put("put", "T1", "broker-a:4"), register("register", A, register_body(TWO))],
    properties={"returnOrderTopicConfigToBroker": "false"},
)

LISTS_DISABLED = Scenario(
    "lists-disabled",
    "topic lists switched off",
    [
        register("register", A, register_body(TWO)),
        Ask("all topics", ALL_TOPICS),
        Ask("topics by cluster", TOPICS_BY_CLUSTER, {"cluster": "cluster-a"}),
        Ask("system topics", SYSTEM_TOPICS),
        *(Ask(f"unit topics {code}", code) for code in (311, 312, 313)),
    ],
    properties={"enableAllTopicList": "false", "enableTopicList": "false"},
    versions=ONLY_5,
)

NOT_READY = Scenario(
    "not-ready",
    "a name server that waits for its brokers before it answers routes",
    [register("register", A, register_body(TWO)), route("route too early", "T1"), Ask("cluster info", CLUSTER_INFO)],
    properties={"needWaitForService": "true", "waitSecondsForService": "3600"},
    versions=ONLY_5,
)

DELETE_WITH_REGISTRATION = Scenario(
    "delete-with-registration",
    "topics that a registration no longer names are dropped",
    [
        register("register two", A, register_body(TWO)),
        register("another broker", broker_fields("broker-b", port=10921), register_body(TWO)),
        register("register others, same version", A, register_body(table("T1", "T3"))),
        route("route of the dropped topic", "T2"),
        register("register others, next version", A, register_body(table("T1", "T4"), data_version(2))),
        route("route of the dropped topic, next version", "T3"),
        Ask("all topics", ALL_TOPICS),
    ],
    properties={"deleteTopicWithBrokerRegistration": "true"},
    versions=ONLY_5,
)

CONFIG = Scenario(
    "config",
    "the name server's configuration, read and changed at run time",
    [
        Ask("get", GET_CONFIG),
        Ask("update without a body", UPDATE_CONFIG),
        Ask("update nothing", UPDATE_CONFIG, body=b"# only a comment\n"),
        Ask("update text that is no properties", UPDATE_CONFIG, body=b"\x00\xff"),
        Ask("update an unknown key", UPDATE_CONFIG, body=b"noSuchKey=1\n"),
        Ask("update", UPDATE_CONFIG, body=b"orderMessageEnable=true\nserverChannelMaxIdleTimeSeconds=99\n"),
        Ask("get after the update", GET_CONFIG),
        Ask("update a path", UPDATE_CONFIG, body=b"kvConfigPath=/tmp/x\n"),
        Ask("update a path beside another key", UPDATE_CONFIG, body=b"clusterTest=true\nconfigStorePath=/tmp/x\n"),
        Ask("update the black list", UPDATE_CONFIG, body=b"configBlackList=\n"),
        Ask("update the home", UPDATE_CONFIG, body=b"rocketmqHome=/tmp/x\n"),
        Ask("update a number to text", UPDATE_CONFIG, body=b"unRegisterBrokerQueueCapacity=many\n"),
        Ask("get at last", GET_CONFIG),
    ],
)

_ODD_NAMES = table(
    "wörter/日本",
    topic("q\"'<b>&\\"),
    topic("line\u2028sep\u2029"),
    topic("ctl\u0001\u001f\u007f\u0085"),
    topic("\U0001f680"),
)
_ODD_BROKER = broker_fields('brök"er/<1>', cluster="clüster \u2028 '\U0001f680'")

NAMES = Scenario(
    "names",
    "names that are not ASCII, or need escapes",
    [
        register("register", _ODD_BROKER, register_body(_ODD_NAMES)),
        *(route(f"route {number}", name) for number, name in enumerate(_ODD_NAMES)),
        *(route_old(f"route {number}, old client", name) for number, name in enumerate(_ODD_NAMES)),
        route("route of an unknown topic", 'nö"t/\u2028<here>\U0001f680'),
        Ask("cluster info", CLUSTER_INFO),
        Ask("all topics", ALL_TOPICS),
        Ask("topics by cluster", TOPICS_BY_CLUSTER, {"cluster": "clüster \u2028 '\U0001f680'"}),
        Ask("system topics", SYSTEM_TOPICS),
        Ask("member group", 901, {"clusterName": "clüster", "brokerName": 'brök"er/<1>'}, silent=("4.9.7",)),
    ],
)


def _mapping(name: str, broker: str, **ids: int) -> dict[str, object]:
    current = {key.removeprefix("q"): value for key, value in ids.items()}
    return {
        "bname": broker,
        "currIdMap": current,
        "dirty": False,
        "epoch": 7,
        "scope": "__global__",
        "topic": name,
        "totalQueues": 4,
    }


_B = broker_fields("broker-b", port=10921)

STATIC_TOPICS = Scenario(
    "static-topics",
    "topics whose logical queues are mapped to brokers, and filter servers",
    [
        register("broker a", A, register_body(TWO, mappings={"T1": _mapping("T1", "broker-a", q0=0, q1=1)})),
        register(
            "broker b",
            _B,
            register_body(
                TWO,
                mappings={"T1": _mapping("T1", "broker-b", q2=0, q3=1)},
                filter_servers=["127.0.0.1:1", "127.0.0.1:2"],
            ),
        ),
        route("route", "T1"),
        route_old("route, old client", "T1"),
        route("route of a topic without mapping", "T2"),
        route_old("route of a topic without mapping, old client", "T2"),
        register("broker b without filter servers", _B, register_body(TWO)),
        route("route after that", "T2"),
    ],
    versions=ONLY_5,
)

FILTER_SERVERS = Scenario(
    "filter-servers",
    "filter servers, as brokers of old had them",
    [
        register("register", A, register_body(TWO, filter_servers=["127.0.0.1:1"])),
        route("route", "T1"),
        route_old("route, old client", "T1"),
        register("register without", A, register_body(TWO)),
        route("route without", "T1"),
    ],
)
