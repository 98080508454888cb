"""The life of a name server: start, failed start, waiting for service, graceful stop."""

from __future__ import annotations

import asyncio
import logging

import pytest

from apogeemq.errors import ApogeeError, ConfigError, StorageFailed
from apogeemq.nameserver.server import NameServer
from apogeemq.nameserver.warm_start import SNAPSHOT_FILE
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.transport.dispatch import GO_AWAY_SINCE_VERSION
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import Home, ask_as, eventually

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


@in_loop
async def test_address_accepts_connections_when_start_returns(home: Home) -> None:
    async with home.serve() as running:
        assert await running.client().route("T") is None


@in_loop
async def test_several_live_in_one_process(home: Home) -> None:
    other = Home(home.folder / "other")
    async with home.serve() as first, other.serve() as second:
        await first.client().register()
        assert await first.client().route("TopicA") is not None
        assert await second.client().route("TopicA") is None


@in_loop
async def test_port_in_use_is_an_error_that_names_it(home: Home) -> None:
    async with home.serve() as running:
        port = running.address.rpartition(":")[2]
        other = NameServer(Home(home.folder / "other").settings(listenPort=port), {})
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            await other.start()
        await other.stop()


@in_loop
async def test_data_folder_belongs_to_one_server_at_a_time(home: Home) -> None:
    async with home.serve() as running:
        await running.client().register()
        other = NameServer(home.settings(), {})
        with pytest.raises(StorageFailed, match="is in use by another process"):
            await other.start()
        await other.stop()
        assert await running.client().route("TopicA") is not None
    async with home.serve() as running:
        assert await running.client().route("TopicA") is not None


@in_loop
async def test_failed_start_leaves_the_snapshot_of_the_last_run(home: Home) -> None:
    async with home.serve() as running:
        await running.client().register()
    before = (home.folder / SNAPSHOT_FILE).read_bytes()
    (home.folder / "kvConfig.json").write_text("damaged")
    failed = NameServer(home.settings(), {})
    with pytest.raises(StorageFailed, match=r"kvConfig\.json is damaged"):
        await failed.start()
    await failed.stop()
    assert (home.folder / SNAPSHOT_FILE).read_bytes() == before


@in_loop
async def test_failed_start_does_not_wait_for_clients_to_go(home: Home) -> None:
    home.folder.mkdir()
    (home.folder / "kvConfig.json").write_text("damaged")
    failed = NameServer(home.settings(enableShutdownGracefully="true", shutdownWaitTimeSeconds="100000"), {})
    with pytest.raises(ApogeeError):
        await failed.start()
    await failed.stop()


@in_loop
async def test_routes_are_refused_until_the_service_may_begin(home: Home) -> None:
    async with home.serve(needWaitForService="true", waitSecondsForService="1000") as running:
        client = running.client()
        await client.register()
        for _ in range(2):
            assert await client.refused(ROUTE, topic="TopicA") == (
                ResponseCode.SYSTEM_ERROR,
                "name server not ready",
            )
        await client.ok(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)  # all else is served


@in_loop
async def test_routes_are_served_when_the_wait_is_over(home: Home) -> None:
    async with home.serve(needWaitForService="true", waitSecondsForService="0") as running:
        client = running.client()
        await client.register()
        await eventually(lambda: not running.name_server.dispatcher.before)
        assert await client.route("TopicA") is not None


@in_loop
async def test_graceful_stop_tells_new_clients_to_go_away_and_serves_old_ones(home: Home) -> None:
    async with home.serve(enableShutdownGracefully="true", shutdownWaitTimeSeconds="1") as running:
        client = running.client()
        await client.register()
        assert await client.route("TopicA") is not None
        stopping = asyncio.ensure_future(running.name_server.stop())
        await eventually(lambda: running.name_server.dispatcher.is_going_away)
        newer = await ask_as(running.address, ROUTE, {"topic": "TopicA"}, version=GO_AWAY_SINCE_VERSION)
        assert (newer.code, newer.remark) == (ResponseCode.GO_AWAY, "please go away")
        older = await ask_as(running.address, ROUTE, {"topic": "TopicA"}, version=GO_AWAY_SINCE_VERSION - 1)
        assert older.code == ResponseCode.SUCCESS
        assert not stopping.done()
        await stopping
        with pytest.raises(ConnectionRefusedError):
            await ask_as(running.address, ROUTE, {"topic": "TopicA"})


@in_loop
async def test_stopping_twice_is_no_error(home: Home) -> None:
    async with home.serve() as running:
        await running.client().register()
        await running.name_server.stop()
        await running.name_server.stop()


@in_loop
async def test_kv_table_is_logged(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    async with home.serve() as running:
        await running.client().ok(RequestCode.PUT_KV_CONFIG, namespace="ns", key="k", value="v")
        with caplog.at_level(logging.INFO):
            running.name_server._log_kv()
    assert "KV ns k=v" in caplog.text
