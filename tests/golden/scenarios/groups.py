"""Several brokers: masters, slaves, acting masters, zones, units, notices to brokers."""

from __future__ import annotations

from typing import Any

from tests.golden.scenarios.build import (
    CLUSTER_INFO,
    MEMBER_GROUP,
    ROUTE,
    UNIT_SUB_TOPICS,
    UNIT_SUB_UNUNIT_TOPICS,
    UNIT_TOPICS,
    UNREGISTER,
    broker_fields,
    data_version,
    identity,
    register,
    register_body,
    route,
    route_old,
    table,
    topic,
    without,
)
from tests.golden.steps import GO_CLIENT, JAVA_4_9_7, ONLY_5, V4, Ask, Close, Hear, Scenario

TWO = table("T1", "T2")
MASTER = broker_fields("group-a", port=10911)
SLAVE_1 = broker_fields("group-a", broker_id=1, port=10921)
SLAVE_2 = broker_fields("group-a", broker_id=2, port=10931)


def _members(step: str, **options: Any) -> Ask:
    names = {"clusterName": "cluster-a", "brokerName": "group-a"}
    return Ask(step, MEMBER_GROUP, names, silent=(V4,), **options)


SLAVES = Scenario(
    "slaves",
    "a group of three: who is told of the master, whose topics count, ids that change hands",
    [
        register("slave 2 comes first", SLAVE_2, register_body(TWO)),
        route("route through the only slave", "T1"),
        _members("members, one slave"),
        register("slave 1 comes, lower id", SLAVE_1, register_body(table(topic("T1", read=2), "T2"), data_version(5))),
        route("route through the lower slave", "T1"),
        register("the master comes", MASTER, register_body(table(topic("T1", read=3), "T2"), data_version(9))),
        register("slave 1 again", SLAVE_1, register_body(table(topic("T1", read=7), "T2", "T3"), data_version(6))),
        route("a slave's topics do not count beside the master's", "T1"),
        route("nor a topic of its own", "T3"),
        _members("members, three"),
        Ask("cluster info", CLUSTER_INFO),
        route_old("route, old client", "T1"),
        register("an old slave", without(SLAVE_2, "enableActingMaster"), register_body(TWO), version=JAVA_4_9_7),
        register(
            "slave 1 becomes master at its address", SLAVE_1 | {"brokerId": "0"}, register_body(TWO, data_version(10))
        ),
        _members("members after the switch"),
        register("the old master returns as slave 1", MASTER | {"brokerId": "1"}, register_body(TWO, data_version(9))),
        _members("members after the return"),
        register(
            "an outdated master elsewhere",
            broker_fields("group-a", port=10941),
            register_body(TWO, data_version(1, state=-1)),
        ),
        _members("members after the outdated master"),
        register(
            "a newer master elsewhere",
            broker_fields("group-a", port=10951),
            register_body(TWO, data_version(1, state=1)),
        ),
        _members("members after the newer master"),
        Ask("unregister the master", UNREGISTER, identity(broker_fields("group-a", port=10951))),
        Ask("members without a master", CLUSTER_INFO, until_body=b'{"brokerAddrs":{1:'),
        route("route without a master", "T1"),
    ],
)

OLD_SLAVES = Scenario(
    "old-slaves",
    "slaves of 4.9, whose topics never count",
    [
        register(
            "slave before its master", without(SLAVE_1, "enableActingMaster"), register_body(TWO), version=JAVA_4_9_7
        ),
        route("no route through it", "T1"),
        Ask("cluster info", CLUSTER_INFO),
        register("the master", without(MASTER, "enableActingMaster"), register_body(TWO), version=JAVA_4_9_7),
        register("the slave again", without(SLAVE_1, "enableActingMaster"), register_body(TWO), version=JAVA_4_9_7),
        route("route", "T1"),
    ],
)

_ACTING = {"enableActingMaster": "true", "heartbeatTimeoutMillis": "600000"}

ACTING_MASTER = Scenario(
    "acting-master",
    "a slave stands in for its master, where the name server supports it",
    [
        register("master", MASTER | _ACTING, register_body(TWO), on="master"),
        register("slave 1", SLAVE_1 | _ACTING, register_body(TWO), on="slave"),
        register("slave 2", SLAVE_2 | _ACTING, register_body(TWO), on="slave"),
        route("route with a master", "T1"),
        Close("master"),
        route("route with an acting master", "T1", until_body=b'"perm":4'),
        route_old("route with an acting master, old client", "T1"),
        Ask("cluster info keeps the true id", CLUSTER_INFO),
        _members("members keep the true id"),
        register("slave 1 again", SLAVE_1 | _ACTING, register_body(TWO, data_version(2)), on="slave"),
        route("route after the slave's registration", "T2"),
        register(
            "a system topic",
            SLAVE_1 | _ACTING,
            register_body(table("T1", "rmq_sys_SYNC_BROKER_MEMBER_group-a"), data_version(3)),
            on="slave",
        ),
        route("route of the member topic", "rmq_sys_SYNC_BROKER_MEMBER_group-a"),
        register("the master is back", MASTER | _ACTING, register_body(TWO, data_version(4)), on="master"),
        route("route with the master back", "T1"),
    ],
    properties={"supportActingMaster": "true"},
    versions=ONLY_5,
)

