"""REGISTER_BROKER: who a broker is, where it stands in its group, and what it is told."""

from __future__ import annotations

import pytest

from apogeemq.nameserver import changes
from apogeemq.nameserver.changes import Change, MinIdNotice
from apogeemq.nameserver.registering import DEFAULT_TIMEOUT_MS
from apogeemq.nameserver.route_table import RouteTable
from tests.unit.nameserver.joining import address_of, data_version, join, perms, topic

A0 = ("c1", address_of("broker-a", 0))
A1 = ("c1", address_of("broker-a", 1))
OTHER = "10.0.0.9:10911"


def kinds(found: list[Change]) -> list[str]:
    return [change.kind for change in found]


def test_first_registration_fills_every_table() -> None:
    table = RouteTable()
    registered = join(table, ha_address="a:10912", connection=3, now_ms=50, zone="z1", acting=True)
    assert registered.is_accepted
    assert (registered.master_address, registered.ha_address) == (None, None)
    group = table.brokers["broker-a"]
    assert (group.cluster, group.addresses, group.zone, group.acting_master) == ("c1", {0: A0[1]}, "z1", True)
    assert table.clusters == {"c1": {"broker-a": None}}
    live = table.live[A0]
    assert (live.name, live.broker_id, live.data_version) == ("broker-a", 0, data_version())
    assert (live.last_update_ms, live.timeout_ms, live.ha_address) == (50, DEFAULT_TIMEOUT_MS, "a:10912")
    assert live.connection == 3
    assert perms(table) == {"TopicA": 6, "TopicB": 6}


def test_first_registration_says_what_changed() -> None:
    table = RouteTable()
    outcome = join(table, topics=["T", "U"]).outcome
    settings = table.topics["T"]["broker-a"]
    assert outcome.changes == [
        Change(changes.BROKER_JOINED, "registered", "c1", "broker-a", 0, A0[1]),
        Change(changes.TOPIC_ADDED, "registered", "c1", "broker-a", None, None, "T", settings),
        Change(changes.TOPIC_ADDED, "registered", "c1", "broker-a", None, None, "U", settings),
    ]
    assert outcome.topics == {"T", "U"}
    assert outcome.notices == []


def test_repeated_registration_changes_nothing_but_the_time() -> None:
    table = RouteTable()
    join(table, now_ms=0)
    outcome = join(table, now_ms=70).outcome
    assert (outcome.changes, outcome.topics) == ([], set())
    assert table.live[A0].last_update_ms == 70


def test_broker_without_topics_is_registered() -> None:
    table = RouteTable()
    assert join(table, topics=[]).is_accepted
    assert table.brokers["broker-a"].addresses == {0: A0[1]}


def test_first_registration_of_a_single_topic_is_refused_and_changes_nothing() -> None:
    table = RouteTable()
    registered = join(table, topics=["T"])
    assert not registered.is_accepted
    assert (table.live, table.brokers, table.clusters, table.topics) == ({}, {}, {}, {})
    assert registered.outcome.changes == []


def test_single_topic_is_refused_while_the_id_is_new_to_the_group() -> None:
    table = RouteTable()
    join(table)
    assert not join(table, broker_id=1, topics=["T"], connection=2).is_accepted
    assert join(table, topics=["T"]).is_accepted
    assert "T" in table.topics


def test_every_broker_may_have_a_time_out_of_its_own() -> None:
    table = RouteTable()
    join(table, timeout_ms=10_000)
    join(table, broker_id=1, timeout_ms=0, connection=2)
    assert [live.timeout_ms for live in table.live.values()] == [10_000, 0]


def test_slave_learns_its_master_and_where_to_replicate_from() -> None:
    table = RouteTable()
    assert join(table, broker_id=1, connection=2).master_address is None
    join(table, ha_address="a:10912")
    registered = join(table, broker_id=1, connection=2)
    assert (registered.master_address, registered.ha_address) == (A0[1], "a:10912")


