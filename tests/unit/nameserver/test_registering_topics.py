"""REGISTER_BROKER: which topics of a registration count, and when."""

from __future__ import annotations

from apogeemq.model.routes import QueueMapping, QueueSettings
from apogeemq.nameserver import changes
from apogeemq.nameserver.route_table import RouteTable
from tests.unit.nameserver.joining import address_of, join, perms, topic

A0 = ("c1", address_of("broker-a", 0))


def test_changed_queues_count_only_with_a_new_version() -> None:
    table = RouteTable()
    join(table, topics=["T", "U"], version=1)
    assert join(table, topics=[topic("T", read=8, write=8), "U"], version=1).outcome.topics == set()
    assert table.topics["T"]["broker-a"] == QueueSettings(4, 4, 6, 0)
    outcome = join(table, topics=[topic("T", read=8, write=8), "U"], version=2).outcome
    assert table.topics["T"]["broker-a"] == QueueSettings(8, 8, 6, 0)
    assert [(change.kind, change.topic) for change in outcome.changes] == [(changes.TOPIC_CHANGED, "T")]


def test_older_version_on_the_same_connection_counts_too() -> None:
    """Versions need only differ: a broker whose topic file was restored from a backup is believed."""
    table = RouteTable()
    join(table, topics=["T", "U"], version=5)
    join(table, topics=[topic("T", read=8), "U"], version=2)
    assert table.topics["T"]["broker-a"].read_queues == 8


def test_unknown_topic_is_taken_at_once() -> None:
    table = RouteTable()
    join(table, topics=["T", "U"], version=1)
    outcome = join(table, topics=["T", "U", "V"], version=1).outcome
    assert outcome.topics == {"V"}
    assert table.topics["V"]["broker-a"].perm == 6


def test_topics_missing_from_a_registration_stay() -> None:
    table = RouteTable()
    join(table, topics=["T", "U"], version=1)
    join(table, topics=["T", "V"], version=2)
    assert set(table.topics) == {"T", "U", "V"}


def test_missing_topics_go_when_so_configured() -> None:
    table = RouteTable()
    join(table, "broker-b", topics=["T", "U"], connection=2)
    join(table, topics=["T", "U"], version=1)
    outcome = join(table, topics=["T", "V"], version=1, delete_missing_topics=True).outcome
    assert {name: sorted(queues) for name, queues in table.topics.items()} == {
        "T": ["broker-a", "broker-b"],
        "U": ["broker-b"],
        "V": ["broker-a"],
    }
    assert (changes.TOPIC_REMOVED, "U") in [(change.kind, change.topic) for change in outcome.changes]
    assert outcome.topics == {"U", "V"}


def test_missing_topics_stay_when_the_registration_has_static_topics() -> None:
    table = RouteTable()
    join(table, topics=["T", "U"])
    join(table, topics=["T", "V"], mappings={"T": QueueMapping("broker-a")}, delete_missing_topics=True)
    assert "U" in table.topics


def test_missing_topics_of_a_slave_delete_nothing() -> None:
    table = RouteTable()
    join(table, topics=["T", "U"])
    join(table, broker_id=1, topics=["X", "Y"], connection=2, delete_missing_topics=True)
    assert set(table.topics) == {"T", "U"}


def test_wiped_permission_survives_the_same_version_and_ends_with_a_new_one() -> None:
    table = RouteTable()
    join(table, version=1)
    table.wipe_write_permission("broker-a")
    join(table, version=1)
    assert perms(table) == {"TopicA": 4, "TopicB": 4}
    join(table, version=2)
    assert perms(table) == {"TopicA": 6, "TopicB": 6}


def test_wiped_permission_ends_when_the_broker_comes_back() -> None:
    table = RouteTable()
    join(table, version=1)
    table.wipe_write_permission("broker-a")
    table.connection_closed(1)
    join(table, version=1, connection=2)
    assert perms(table) == {"TopicA": 6, "TopicB": 6}


