"""Questions to the route table."""

from __future__ import annotations

from apogeemq.model.routes import BrokerGroup, QueueMapping, QueueSettings, TopicRoute
from apogeemq.model.topics import FLAG_UNIT, FLAG_UNIT_SUB
from apogeemq.nameserver import route_queries
from apogeemq.nameserver.route_queries import find_route, within_zone
from apogeemq.nameserver.route_table import RouteTable
from apogeemq.nameserver.snapshot import decode_snapshot, encode_snapshot, restore
from tests.unit.nameserver.joining import address_of, join, topic


def route_of(table: RouteTable, topic: str, *, acting: bool = False) -> TopicRoute:
    route = find_route(table, topic, support_acting_master=acting)
    assert route is not None
    return route


def test_route_names_brokers_in_order_whoever_came_first() -> None:
    table = RouteTable()
    for name in ("broker-c", "broker-a", "broker-b"):
        join(table, name)
    assert [group.name for group in route_of(table, "TopicA").brokers] == ["broker-a", "broker-b", "broker-c"]


def test_unknown_topic_has_no_route() -> None:
    table = RouteTable()
    join(table)
    assert find_route(table, "nothing", support_acting_master=False) is None


def test_route_has_the_filter_servers_of_its_brokers_only() -> None:
    table = RouteTable()
    join(table, topics=["T", "U"], filter_servers=["f:1"])
    join(table, "broker-b", topics=["T", "V"], connection=2)
    assert route_of(table, "T").filter_servers == {address_of("broker-a"): ["f:1"]}
    assert route_of(table, "V").filter_servers == {}


def test_filter_servers_of_another_broker_at_that_address_are_not_the_routes() -> None:
    """One address under two clusters: the group of the route may be listed in either."""
    table = RouteTable()
    join(table, "broker-b", 1, cluster="c2", topics=[])
    join(table, "broker-b", cluster="c1", address="h:1", connection=2)
    join(table, "broker-a", cluster="c2", address="h:1", topics=[], filter_servers=["f:1"], connection=3)
    assert table.brokers["broker-b"].cluster == "c2"
    assert route_of(table, "TopicA").filter_servers == {}


def test_route_has_its_queue_mappings() -> None:
    table = RouteTable()
    mapping = QueueMapping("broker-a", {0: 1})
    join(table, mappings={"TopicA": mapping})
    assert route_of(table, "TopicA").queue_mappings == {"broker-a": mapping}
    assert route_of(table, "TopicB").queue_mappings is None


def without_master(*, acting: bool = True) -> RouteTable:
    table = RouteTable()
    join(table, topics=["T", "rmq_sys_SYNC_BROKER_MEMBER_a"], acting=acting)
    for broker_id in (2, 1):
        join(table, broker_id=broker_id, acting=acting, connection=broker_id + 1)
    table.unregister(("c1", address_of("broker-a")), 1)
    return table


def test_lowest_slave_is_shown_as_master_for_reading() -> None:
    table = without_master()
    shown = route_of(table, "T", acting=True).brokers[0]
    assert shown.addresses == {0: address_of("broker-a", 1), 2: address_of("broker-a", 2)}
    assert set(table.brokers["broker-a"].addresses) == {1, 2}  # the table itself is as it was
    assert set(route_of(table, "T").brokers[0].addresses) == {1, 2}


def test_slaves_find_each_other_by_a_route_that_is_never_rewritten() -> None:
    route = route_of(without_master(), "rmq_sys_SYNC_BROKER_MEMBER_a", acting=True)
    assert set(route.brokers[0].addresses) == {1, 2}


def test_no_acting_master_where_brokers_do_not_want_it_or_writes_are_open() -> None:
    assert set(route_of(without_master(acting=False), "T", acting=True).brokers[0].addresses) == {1, 2}
    table = without_master()
    table.add_write_permission("broker-a")
    assert set(route_of(table, "T", acting=True).brokers[0].addresses) == {1, 2}


def test_group_with_a_master_is_shown_as_it_is() -> None:
    table = RouteTable()
    join(table, acting=True)
    table.wipe_write_permission("broker-a")
    assert route_of(table, "TopicA", acting=True).brokers[0] is table.brokers["broker-a"]


def test_zone_keeps_its_brokers_and_groups_without_master() -> None:
    settings = QueueSettings(4, 4, 6, 0)
    groups = [
        BrokerGroup("c", "here", {0: "h:1"}, "Zone-1"),
        BrokerGroup("c", "there", {0: "t:1"}, "zone-2"),
        BrokerGroup("c", "nowhere", {0: "n:1"}),
        BrokerGroup("c", "headless", {1: "s:1"}, "zone-2"),
    ]
    route = TopicRoute(
        {group.name: settings for group in groups},
        groups,
        {"h:1": ["f:1"], "t:1": ["f:2"]},
        {"there": QueueMapping("there")},
        "order",
    )
    within = within_zone(route, "zone-1")
    assert [group.name for group in within.brokers] == ["here", "headless"]
    assert set(within.queues) == {"here", "headless"}
    assert within.filter_servers == {"h:1": ["f:1"]}
    assert (within.queue_mappings, within.order_conf) == (route.queue_mappings, "order")


def test_topics_of_a_cluster_come_broker_by_broker_and_once() -> None:
    table = RouteTable()
    join(table, topics=["T", "U"])
    join(table, "broker-b", topics=["U", "V"], connection=2)
    join(table, "broker-c", cluster="c2", topics=["W", "T"], connection=3)
    assert route_queries.topics_of_cluster(table, "c1") == ["T", "U", "V"]
    assert route_queries.topics_of_cluster(table, "c2") == ["T", "W"]
    assert route_queries.topics_of_cluster(table, "nothing") == []


def test_system_topics_are_clusters_and_broker_names() -> None:
    table = RouteTable()
    assert route_queries.system_topics(table) == []
    assert route_queries.some_broker_address(table) is None
    join(table)
    join(table, "broker-b", connection=2)
    join(table, "broker-c", cluster="c2", connection=3)
    assert route_queries.system_topics(table) == ["c1", "broker-a", "broker-b", "c2", "broker-c"]
    assert route_queries.some_broker_address(table) == address_of("broker-a")


def test_unit_topics_by_the_flags_of_their_first_broker() -> None:
    table = RouteTable()
    flags = {"none": 0, "unit": FLAG_UNIT, "sub": FLAG_UNIT_SUB, "both": FLAG_UNIT | FLAG_UNIT_SUB}
    join(table, topics=[topic(name, flag=flag) for name, flag in flags.items()])
    join(table, "broker-b", topics=[topic("none", flag=FLAG_UNIT), topic("unit", flag=0)], connection=2)
    assert route_queries.unit_topics(table) == ["unit", "both"]
    assert route_queries.unit_sub_topics(table) == ["sub", "both"]
    assert route_queries.unit_sub_topics_without_unit(table) == ["sub"]


def test_names_that_stand_on_the_snapshot() -> None:
    table = RouteTable()
    join(table)
    join(table, "broker-b", connection=2)
    fresh = RouteTable()
    restore(fresh, decode_snapshot(encode_snapshot(table, 0)), 0, 1_000)
    assert route_queries.restored_names(fresh) == {"broker-a", "broker-b"}
    join(fresh, connection=3)
    assert route_queries.restored_names(fresh) == {"broker-b"}