ACTING_MASTER_UNSUPPORTED = Scenario(
    "acting-master-unsupported",
    "the same brokers at a name server with its defaults",
    [
        register("master", MASTER | _ACTING, register_body(TWO), on="master"),
        register("slave 1", SLAVE_1 | _ACTING, register_body(TWO), on="slave"),
        Close("master"),
        route("route without a master", "T1", until_body=b'"perm":4'),
    ],
    versions=ONLY_5,
)

ZONES = Scenario(
    "zones",
    "clients that want the brokers of their own zone",
    [
        register("broker in zone 1", broker_fields("z1", port=10101, __ZONE_NAME="Zone1"), register_body(TWO)),
        register("broker in zone 2", broker_fields("z2", port=10201, __ZONE_NAME="zone2"), register_body(TWO)),
        register("broker in no zone", broker_fields("z0", port=10301), register_body(TWO)),
        register(
            "a slave alone in zone 2",
            broker_fields("z3", broker_id=1, port=10401, __ZONE_NAME="zone2"),
            register_body(TWO),
        ),
        route("route without a zone", "T1"),
        *(
            Ask(f"route {label}", ROUTE, {"topic": "T1", "acceptStandardJsonOnly": "true", **zone})
            for label, zone in {
                "in zone 1": {"__ZONE_MODE": "true", "__ZONE_NAME": "zone1"},
                "in zone 2": {"__ZONE_MODE": "true", "__ZONE_NAME": "ZONE2"},
                "in a zone of nobody": {"__ZONE_MODE": "true", "__ZONE_NAME": "zone9"},
                "in a blank zone": {"__ZONE_MODE": "true", "__ZONE_NAME": " "},
                "in zone mode without a zone": {"__ZONE_MODE": "true"},
                "with zone mode off": {"__ZONE_MODE": "false", "__ZONE_NAME": "zone1"},
            }.items()
        ),
        Ask(
            "route in zone 1, old client",
            ROUTE,
            {"topic": "T1", "__ZONE_MODE": "true", "__ZONE_NAME": "zone1"},
            version=GO_CLIENT,
        ),
        Ask(
            "route of an unknown topic in zone 1", ROUTE, {"topic": "T9", "__ZONE_MODE": "true", "__ZONE_NAME": "zone1"}
        ),
        Ask("cluster info", CLUSTER_INFO),
        register("the broker leaves its zone", broker_fields("z1", port=10101), register_body(TWO)),
        route("route after that", "T1"),
    ],
    versions=ONLY_5,
)

UNITS = Scenario(
    "units",
    "topics of units: the flag 1 is a unit's, 2 is subscribed by one",
    [
        register(
            "register",
            MASTER,
            register_body(
                table(topic("plain"), topic("unit", flag=1), topic("sub", flag=2), topic("unit-sub", flag=3))
            ),
        ),
        Ask("unit topics", UNIT_TOPICS),
        Ask("unit-sub topics", UNIT_SUB_TOPICS),
        Ask("unit-sub topics of no unit", UNIT_SUB_UNUNIT_TOPICS),
        route("route of a unit's topic", "unit-sub"),
    ],
)


def _listening(broker_id: int) -> dict[str, str]:
    address = {"brokerAddr": f"{{broker{broker_id}}}", **_ACTING}
    return broker_fields("group-a", broker_id=broker_id, port=10911 + 10 * broker_id) | address


NOTICES = Scenario(
    "notices",
    "brokers of a group are told when the lowest id changes",
    [
        register("slave 2 comes first", _listening(2), register_body(TWO)),
        register("slave 1 comes", _listening(1), register_body(TWO)),
        Hear("slave 2 hears of slave 1", at=2),
        register("the master comes", _listening(0), register_body(TWO)),
        Hear("slave 1 hears of the master", at=1),
        Hear("slave 2 hears of the master", at=2),
        Ask("unregister the master", UNREGISTER, identity(_listening(0))),
        Hear("slave 1 hears that the master left", at=1),
        Hear("slave 2 hears that the master left", at=2),
        Ask("unregister slave 2", UNREGISTER, identity(_listening(2))),
        Ask("cluster info", CLUSTER_INFO, until_body=b'"brokerAddrs":{1:"{broker1}"}'),
        Ask("unregister slave 1", UNREGISTER, identity(_listening(1))),
        route("route after all have left", "T1", until_code=17),
    ],
    properties={"notifyMinBrokerIdChanged": "true"},
    versions=ONLY_5,
    listeners=3,
)