def test_deleted_topic_comes_back_with_the_next_registration() -> None:
    table = RouteTable()
    join(table, version=1)
    table.delete_topic("TopicA")
    assert join(table, version=1).outcome.topics == {"TopicA"}


def test_slaves_topics_are_ignored_while_there_is_a_master() -> None:
    table = RouteTable()
    join(table, topics=["T", "U"])
    join(table, broker_id=1, topics=["X", "Y"], connection=2)
    assert set(table.topics) == {"T", "U"}


def test_topics_of_an_old_slave_never_count() -> None:
    """A broker before 5.x says nothing of acting masters."""
    table = RouteTable()
    assert join(table, broker_id=1, acting=None).is_accepted
    assert table.topics == {}
    assert table.brokers["broker-a"].addresses == {1: address_of("broker-a", 1)}


def test_topics_of_an_old_master_count() -> None:
    table = RouteTable()
    join(table, acting=None)
    assert perms(table) == {"TopicA": 6, "TopicB": 6}


def test_lowest_slave_speaks_for_a_group_without_master() -> None:
    table = RouteTable()
    join(table, broker_id=2, topics=["X", "Y"], connection=1)
    assert perms(table) == {"X": 6, "Y": 6}
    join(table, broker_id=1, topics=["T", "U"], connection=2)
    join(table, broker_id=2, topics=["V", "W"], version=2, connection=1)
    assert set(table.topics) == {"X", "Y", "T", "U"}


def test_acting_master_opens_its_topics_for_reading_only() -> None:
    table = RouteTable()
    join(table, broker_id=1, topics=[topic("T", perm=7), "U"], acting=True)
    assert perms(table) == {"T": 5, "U": 4}


def test_master_that_returns_opens_writes_again() -> None:
    table = RouteTable()
    join(table, acting=True, connection=1)
    join(table, broker_id=1, acting=True, connection=2)
    table.unregister(A0, 1)
    assert perms(table) == {"TopicA": 4, "TopicB": 4}
    join(table, acting=True, connection=3)
    assert perms(table) == {"TopicA": 6, "TopicB": 6}


def test_queue_mappings_are_merged_by_broker_with_a_new_version() -> None:
    table = RouteTable()
    first, second = QueueMapping("broker-a", {0: 0}, epoch=1), QueueMapping("broker-a", {0: 1}, epoch=2)
    foreign = QueueMapping("broker-x", {1: 0})
    outcome = join(table, mappings={"T": first, "U": foreign}).outcome
    assert table.queue_mappings == {"T": {"broker-a": first}, "U": {"broker-x": foreign}}
    assert outcome.topics >= {"T", "U"}
    join(table, mappings={"T": second}, version=1)
    assert table.queue_mappings["T"] == {"broker-a": first}
    assert join(table, mappings={"T": second}, version=2).outcome.topics == {"T"}
    assert table.queue_mappings["T"] == {"broker-a": second}
    assert join(table, mappings={"T": second}, version=3).outcome.topics == set()


def test_queue_mapping_without_a_broker_is_the_registering_ones() -> None:
    table = RouteTable()
    mapping = QueueMapping()
    join(table, mappings={"T": mapping})
    assert table.queue_mappings == {"T": {"broker-a": mapping}}


def test_queue_mappings_outlive_their_broker() -> None:
    table = RouteTable()
    join(table, mappings={"T": QueueMapping("broker-a")})
    table.connection_closed(1)
    assert "T" in table.queue_mappings


def test_equal_settings_are_one_object() -> None:
    table = RouteTable()
    join(table)
    join(table, "broker-b", connection=2)
    assert table.topics["TopicA"]["broker-a"] is table.topics["TopicB"]["broker-b"]


def test_name_in_the_table_wins_over_the_key_and_the_key_fills_in() -> None:
    table = RouteTable()
    named = topic("Named")
    join(table, topics=[topic("T"), named])
    assert set(table.topics) == {"T", "Named"}
