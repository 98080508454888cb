"""What the producers and consumers of a process share."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from apogeemq.client import ClientOptions, Consumer, Producer
from apogeemq.client.instance import ClientInstance, _instances, joined_instance
from apogeemq.errors import ConfigError, WrongState
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from tests.unit.client.cluster import Cluster, client_tasks, cluster, eventually, named
from tests.unit.event_loop import in_loop

NOWHERE = "127.0.0.1:1"


def asked_of(where: Cluster, code: int) -> list[Command]:
    """The requests of a kind a broker gets from now on."""
    asked: list[Command] = []

    def note(channel: Channel, command: Command) -> None:
        if command.code == code:
            asked.append(command)

    where.brokers["broker-a"].server.dispatcher.before.append(note)
    return asked


# -- ids -----------------------------------------------------------------------------------------------------


@in_loop
async def test_client_ids() -> None:
    named_one = ClientInstance(NOWHERE, ClientOptions(client_ip="10.0.0.1", instance_name="me", unit_name="u"))
    assert named_one.client_id == named_one.lasting_id == "10.0.0.1@me@u"
    options = ClientOptions(client_ip="10.0.0.1")
    one, other = ClientInstance(NOWHERE, options), ClientInstance(NOWHERE, options)
    assert one.client_id.startswith(f"10.0.0.1@{os.getpid()}#")
    assert one.client_id != other.client_id
    assert one.lasting_id == other.lasting_id == "10.0.0.1@DEFAULT"


@in_loop
async def test_unique_ids_begin_with_the_address() -> None:
    for client_ip, begin in (("10.0.0.1", "0A000001"), ("a-name", "7F000001")):
        instance = ClientInstance(NOWHERE, ClientOptions(client_ip=client_ip))
        assert instance.unique_ids.next(1_700_000_000_000).startswith(begin)


# -- sharing -------------------------------------------------------------------------------------------------


@in_loop
async def test_equal_options_share_an_instance_and_its_connections(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        before = len(it.brokers["broker-a"].server.channels)
        async with Producer(it.address, group="P") as one, Producer(it.address, group="Q") as two:
            assert one._instance is two._instance
            await one.send("T", b"x")
            await two.send("T", b"x")
            assert len(it.brokers["broker-a"].server.channels) == before + 1
            async with Producer(it.address, group="P", client=named("other")) as apart:
                assert apart._instance is not one._instance
        assert not _instances


@in_loop
async def test_the_last_one_out_turns_off_the_light(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        first, second = Producer(it.address, group="P"), Producer(it.address, group="Q")
        await first.start()
        await second.start()
        await first.stop()
        assert client_tasks()
        await second.send("T", b"still works")
        await second.stop()
        assert not _instances
        await eventually(lambda: not client_tasks())


@in_loop
async def test_a_group_once(tmp_path: Path) -> None:
    instance = joined_instance(NOWHERE, ClientOptions())
    producer, twin = Producer(NOWHERE, group="P"), Producer(NOWHERE, group="P")
    consumer = Consumer(NOWHERE, group="P", topic="T")  # consumers are another matter
    instance.add_producer(producer)
    with pytest.raises(WrongState, match="producer group P is in use"):
        instance.add_producer(twin)
    instance.add_consumer(consumer)
    with pytest.raises(WrongState, match="consumer group P is in use"):
        instance.add_consumer(Consumer(NOWHERE, group="P", topic="T"))
    await instance.remove_producer(twin)  # was never in
    assert instance.producers == {"P": producer}
    await instance.remove_producer(producer)
    await instance.remove_consumer(consumer)
    assert not _instances


@in_loop
async def test_wrong_settings_are_told_at_the_start() -> None:
    with pytest.raises(ConfigError, match="not of the form host:port"):
        await Producer("nonsense", group="P").start()
    assert not _instances


# -- heartbeats ----------------------------------------------------------------------------------------------


@in_loop
async def test_heartbeats_are_repeated(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        beats = asked_of(it, RequestCode.HEART_BEAT)
        async with Producer(it.address, group="P", client=ClientOptions(heartbeat_seconds=0.02)) as producer:
            await producer.send("T", b"x")
            await eventually(lambda: len(beats) >= 4)


@in_loop
async def test_whoever_is_new_is_told_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, "broker-a") as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        await producer.send("T", b"x")
        await eventually(lambda: it.state.clients.producers.get("P"))
        await it.add_broker("broker-b")
        await it.make_topic("T", 1, "broker-b")
        await eventually(lambda: it.brokers["broker-b"].state.clients.producers.get("P"))


@in_loop
async def test_a_broker_that_is_gone_keeps_nobody_from_leaving(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        leaving = await it.add_broker("broker-b")
        for name in it.brokers:
            await it.make_topic("T", 1, name)
        async with Consumer(it.address, group="G", topic="T") as consumer:
            assert consumer._membership is not None
            await consumer._membership.is_settled.wait()
            await leaving.aclose()
        assert not _instances


@in_loop
async def test_a_cancelled_farewell_still_ends_the_instance(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        held: list[asyncio.Future[bytes]] = []

        def hold(channel: Channel, command: Command) -> asyncio.Future[bytes]:
            held.append(asyncio.get_running_loop().create_future())
            return held[-1]

        it.brokers["broker-a"].server.dispatcher.register(RequestCode.UNREGISTER_CLIENT, hold)
        producer = Producer(it.address, group="P")
        await producer.start()
        await producer.send("T", b"x")
        await eventually(lambda: producer._instance is not None and producer._instance._heard_of)
        stopping = asyncio.ensure_future(producer.stop())
        await eventually(lambda: held)
        stopping.cancel()
        await asyncio.wait((stopping,))
        assert stopping.cancelled() and not _instances
        held[0].cancel()


# -- addresses -----------------------------------------------------------------------------------------------


@in_loop
async def test_addresses_of_a_container_network_are_mapped(tmp_path: Path) -> None:
    async with cluster(tmp_path, "broker-a", brokerIP1="10.77.0.1") as it:
        port = it.broker_address.rpartition(":")[2]
        client = ClientOptions(address_map={f"10.77.0.1:{port}": it.broker_address})
        async with Producer(it.address, group="P", client=client) as producer:
            await producer.send("T", b"x")
            assert producer._running.routes.broker_addresses(only_masters=True) == {f"10.77.0.1:{port}"}


@in_loop
async def test_the_second_port_is_two_below(tmp_path: Path) -> None:
    instance = ClientInstance(NOWHERE, ClientOptions(uses_vip_channel=True, address_map={"a:5": "b:10911"}))
    assert instance._reached_at("10.0.0.1:10911") == "10.0.0.1:10909"
    assert instance._reached_at("a:5") == "b:10909"


# -- what brokers ask ----------------------------------------------------------------------------------------


@in_loop
async def test_brokers_may_tell_of_groups_we_do_not_have(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await producer.send("T", b"x")
        await eventually(lambda: it.state.clients.producers.get("P"))
        (client,) = it.state.clients.producers["P"].values()
        client.channel.send_one_way(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "unknown"})
        await producer.send("T", b"the connection lives on")
