"""A restarted name server serves the routes of its last run, marked, until brokers are back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from apogeemq.nameserver.config import NameServerConfig
from apogeemq.nameserver.kv_config import KvConfig
from apogeemq.nameserver.registry import Registry
from apogeemq.nameserver.warm_start import SNAPSHOT_FILE, SnapshotKeeper
from apogeemq.protocol.codes import RequestCode
from tests.unit.disk import file_size_limit
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.joining import join
from tests.unit.nameserver.live import Client, Home

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


async def is_marked(client: Client, topic: str) -> bool:
    return (await client.ok(ROUTE, topic=topic)).fields() == {"restored": "true"}


def registry_in(folder: Path) -> Registry:
    return Registry(
        NameServerConfig(),
        KvConfig(folder / "kv.json"),
        None,
        send_notice=lambda notice: None,
        close_connection=lambda connection: None,
    )


def with_routes(folder: Path) -> Registry:
    registry = registry_in(folder)
    registry.apply(join(registry.table).outcome)
    return registry


@in_loop
async def test_routes_are_served_and_marked_until_the_broker_registers(home: Home) -> None:
    async with home.serve() as running:
        await running.client().register("broker-a", topics=["T", "U"])
        await running.client().register("broker-b", topics=["V", "W"])
        route = await running.client().route("T")
    async with home.serve() as running:
        client, broker = running.client(), running.client()
        assert await client.route("T") == route
        assert await is_marked(client, "T")
        assert running.table.restored_count == 2
        answer = await broker.ask(
            RequestCode.QUERY_DATA_VERSION,
            brokerName="broker-a",
            brokerAddr="broker-a-0:10911",
            clusterName="c1",
            brokerId="0",
        )
        assert answer.fields() == {"changed": "true"}  # whatever its version: it must register
        await broker.register("broker-a", topics=["T", "U"])
        assert not await is_marked(client, "T")
        assert await is_marked(client, "V")
        await broker.register("broker-b", topics=["V", "W"])
        assert not await is_marked(client, "V")
        assert running.table.restored_count == 0


@in_loop
async def test_routes_nobody_confirms_go_when_the_time_is_over(home: Home) -> None:
    async with home.serve() as running:
        await running.client().register()
    async with home.serve(warmStartSeconds="60") as running:
        registry = running.name_server.registry
        now_ms = registry.now_ms()
        registry.apply(registry.table.expire(now_ms + 59_000))
        assert await running.client().route("TopicA") is not None
        registry.apply(registry.table.expire(now_ms + 60_001))
        assert await running.client().route("TopicA") is None


@in_loop
async def test_closing_connections_of_a_stopping_server_remove_nothing(home: Home) -> None:
    async with home.serve() as running:
        await running.client().register()
        await running.name_server.stop()
        assert running.table.live
    saved = json.loads((home.folder / SNAPSHOT_FILE).read_bytes())
    assert len(saved["brokers"]) == 1


@in_loop
async def test_warm_start_can_be_turned_off(home: Home) -> None:
    async with home.serve() as running:
        await running.client().register()
    before = (home.folder / SNAPSHOT_FILE).read_bytes()
    async with home.serve(warmStart="false") as running:
        assert await running.client().route("TopicA") is None
        await running.client().register("broker-b", topics=["V", "W"])
    assert (home.folder / SNAPSHOT_FILE).read_bytes() == before


@in_loop
async def test_snapshot_is_kept_fresh_while_the_server_runs(home: Home) -> None:
    async with home.serve() as running:
        await running.client().register()
        snapshots = running.name_server.snapshots
        assert snapshots is not None
        await snapshots.save_if_stale(running.name_server.registry)
        assert "TopicA" in json.loads((home.folder / SNAPSHOT_FILE).read_bytes())["topics"]
        assert not running.name_server.registry.is_snapshot_stale


@pytest.mark.parametrize("content", [b"", b"garbage", b'{"version":99}'])
@in_loop
async def test_unreadable_snapshot_is_a_cold_start(
    home: Home, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    home.folder.mkdir()
    (home.folder / SNAPSHOT_FILE).write_bytes(content)
    async with home.serve() as running:
        assert await running.client().route("TopicA") is None
        await running.client().register()
        assert await running.client().route("TopicA") is not None
    assert "warm start is not possible" in caplog.text


@in_loop
async def test_nothing_stale_is_not_written(tmp_path: Path) -> None:
    keeper, registry = SnapshotKeeper(tmp_path), registry_in(tmp_path)
    await keeper.save_if_stale(registry)
    assert not (tmp_path / SNAPSHOT_FILE).exists()


@in_loop
async def test_failed_write_is_counted_and_tried_again(tmp_path: Path) -> None:
    keeper, registry = SnapshotKeeper(tmp_path), with_routes(tmp_path)
    with file_size_limit(5):
        await keeper.save_if_stale(registry)
    assert (keeper.failure_count, registry.is_snapshot_stale) == (1, True)
    await keeper.save_if_stale(registry)
    assert (keeper.failure_count, registry.is_snapshot_stale) == (1, False)
    assert (tmp_path / SNAPSHOT_FILE).exists()


@in_loop
async def test_two_writers_take_turns_even_when_one_is_cancelled(tmp_path: Path) -> None:
    keeper, registry = SnapshotKeeper(tmp_path), registry_in(tmp_path)
    topics = [f"topic-{number:06d}" for number in range(20_000)]
    for round_number in range(5):
        registry.apply(join(registry.table, topics=topics, zone=str(round_number)).outcome)
        first = asyncio.ensure_future(keeper.save_if_stale(registry))
        while not (tmp_path / f"{SNAPSHOT_FILE}.tmp").exists() and not first.done():
            await asyncio.sleep(0)
        first.cancel()
        await keeper.save_if_stale(registry)
        fresh = registry_in(tmp_path)
        keeper.restore(fresh, 1_000)
        assert fresh.table.brokers["broker-a"].zone == str(round_number)
        assert len(fresh.table.topics) == 20_000
    assert keeper.failure_count == 0
