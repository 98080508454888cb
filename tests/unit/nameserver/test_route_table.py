"""How brokers and topics leave the tables: unregister, close, expire, wipe, delete."""

from __future__ import annotations

from apogeemq.model.routes import QueueSettings
from apogeemq.nameserver import changes
from apogeemq.nameserver.changes import Change, MinIdNotice
from apogeemq.nameserver.route_table import RouteTable
from tests.unit.nameserver.joining import address_of, join, perms, topic

A0 = ("c1", address_of("broker-a", 0))
A1 = ("c1", address_of("broker-a", 1))


def test_last_broker_of_a_name_takes_group_cluster_and_topics_with_it() -> None:
    table = RouteTable()
    join(table)
    outcome = table.unregister(A0, 1)
    assert (table.topics, table.brokers, table.clusters, table.live) == ({}, {}, {}, {})
    assert outcome.topics == {"TopicA", "TopicB"}
    assert outcome.changes[0] == Change(changes.BROKER_LEFT, "unregistered", "c1", "broker-a", 0, A0[1])
    assert sorted((change.kind, change.topic) for change in outcome.changes[1:]) == [
        (changes.TOPIC_REMOVED, "TopicA"),
        (changes.TOPIC_REMOVED, "TopicB"),
    ]


def test_slave_that_leaves_leaves_the_group_standing() -> None:
    table = RouteTable()
    join(table)
    join(table, broker_id=1, connection=2)
    outcome = table.unregister(A1, 2)
    assert table.brokers["broker-a"].addresses == {0: A0[1]}
    assert perms(table) == {"TopicA": 6, "TopicB": 6}
    assert outcome.topics == {"TopicA", "TopicB"}
    assert [change.kind for change in outcome.changes] == [changes.BROKER_LEFT]


def test_topic_of_two_names_stays_with_the_other_name() -> None:
    table = RouteTable()
    join(table, topics=["T", "U"])
    join(table, "broker-b", topics=["T", "V"], connection=2)
    table.unregister(A0, 1)
    assert {name: list(queues) for name, queues in table.topics.items()} == {"T": ["broker-b"], "V": ["broker-b"]}
    assert list(table.clusters["c1"]) == ["broker-b"]


def test_unregistering_who_is_not_there_changes_nothing() -> None:
    table = RouteTable()
    join(table)
    for key in (("c2", A0[1]), ("c1", "10.9.9.9:1")):
        assert table.unregister(key, 9).changes == []
    assert list(table.live) == [A0]


def test_late_unregister_does_not_undo_a_registration_on_a_newer_connection() -> None:
    table = RouteTable()
    join(table, connection=1)
    join(table, connection=2)
    assert table.unregister(A0, 1).changes == []
    assert A0 in table.live


def test_unregister_over_a_connection_made_after_the_registration_counts() -> None:
    table = RouteTable()
    join(table, connection=1)
    assert table.unregister(A0, 5, "another-name").changes == []
    assert table.unregister(A0, 5).changes
    assert A0 not in table.live


def test_close_removes_exactly_the_brokers_of_that_connection() -> None:
    table = RouteTable()
    join(table, connection=7)
    join(table, "broker-b", connection=7)
    join(table, "broker-c", connection=8)
    outcome = table.connection_closed(7)
    assert [change.address for change in outcome.changes if change.kind == changes.BROKER_LEFT] == [
        A0[1],
        address_of("broker-b"),
    ]
    assert {change.cause for change in outcome.changes} == {"connection closed"}
    assert list(table.brokers) == ["broker-c"]


def test_late_close_does_not_undo_a_registration_on_a_newer_connection() -> None:
    table = RouteTable()
    join(table, connection=1)
    join(table, connection=2)
    assert table.connection_closed(1).changes == []
    assert A0 in table.live
    assert table.connection_closed(2).changes
    assert A0 not in table.live


def test_expiry_is_per_broker_and_closes_the_connection() -> None:
    table = RouteTable()
    join(table, connection=1, now_ms=0)
    join(table, "broker-b", connection=2, now_ms=0, timeout_ms=10_000)
    assert table.expire(10_000).changes == []
    outcome = table.expire(10_001)
    assert outcome.connections_to_close == [2]
    assert outcome.changes[0].kind == changes.BROKER_EXPIRED
    assert table.expire(120_000).changes == []
    assert table.expire(120_001).connections_to_close == [1]
    assert not table.live


def test_heartbeat_puts_the_expiry_off() -> None:
    table = RouteTable()
    join(table, timeout_ms=10_000)
    table.heartbeat(A0, 9_000)
    assert table.expire(19_000).changes == []
    assert table.expire(19_001).changes


def test_heartbeat_of_an_unknown_broker_is_nothing() -> None:
    table = RouteTable()
    table.heartbeat(A0, 1)
    assert not table.live


def test_registration_with_a_new_time_out_moves_the_deadline_either_way() -> None:
    table = RouteTable()
    join(table, timeout_ms=1_000)
    join(table, timeout_ms=50_000, now_ms=500)
    assert table.expire(50_500).changes == []
    join(table, timeout_ms=1_000, now_ms=50_500)
    assert table.expire(51_501).changes


def test_master_that_leaves_closes_writes_when_a_slave_acts_for_it() -> None:
    table = RouteTable()
    join(table, acting=True)
    join(table, broker_id=1, acting=True, connection=2)
    join(table, broker_id=2, acting=True, connection=3)
    outcome = table.unregister(A0, 1)
    assert perms(table) == {"TopicA": 4, "TopicB": 4}
    wiped = next(change for change in outcome.changes if change.kind == changes.WRITE_PERMISSION_WIPED)
    assert (wiped.cause, wiped.topic_count) == ("master left", 2)
    slaves = [A1[1], address_of("broker-a", 2)]
    assert outcome.notices == [MinIdNotice(slaves, 1, A1[1], A0[1], None)]


