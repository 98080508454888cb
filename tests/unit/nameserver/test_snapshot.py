"""The snapshot of routes: what is written, what is read, what is refused."""

from __future__ import annotations

import json

import pytest

from apogeemq.errors import StorageFailed
from apogeemq.model.routes import QueueMapping, QueueSettings
from apogeemq.nameserver.route_table import RESTORED, RouteTable
from apogeemq.nameserver.snapshot import decode_snapshot, encode_snapshot, restore
from tests.unit.nameserver.joining import address_of, data_version, join, perms

A0 = ("c1", address_of("broker-a", 0))
A1 = ("c1", address_of("broker-a", 1))


def restored(table: RouteTable, *, now_ms: int = 1_000, serve_ms: int = 60_000) -> RouteTable:
    fresh = RouteTable()
    restore(fresh, decode_snapshot(encode_snapshot(table, 0)), now_ms, serve_ms)
    return fresh


def test_file_is_plain_json_as_documented() -> None:
    table = RouteTable()
    join(table, ha_address="a:10912", zone="z", acting=True, topics=["T", "U"])
    saved = json.loads(encode_snapshot(table, 17))
    timestamp = data_version().timestamp
    assert saved == {
        "version": 1,
        "sequence": 17,
        "brokers": [["c1", A0[1], "broker-a", 0, "a:10912", True, "z", [1, 0, timestamp]]],
        "topics": {"T": {"broker-a": [4, 4, 6, 0]}, "U": {"broker-a": [4, 4, 6, 0]}},
        "mappings": {},
    }


def test_everything_comes_back() -> None:
    table = RouteTable()
    join(table, ha_address="a:10912", zone="z", acting=True, mappings={"T": QueueMapping("broker-a", {0: 3})})
    join(table, broker_id=1, zone="z", acting=True, connection=2)
    join(table, "broker-b", cluster="c2", connection=3, topics=[])
    table.wipe_write_permission("broker-a")
    back = restored(table)
    assert back.topics == table.topics
    assert back.brokers == table.brokers
    assert back.clusters == table.clusters
    assert back.queue_mappings == {"T": {"broker-a": QueueMapping("broker-a", {0: 3})}}
    assert {key: live.data_version for key, live in back.live.items()} == {
        key: live.data_version for key, live in table.live.items()
    }
    assert back.live[A0].ha_address == "a:10912"


def test_brokers_are_marked_and_go_when_their_time_is_over() -> None:
    table = RouteTable()
    join(table)
    back = restored(table, now_ms=1_000, serve_ms=60_000)
    assert (back.restored_count, back.live[A0].connection) == (1, RESTORED)
    assert back.expire(61_000).changes == []
    outcome = back.expire(61_001)
    assert outcome.connections_to_close == []
    assert (back.restored_count, back.topics, back.live) == (0, {}, {})


def test_heartbeat_does_not_keep_a_restored_broker() -> None:
    table = RouteTable()
    join(table)
    back = restored(table)
    back.heartbeat(A0, 50_000)
    assert back.expire(61_001).changes


def test_registration_makes_it_a_broker_again_and_keeps_wiped_permissions() -> None:
    table = RouteTable()
    join(table, version=1)
    table.wipe_write_permission("broker-a")
    back = restored(table)
    outcome = join(back, version=1, connection=5, now_ms=2_000).outcome
    assert (outcome.changes, back.restored_count) == ([], 0)
    assert perms(back) == {"TopicA": 4, "TopicB": 4}
    assert back.expire(100_000).changes == []
    assert back.connection_closed(5).changes


def test_single_topic_is_taken_from_a_restored_broker() -> None:
    table = RouteTable()
    join(table)
    assert join(restored(table), topics=["T"], connection=5).is_accepted


def test_restored_broker_may_unregister() -> None:
    table = RouteTable()
    join(table)
    back = restored(table)
    assert back.unregister(A0, 3).changes
    assert back.restored_count == 0


def test_restored_broker_gives_way_to_a_new_address() -> None:
    table = RouteTable()
    join(table)
    back = restored(table)
    join(back, address="10.0.0.9:1", connection=1)
    assert list(back.live) == [("c1", "10.0.0.9:1")]
    assert back.restored_count == 0


def test_slave_learns_a_restored_master() -> None:
    table = RouteTable()
    join(table, ha_address="a:10912")
    join(table, broker_id=1, connection=2)
    registered = join(restored(table), broker_id=1, connection=1)
    assert (registered.master_address, registered.ha_address) == (A0[1], "a:10912")


def test_equal_settings_are_shared_again() -> None:
    table = RouteTable()
    join(table)
    back = restored(table)
    assert back.topics["TopicA"]["broker-a"] is back.topics["TopicB"]["broker-a"]
    assert isinstance(back.topics["TopicA"]["broker-a"], QueueSettings)


def test_topic_of_a_broker_that_is_not_there_is_left_out() -> None:
    saved = decode_snapshot(b'{"version":1,"topics":{"T":{"nobody":[1,1,6,0]}}}')
    table = RouteTable()
    restore(table, saved, 0, 1)
    assert table.topics == {}


def test_two_brokers_of_one_id_are_one() -> None:
    broker = '["c","%s","b",0,null,false,null,[1,0,0]]'
    data = f'{{"version":1,"brokers":[{broker % "a:1"},{broker % "a:2"}]}}'
    table = RouteTable()
    restore(table, decode_snapshot(data.encode()), 0, 1)
    assert list(table.live) == [("c", "a:1")]
    assert table.brokers["b"].addresses == {0: "a:1"}


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"version":1,"sequence":"x"}'),
        *(b'{"version":1,"brokers":[[1]]}', b'{"version":1,"topics":{"T":{"b":[1]}}}'),
    ],
)
def test_what_is_no_snapshot_is_an_error(data: bytes) -> None:
    with pytest.raises(StorageFailed, match="not a route snapshot"):
        decode_snapshot(data)


def test_snapshot_of_another_format_is_an_error_that_says_so() -> None:
    with pytest.raises(StorageFailed, match="format 2; this name server reads 1"):
        decode_snapshot(b'{"version":2}')
