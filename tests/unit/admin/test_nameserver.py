"""Every operation of the admin client against a name server of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from apogeemq.admin.nameserver import JournalPage, NameServerAdmin
from apogeemq.errors import ConnectFailed, ProtocolError, RemoteRefused
from apogeemq.model.routes import QueueSettings, TopicRoute
from apogeemq.model.topics import FLAG_UNIT, FLAG_UNIT_SUB, ORDER_TOPIC_NAMESPACE
from apogeemq.protocol.bodies.registration import TopicConfig
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.transport.pool import ConnectionPool
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import broker, connections, name_server, register, topics


@asynccontextmanager
async def cluster(
    folder: Path, properties: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[NameServerAdmin, ConnectionPool]]:
    """broker-a with T1 and T2, broker-b with T2 and T3."""
    async with name_server(folder, properties) as (_, address), connections() as pool:
        await register(pool, address, broker("broker-a"), topics("T1", "T2"))
        await register(pool, address, broker("broker-b"), topics("T2", "T3", queues=8))
        yield NameServerAdmin(pool, address), pool


@in_loop
async def test_route(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (admin, _):
        route = await admin.route("T2")
        assert route is not None
        assert route.queues == {"broker-a": QueueSettings(4, 4, 6, 0), "broker-b": QueueSettings(8, 8, 6, 0)}
        assert [group.addresses for group in route.brokers] == [
            {0: broker("broker-a").address},
            {0: broker("broker-b").address},
        ]
        assert await admin.route("none") is None


@in_loop
async def test_many_routes_with_progress(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    async with name_server(tmp_path) as (_, address), connections() as pool:
        await register(pool, address, broker("broker-a"), topics(*(f"T{number}" for number in range(100))))
        admin = NameServerAdmin(pool, address)
        routes = await admin.routes(
            [*await admin.topics(), "gone", "gone"], lambda done, total: seen.append((done, total))
        )
    assert len(routes) == 101
    assert routes.pop("gone") is None
    assert all(routes.values())
    assert seen == [(number, 101) for number in range(1, 102)]


@in_loop
async def test_an_error_among_many_is_raised_as_itself(tmp_path: Path) -> None:
    async with name_server(tmp_path, {"needWaitForService": "true"}) as (_, address), connections() as pool:
        with pytest.raises(RemoteRefused, match="name server not ready"):
            await NameServerAdmin(pool, address).routes(["a", "b", "c"])


@in_loop
async def test_clusters_and_groups(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (admin, pool):
        await register(pool, admin.address, broker("broker-a", 1), topics("T1", "T2"))
        info = await admin.cluster_info()
        assert {name: sorted(names) for name, names in info.clusters.items()} == {"c": ["broker-a", "broker-b"]}
        assert info.brokers["broker-a"].addresses == {0: broker("broker-a").address, 1: broker("broker-a", 1).address}
        assert await admin.member_group("c", "broker-a") == info.brokers["broker-a"].addresses
        assert await admin.member_group("c", "unknown") == {}


@in_loop
async def test_topic_lists(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (admin, pool):
        assert sorted(await admin.topics()) == ["T1", "T2", "T3"]
        assert sorted(await admin.topics_of_cluster("c")) == ["T1", "T2", "T3"]
        assert await admin.topics_of_cluster("unknown") == []
        assert sorted(await admin.system_topics()) == ["broker-a", "broker-b", "c"]
        units = {
            "unit": TopicConfig("unit", topicSysFlag=FLAG_UNIT),
            "both": TopicConfig("both", topicSysFlag=FLAG_UNIT | FLAG_UNIT_SUB),
            "sub": TopicConfig("sub", topicSysFlag=FLAG_UNIT_SUB),
        }
        await register(pool, admin.address, broker("broker-c"), units)
        assert sorted(await admin.unit_topics()) == ["both", "unit"]
        assert sorted(await admin.unit_sub_topics()) == ["both", "sub"]
        assert await admin.unit_sub_topics_outside_units() == ["sub"]


@in_loop
async def test_a_list_that_is_switched_off_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path, {"enableAllTopicList": "false"}) as (admin, _):
        with pytest.raises(RemoteRefused) as caught:
            await admin.topics()
        assert (caught.value.code, caught.value.remark) == (ResponseCode.SYSTEM_ERROR, "disable")
        assert admin.address in str(caught.value)


@in_loop
async def test_topics_registered_and_deleted(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (admin, _):
        await admin.register_topic("T9", TopicRoute({"broker-a": QueueSettings(2, 1, 4, 0)}, [], {}))
        route = await admin.route("T9")
        assert route is not None
        assert route.queues == {"broker-a": QueueSettings(2, 1, 4, 0)}
        await admin.delete_topic("T9", "other cluster")
        assert await admin.route("T9") is not None
        await admin.delete_topic("T9")
        assert await admin.route("T9") is None


@in_loop
async def test_write_permission_wiped_and_added(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (admin, _):
        assert await admin.wipe_write_permission("broker-a") == 2
        wiped = await admin.route("T1")
        assert wiped is not None
        assert wiped.queues["broker-a"].perm == 4
        assert await admin.add_write_permission("broker-a") == 2
        added = await admin.route("T1")
        assert added is not None
        assert added.queues["broker-a"].perm == 6
        assert await admin.wipe_write_permission("unknown") == 0


@in_loop
async def test_key_value_configuration(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (admin, _):
        assert await admin.get_kv("ns", "k") is None
        assert await admin.list_kv("ns") is None
        await admin.put_kv("ns", "k", "välue; with=signs\n")
        await admin.put_kv("other", "k2", "v2")
        assert await admin.get_kv("ns", "k") == "välue; with=signs\n"
        assert await admin.list_kv("ns") == {"k": "välue; with=signs\n"}
        assert await admin.all_kv() == {"ns": {"k": "välue; with=signs\n"}, "other": {"k2": "v2"}}
        await admin.delete_kv("ns", "k")
        assert await admin.get_kv("ns", "k") is None
        assert await admin.list_kv("ns") == {}


@in_loop
async def test_a_server_that_cannot_list_namespaces_is_asked_for_each(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (server, address), connections() as pool:
        del server.dispatcher.handlers[RequestCode.GET_ALL_KV_CONFIG]  # as in Apache's name server
        admin = NameServerAdmin(pool, address)
        for namespace in (ORDER_TOPIC_NAMESPACE, "ns", "unasked"):
            await admin.put_kv(namespace, "k", "v")
        assert await admin.whole_kv() is None
        assert await admin.all_kv(["ns", "never used"]) == {ORDER_TOPIC_NAMESPACE: {"k": "v"}, "ns": {"k": "v"}}


@in_loop
async def test_a_server_that_says_nothing_to_an_unknown_code_is_asked_for_each(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (server, address), connections() as pool:
        server.dispatcher.register(RequestCode.GET_ALL_KV_CONFIG, lambda channel, command: None)  # as in Apache 4.9
        assert await NameServerAdmin(pool, address, timeout_seconds=0.2).whole_kv() is None


@in_loop
async def test_configuration(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (admin, _):
        assert (await admin.config())["orderMessageEnable"] == "false"
        await admin.update_config({"orderMessageEnable": "true", "productEnvName": "a\\b = c"})
        config = await admin.config()
        assert (config["orderMessageEnable"], config["productEnvName"]) == ("true", "a\\b = c")
        with pytest.raises(RemoteRefused) as caught:
            await admin.update_config({"kvConfigPath": "/etc/passwd"})
        assert caught.value.code == ResponseCode.NO_PERMISSION


@in_loop
async def test_route_watch(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (admin, _):
        known = await admin.watch_routes({"T1": "", "none": ""}, timeout_seconds=0)
        assert known["T1"].route == await admin.route("T1")
        assert known["none"].route is None
        digests = {topic: change.digest for topic, change in known.items()}
        assert await admin.watch_routes(digests, timeout_seconds=0.01) == {}
        waiting = asyncio.create_task(admin.watch_routes(digests, timeout_seconds=30))
        await admin.wipe_write_permission("broker-a")
        changed = await waiting
        assert list(changed) == ["T1"]
        route = changed["T1"].route
        assert route is not None
        assert route.queues["broker-a"].perm == 4


@in_loop
async def test_journal(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (admin, _):
        page = await admin.read_journal()
        entries = page.entries()
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        assert (page.first_sequence, page.last_sequence) == (1, len(entries))
        assert page.next_sequence == len(entries) + 1
        assert (entries[0].kind, entries[0].broker, entries[0].broker_id) == ("broker_joined", "broker-a", 0)
        assert [entry.seq for entry in (await admin.read_journal(2, max_lines=2)).entries()] == [2, 3]
        topic_count = await admin.wipe_write_permission("broker-a")
        (wiped,) = (await admin.read_journal(page.next_sequence)).entries()
        assert (wiped.kind, wiped.topic_count) == ("write_permission_wiped", topic_count)


def test_journal_line_that_is_none_is_the_peers_fault() -> None:
    with pytest.raises(ProtocolError, match="journal line"):
        JournalPage([b'{"seq":1}'], 2, 1, 1).entries()


@in_loop
async def test_nobody_there() -> None:
    async with connections() as pool:
        with pytest.raises(ConnectFailed):
            await NameServerAdmin(pool, "127.0.0.1:1").topics()