def test_writes_closed_already_are_not_closed_again() -> None:
    """The journal says what changed, and nothing else."""
    table = RouteTable()
    for broker_id in (0, 1, 2):
        join(table, broker_id=broker_id, acting=True, connection=broker_id + 1)
    table.unregister(A0, 1)
    outcome = table.unregister(A1, 2)
    assert [change.kind for change in outcome.changes] == [changes.BROKER_LEFT]


def test_master_that_leaves_a_group_of_no_acting_master_changes_no_permission() -> None:
    table = RouteTable()
    join(table)
    join(table, broker_id=1, connection=2)
    outcome = table.unregister(A0, 1)
    assert perms(table) == {"TopicA": 6, "TopicB": 6}
    assert outcome.notices == []


def test_group_whose_lowest_id_is_negative_has_no_acting_master() -> None:
    table = RouteTable()
    join(table, broker_id=-1, acting=True, connection=1)
    join(table, acting=True, connection=2)
    table.unregister(A0, 2)
    assert perms(table) == {"TopicA": 6, "TopicB": 6}


def test_slave_above_the_lowest_leaves_without_a_notice() -> None:
    table = RouteTable()
    join(table, acting=True)
    join(table, broker_id=1, acting=True, connection=2)
    assert table.unregister(A1, 2).notices == []


def test_name_in_two_clusters_leaves_only_the_one_without_a_broker() -> None:
    table = RouteTable()
    join(table, cluster="c1")
    join(table, broker_id=1, cluster="c2", connection=2)
    assert {cluster: list(names) for cluster, names in table.clusters.items()} == {
        "c1": ["broker-a"],
        "c2": ["broker-a"],
    }
    table.unregister(A0, 1)
    assert list(table.clusters) == ["c2"]
    assert table.brokers["broker-a"].cluster == "c2"


def test_wipe_takes_the_write_bit_of_one_name_and_counts() -> None:
    table = RouteTable()
    join(table, topics=[topic("T", perm=7), topic("U", perm=4), topic("V")])
    join(table, "broker-b", topics=["T", "W"], connection=2)
    count, outcome = table.wipe_write_permission("broker-a")
    assert (count, perms(table)) == (3, {"T": 5, "U": 4, "V": 4})
    assert perms(table, "broker-b") == {"T": 6, "W": 6}
    assert outcome.topics >= {"T", "V"}
    assert outcome.changes == [
        Change(changes.WRITE_PERMISSION_WIPED, "asked for", "c1", "broker-a", topic_count=3),
    ]


def test_add_sets_read_and_write_whatever_it_was() -> None:
    table = RouteTable()
    join(table, topics=[topic("T", perm=7), topic("U", perm=0)])
    count, outcome = table.add_write_permission("broker-a")
    assert (count, perms(table)) == (2, {"T": 6, "U": 6})
    assert outcome.topics == {"T", "U"}
    assert outcome.changes[0].kind == changes.WRITE_PERMISSION_ADDED


def test_permissions_of_an_unknown_name_touch_nothing() -> None:
    table = RouteTable()
    join(table)
    for change in (table.wipe_write_permission, table.add_write_permission):
        count, outcome = change("nobody")
        assert (count, outcome.changes, outcome.topics) == (0, [], set())


def test_delete_topic_from_all_brokers() -> None:
    table = RouteTable()
    join(table)
    join(table, "broker-b", connection=2)
    outcome = table.delete_topic("TopicA")
    assert list(table.topics) == ["TopicB"]
    assert [(change.broker, change.topic) for change in outcome.changes] == [
        ("broker-a", "TopicA"),
        ("broker-b", "TopicA"),
    ]


def test_delete_topic_from_one_cluster_only() -> None:
    table = RouteTable()
    join(table)
    join(table, "broker-b", cluster="c2", connection=2)
    outcome = table.delete_topic("TopicA", "c2")
    assert list(table.topics["TopicA"]) == ["broker-a"]
    assert outcome.topics == {"TopicA"}
    assert table.delete_topic("TopicA", "no such cluster").changes == []
    assert table.delete_topic("no such topic").changes == []
    assert table.delete_topic("no such topic", "c1").changes == []


def test_register_topic_adds_and_replaces_on_known_brokers() -> None:
    table = RouteTable()
    join(table)
    join(table, "broker-b", connection=2)
    outcome = table.register_topic(
        "TopicA", {"broker-a": QueueSettings(1, 2, 6, 0), "broker-b": QueueSettings(4, 4, 6, 0)}
    )
    assert table.topics["TopicA"]["broker-a"] == QueueSettings(1, 2, 6, 0)
    assert [(change.kind, change.broker) for change in outcome.changes] == [(changes.TOPIC_CHANGED, "broker-a")]
    outcome = table.register_topic("New", {"broker-a": QueueSettings(8, 8, 6, 0)})
    assert outcome.changes[0].kind == changes.TOPIC_ADDED
    assert outcome.topics == {"New"}


def test_register_topic_with_an_unknown_broker_or_none_does_nothing() -> None:
    table = RouteTable()
    join(table)
    settings = QueueSettings(1, 1, 6, 0)
    assert table.register_topic("New", {"broker-a": settings, "nobody": settings}).changes == []
    assert table.register_topic("New", {}).changes == []
    assert "New" not in table.topics