def test_slave_does_not_learn_of_a_master_in_another_cluster() -> None:
    table = RouteTable()
    join(table, ha_address="a:10912")
    assert join(table, broker_id=1, cluster="c2", connection=2).master_address is None


def test_id_switch_at_one_address_moves_the_broker() -> None:
    table = RouteTable()
    join(table, broker_id=1, connection=1)
    registered = join(table, broker_id=0, address=A1[1], connection=1, version=2)
    assert table.brokers["broker-a"].addresses == {0: A1[1]}
    assert table.live[A1].broker_id == 0
    switched = registered.outcome.changes[0]
    assert (switched.kind, switched.cause, switched.broker_id) == (changes.BROKER_SWITCHED_ID, "was 1", 0)
    assert perms(table) == {"TopicA": 6, "TopicB": 6}


def test_slave_that_becomes_master_takes_the_place_of_the_old_one() -> None:
    table = RouteTable()
    join(table, connection=1)
    join(table, broker_id=1, connection=2)
    outcome = join(table, broker_id=0, address=A1[1], connection=2, version=2).outcome
    assert table.brokers["broker-a"].addresses == {0: A1[1]}
    assert list(table.live) == [A1]
    assert kinds(outcome.changes)[:2] == [changes.BROKER_LEFT, changes.BROKER_SWITCHED_ID]
    assert table.connection_closed(1).changes == []


def test_new_address_of_an_id_replaces_the_old_one() -> None:
    table = RouteTable()
    join(table, connection=1)
    outcome = join(table, address=OTHER, connection=2).outcome
    assert table.brokers["broker-a"].addresses == {0: OTHER}
    assert list(table.live) == [("c1", OTHER)]
    assert kinds(outcome.changes) == [changes.BROKER_LEFT, changes.BROKER_JOINED]
    assert outcome.topics == {"TopicA", "TopicB"}


@pytest.mark.parametrize(("state", "is_taken"), [(4, False), (5, True), (6, True)])
def test_conflict_over_an_id_is_won_by_the_state_version(state: int, is_taken: bool) -> None:
    table = RouteTable()
    join(table, state=5, connection=1)
    registered = join(table, address=OTHER, state=state, connection=2)
    assert registered.is_accepted
    assert table.brokers["broker-a"].addresses == {0: OTHER if is_taken else A0[1]}
    assert list(table.live) == [("c1", OTHER) if is_taken else A0]
    assert (registered.outcome.changes == []) is (not is_taken)


def test_loser_of_a_conflict_is_no_longer_live_at_its_address() -> None:
    table = RouteTable()
    join(table, state=5, connection=1)
    join(table, broker_id=1, state=3, connection=2)
    outcome = join(table, broker_id=0, address=A1[1], state=3, version=2, connection=2).outcome
    assert table.brokers["broker-a"].addresses == {0: A0[1]}
    assert list(table.live) == [A0]
    assert kinds(outcome.changes) == [changes.BROKER_LEFT]


def test_address_taken_by_another_name_leaves_the_old_group() -> None:
    table = RouteTable()
    join(table, connection=1)
    outcome = join(table, "broker-b", address=A0[1], connection=2).outcome
    assert list(table.brokers) == ["broker-b"]
    assert table.clusters == {"c1": {"broker-b": None}}
    assert list(table.topics["TopicA"]) == ["broker-b"]
    assert kinds(outcome.changes)[0] == changes.BROKER_LEFT


def test_same_broker_under_another_cluster_moves_there() -> None:
    table = RouteTable()
    join(table, cluster="c1", connection=1)
    outcome = join(table, cluster="c2", connection=2).outcome
    assert list(table.live) == [("c2", A0[1])]
    assert table.clusters == {"c2": {"broker-a": None}}
    assert table.brokers["broker-a"].cluster == "c2"
    assert kinds(outcome.changes) == [changes.BROKER_LEFT, changes.BROKER_JOINED]
    assert outcome.topics == {"TopicA", "TopicB"}  # the cluster is part of the route


