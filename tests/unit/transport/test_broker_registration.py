"""A broker's side of the protocol against a name server of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.admin.nameserver import NameServerAdmin
from apogeemq.errors import RemoteRefused
from apogeemq.model.routes import DataVersion
from apogeemq.model.topics import ORDER_TOPIC_NAMESPACE
from apogeemq.protocol.bodies.registration import Registration
from apogeemq.transport.broker_registration import BrokerRegistration
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import broker, connections, name_server, register, topics

VERSION = DataVersion(counter=1, timestamp=1)


@in_loop
async def test_a_slave_learns_its_master_and_the_ordered_topics(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, address), connections() as pool:
        await NameServerAdmin(pool, address).put_kv(ORDER_TOPIC_NAMESPACE, "T1", "broker-a:4")
        await register(pool, address, broker("broker-a"), topics("T1", "T2"))
        slave = BrokerRegistration(pool, address, broker("broker-a", 1))
        answer = await slave.register(Registration(VERSION, topics("T1", "T2")))
    assert answer.master_address == broker("broker-a").address
    assert answer.ha_address == broker("broker-a").ha_address
    assert answer.order_topics == {"T1": "broker-a:4"}


@in_loop
async def test_version_heartbeat_and_leaving(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, address), connections() as pool:
        registration = BrokerRegistration(pool, address, broker("broker-a"))
        assert await registration.is_changed(VERSION)
        await registration.heartbeat()
        await registration.register(Registration(VERSION, topics("T1", "T2")))
        assert not await registration.is_changed(VERSION)
        assert await registration.is_changed(DataVersion(counter=2, timestamp=1))
        admin = NameServerAdmin(pool, address)
        assert await admin.route("T1") is not None
        await registration.unregister()
        assert await admin.route("T1") is None


@in_loop
async def test_a_first_registration_of_one_topic_is_refused_as_apache_does(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, address), connections() as pool:
        with pytest.raises(RemoteRefused, match="register broker failed"):
            await register(pool, address, broker("broker-a"), topics("T1"))


@in_loop
async def test_a_broker_leaves_with_its_connection(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, address), connections() as pool:
        admin = NameServerAdmin(pool, address)
        async with connections() as own:
            await register(own, address, broker("broker-a"), topics("T1", "T2"))
            digest = (await admin.watch_routes({"T1": ""}, timeout_seconds=0))["T1"].digest
        changed = await admin.watch_routes({"T1": digest}, timeout_seconds=10)
        assert changed["T1"].route is None
