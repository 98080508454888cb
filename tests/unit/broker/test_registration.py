"""A broker at its name servers: name servers of ours, in this process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from apogeemq.admin.nameserver import NameServerAdmin
from apogeemq.broker.config import BrokerConfig
from apogeemq.model.routes import DataVersion, QueueSettings
from apogeemq.model.topics import ORDER_TOPIC_NAMESPACE
from apogeemq.nameserver.server import NameServer
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from tests.unit.broker.registering import IDENTITY, free_address, name_server_at, queues_at, registered, topic
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import connections, name_server


def requests_of(server: NameServer) -> list[int]:
    """The codes a name server is asked, from now on."""
    codes: list[int] = []

    def note(channel: Channel, command: Command) -> None:
        codes.append(command.code)

    server.dispatcher.before.append(note)
    return codes


@in_loop
async def test_all_name_servers_know_the_broker_when_it_has_started(tmp_path: Path) -> None:
    async with name_server(tmp_path / "1") as (one, first), name_server(tmp_path / "2") as (_, second):
        async with registered(BrokerConfig(namesrv_addr=f"{first};{second}")) as it:
            for address in (first, second):
                assert await queues_at(it, address, "T1") == QueueSettings(4, 4, 6, 0)
            group = one.registry.table.brokers[IDENTITY.name]
            assert (group.cluster, group.addresses) == ("c", {0: IDENTITY.address})
            assert [state.last_success_ms for state in it.service.states] == [1_000, 1_000]
        assert IDENTITY.name not in one.registry.table.brokers  # it said farewell


@in_loop
async def test_without_name_servers_there_is_nothing_to_do() -> None:
    async with registered(BrokerConfig()) as it:
        it.change(topic("T3"))
        await it.seconds(20)
        assert it.service.states == []


@in_loop
async def test_a_name_server_that_is_down_delays_nobody_and_is_told_when_it_comes(tmp_path: Path) -> None:
    late = free_address()
    async with (
        name_server(tmp_path / "1") as (_, address),
        registered(BrokerConfig(namesrv_addr=f"{late};{address}")) as it,
    ):
        down, up = it.service.states
        assert (down.is_registered, up.is_registered) == (False, True)
        await it.until(lambda: down.failure_count == 1)
        assert "cannot connect" in down.problem
        async with name_server_at(late, tmp_path / "2") as server:
            await it.seconds(1)
            await it.until_registered()
            assert {"T1", "T2"} <= server.registry.table.topics.keys()
            assert (down.problem, down.failure_count) == ("", 1)


@in_loop
async def test_the_broker_starts_without_any_name_server_and_goes_on_trying(tmp_path: Path) -> None:
    address = free_address()
    async with registered(BrokerConfig(namesrv_addr=address)) as it:
        (state,) = it.service.states
        for failures, pause in ((1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10)):
            assert state.failure_count == failures
            await it.seconds(pause - 1)
            await asyncio.sleep(0)
            assert state.failure_count == failures
            await it.seconds(1)
            await it.until(lambda seen=failures: state.failure_count > seen)  # type: ignore[misc]
        assert not state.is_registered


@in_loop
async def test_a_name_server_that_was_away_learns_all_again(tmp_path: Path) -> None:
    address = free_address()
    async with AsyncExitStack() as life:
        await life.enter_async_context(name_server_at(address, tmp_path / "1"))
        async with registered(BrokerConfig(namesrv_addr=address)) as it:
            (state,) = it.service.states
            await life.aclose()
            await it.until(lambda: not state.is_registered)
            it.change(topic("T3"))
            async with name_server_at(address, tmp_path / "2") as server:
                await it.seconds(1)
                await it.until_registered()
                assert {"T1", "T2", "T3"} <= server.registry.table.topics.keys()


@in_loop
async def test_a_changed_topic_is_told_at_once_and_alone(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (server, address), registered(BrokerConfig(namesrv_addr=address)) as it:
        codes = requests_of(server)
        it.change(topic("T3", queues=8))
        await it.until_said(2)
        assert codes == [RequestCode.REGISTER_BROKER]
        assert await queues_at(it, address, "T3") == QueueSettings(8, 8, 6, 0)
        assert await queues_at(it, address, "T1") == QueueSettings(4, 4, 6, 0)
        it.change(topic("T1", queues=2))
        await it.until_said(3)
        assert await queues_at(it, address, "T1") == QueueSettings(2, 2, 6, 0)


@in_loop
async def test_many_changes_are_told_together(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (server, address), registered(BrokerConfig(namesrv_addr=address)) as it:
        codes = requests_of(server)
        for number in range(500):
            it.change(topic(f"N{number}"))
        await it.until(lambda: "N499" in server.registry.table.topics)
        assert len(codes) <= 2
        assert {f"N{number}" for number in range(500)} <= server.registry.table.topics.keys()


@in_loop
async def test_a_first_topic_alone_is_not_taken_for_a_change(tmp_path: Path) -> None:
    """Name servers refuse a broker they do not know that names one topic; then all topics are told."""
    address = free_address()
    async with registered(BrokerConfig(namesrv_addr=address)) as it:
        it.change(topic("T3"))
        async with name_server_at(address, tmp_path) as server:
            await it.seconds(1)
            await it.until_registered()
            assert {"T1", "T2", "T3"} <= server.registry.table.topics.keys()


@in_loop
async def test_topics_may_be_told_one_by_one(tmp_path: Path) -> None:
    config = BrokerConfig(enable_single_topic_register=True)
    async with name_server(tmp_path) as (server, address):
        config.namesrv_addr = address
        async with registered(config) as it:
            codes = requests_of(server)
            it.change(topic("T3"), topic("T4"))
            await it.until_said(3)
            assert codes == [RequestCode.REGISTER_TOPIC_IN_NAMESRV] * 2
            assert await queues_at(it, address, "T4") == QueueSettings(4, 4, 6, 0)


@pytest.mark.parametrize("is_forced", [True, False])
@in_loop
async def test_every_period(tmp_path: Path, is_forced: bool) -> None:
    config = BrokerConfig(force_register=is_forced, register_name_server_period=20_000)
    async with name_server(tmp_path) as (server, address):
        config.namesrv_addr = address
        async with registered(config) as it:
            codes = requests_of(server)
            expected = RequestCode.REGISTER_BROKER if is_forced else RequestCode.QUERY_DATA_VERSION
            for said, pause in ((1, 10), (2, 20), (3, 20)):
                await it.seconds(pause - 1)
                await asyncio.sleep(0.01)
                assert len(codes) == said - 1
                await it.seconds(1)
                await it.until_said(said + 1)
                assert codes == [expected] * said


@in_loop
async def test_a_name_server_that_knows_another_version_is_told_all(tmp_path: Path) -> None:
    config = BrokerConfig(force_register=False)
    async with name_server(tmp_path) as (server, address):
        config.namesrv_addr = address
        async with registered(config) as it:
            codes = requests_of(server)
            it.version = DataVersion(9, 0, 9)  # as after a deletion, of which nobody is told at once
            await it.seconds(10)
            await it.until_said(3)
            assert codes == [RequestCode.QUERY_DATA_VERSION, RequestCode.REGISTER_BROKER]


@pytest.mark.parametrize("is_compressed", [False, True])
@in_loop
async def test_the_brokers_permission_is_every_topics(tmp_path: Path, is_compressed: bool) -> None:
    config = BrokerConfig(broker_permission=4, compressed_register=is_compressed)
    async with name_server(tmp_path) as (_, address):
        config.namesrv_addr = address
        async with registered(config) as it:
            assert await queues_at(it, address, "T1") == QueueSettings(4, 4, 4, 0)
            it.change(topic("T3", perm=7))
            await it.until_said(2)
            assert await queues_at(it, address, "T3") == QueueSettings(4, 4, 4, 0)
            it.config = BrokerConfig(namesrv_addr=address, compressed_register=is_compressed)
            it.version = DataVersion(10, 0, 10)
            it.service.register_soon()
            await it.until_said(3)
            assert await queues_at(it, address, "T1") == QueueSettings(4, 4, 6, 0)
            assert await queues_at(it, address, "T3") == QueueSettings(4, 4, 7, 0)


@in_loop
async def test_a_large_table_is_told_compressed(tmp_path: Path) -> None:
    names = tuple(f"topic-{number}" for number in range(5_000))
    async with (
        name_server(tmp_path) as (server, address),
        registered(BrokerConfig(namesrv_addr=address, compressed_register=True), names) as it,
    ):
        assert set(names) <= server.registry.table.topics.keys()
        assert it.service.states[0].failure_count == 0


@in_loop
async def test_ordered_topics_come_with_the_answer(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, address), connections() as pool:
        await NameServerAdmin(pool, address).put_kv(ORDER_TOPIC_NAMESPACE, "T1", "broker-a:4")
        async with registered(BrokerConfig(namesrv_addr=address)) as it:
            assert it.order_topics == [{"T1": "broker-a:4"}]


@pytest.mark.parametrize("is_old", [True, False])
@in_loop
async def test_a_broker_that_others_may_stand_in_for_shows_life_every_second(tmp_path: Path, is_old: bool) -> None:
    config = BrokerConfig(enable_slave_acting_master=True, compatible_with_old_name_srv=is_old)
    async with name_server(tmp_path) as (server, address):
        config.namesrv_addr = address
        async with registered(config) as it:
            assert server.registry.table.brokers[IDENTITY.name].acting_master
            codes = requests_of(server)
            await it.seconds(1)
            await it.until(lambda: bool(codes))
            assert codes == [RequestCode.QUERY_DATA_VERSION if is_old else RequestCode.BROKER_HEARTBEAT]


@in_loop
async def test_name_servers_may_be_others_later(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path / "1") as (_, first),
        name_server(tmp_path / "2") as (server, second),
        registered(BrokerConfig(namesrv_addr=first)) as it,
    ):
        it.config = BrokerConfig(namesrv_addr=second)
        await it.seconds(1)
        await it.until_registered()
        assert [state.address for state in it.service.states] == [second]
        assert IDENTITY.name in server.registry.table.brokers


@in_loop
async def test_a_silent_name_server_does_not_hold_up_start_and_stop(tmp_path: Path) -> None:
    """It takes connections and says nothing."""
    loop = asyncio.get_running_loop()
    silent = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    silent_address = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    async with (
        silent,
        name_server(tmp_path) as (_, address),
        registered(BrokerConfig(namesrv_addr=f"{silent_address};{address}")) as it,
    ):
        assert [state.is_registered for state in it.service.states] == [False, True]
        it.change(topic("T3"))
        await it.until(lambda: it.service.states[1].success_count == 2)
        assert await queues_at(it, address, "T3") is not None


@pytest.mark.parametrize("has_keys", [True, False])
@in_loop
async def test_a_name_server_that_checks_signatures(tmp_path: Path, has_keys: bool) -> None:
    accounts = tmp_path / "accounts.toml"
    accounts.write_text('[[account]]\naccessKey = "k"\nsecretKey = "s3cret-s3cret"\nmay = ["register"]\n')
    environment = {"APOGEE_ACCESS_KEY": "k", "APOGEE_SECRET_KEY": "s3cret-s3cret"} if has_keys else {}
    guarded = {"aclEnable": "true", "aclAccountsFile": str(accounts)}
    async with (
        name_server(tmp_path / "1", guarded) as (server, address),
        registered(BrokerConfig(namesrv_addr=address), environment=environment) as it,
    ):
        (state,) = it.service.states
        assert state.is_registered == has_keys
        assert (IDENTITY.name in server.registry.table.brokers) == has_keys
        assert bool(state.problem) == (not has_keys)