@pytest.mark.parametrize("changed", [{"zone": "z2"}, {"acting": True}])
def test_zone_and_acting_master_are_part_of_the_route(changed: dict[str, str | bool]) -> None:
    table = RouteTable()
    join(table, zone="z1")
    outcome = join(table, **{"zone": "z1", **changed}).outcome  # type: ignore[arg-type]
    assert kinds(outcome.changes) == [changes.BROKER_CHANGED]
    assert outcome.topics == {"TopicA", "TopicB"}


def test_zone_may_be_taken_back() -> None:
    table = RouteTable()
    join(table, zone="z1")
    join(table)
    assert table.brokers["broker-a"].zone is None


def test_late_registration_on_an_older_connection_changes_nothing() -> None:
    table = RouteTable()
    join(table, topics=["T", "U"], version=2, connection=2, now_ms=10)
    registered = join(table, topics=["Old", "Older"], version=1, connection=1, now_ms=20, timeout_ms=1)
    assert registered.is_accepted
    assert registered.outcome.changes == []
    assert list(table.topics) == ["T", "U"]
    assert (table.live[A0].connection, table.live[A0].timeout_ms) == (2, DEFAULT_TIMEOUT_MS)


def test_newer_version_counts_even_on_an_older_connection() -> None:
    table = RouteTable()
    join(table, version=1, connection=2)
    join(table, topics=["T", "U"], version=2, connection=1)
    assert "T" in table.topics


def test_filter_servers_are_kept_until_an_empty_list_comes() -> None:
    table = RouteTable()
    join(table, filter_servers=["f:1"])
    join(table, filter_servers=None)
    assert table.filter_servers == {A0: ["f:1"]}
    join(table, filter_servers=[])
    assert table.filter_servers == {}


def test_filter_servers_leave_with_their_broker() -> None:
    table = RouteTable()
    join(table, filter_servers=["f:1"])
    table.unregister(A0, 1)
    assert table.filter_servers == {}


def test_filter_servers_are_part_of_the_routes_of_their_broker() -> None:
    table = RouteTable()
    join(table, topics=["T", "U"])
    join(table, "broker-b", topics=["V", "W"], connection=2)
    assert join(table, topics=["T", "U"], filter_servers=["f:1"]).outcome.topics == {"T", "U"}
    assert join(table, topics=["T", "U"], filter_servers=["f:1"]).outcome.topics == set()
    assert join(table, topics=["T", "U"], filter_servers=[]).outcome.topics == {"T", "U"}
    assert join(table, topics=["T", "U"], filter_servers=[]).outcome.topics == set()


def test_newcomer_with_the_lowest_id_is_announced_to_the_others() -> None:
    table = RouteTable()
    join(table, broker_id=1, connection=1)
    join(table, broker_id=2, connection=2)
    outcome = join(table, broker_id=0, ha_address="a:10912", connection=3).outcome
    others = [A1[1], address_of("broker-a", 2)]
    assert outcome.notices == [MinIdNotice(others, 0, A0[1], None, "a:10912")]


def test_lone_broker_that_lowers_its_id_is_told_itself() -> None:
    table = RouteTable()
    join(table, broker_id=1)
    outcome = join(table, broker_id=0, address=A1[1], version=2).outcome
    assert outcome.notices == [MinIdNotice([A1[1]], 0, A1[1], None, None)]


def test_first_broker_and_higher_ids_are_not_announced() -> None:
    table = RouteTable()
    assert join(table, broker_id=0).outcome.notices == []
    assert join(table, broker_id=1, connection=2).outcome.notices == []
    fresh = RouteTable()
    assert join(fresh, broker_id=3, topics=[topic("T"), topic("U")]).outcome.notices == []
