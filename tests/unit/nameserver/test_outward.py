"""Calls the name server makes itself: to the product environment's name servers, and to brokers."""

from __future__ import annotations

import json

import pytest

from apogeemq.protocol.bodies.routes import decode_route
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.nameserver import NotifyMinBrokerIdChange, read_notify_min_broker_id
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher
from apogeemq.transport.flow import Limits
from apogeemq.transport.server import Server
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import Home, eventually

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


# -- cluster test: routes this server lacks come from the product environment -----------------------------------


@in_loop
async def test_missing_routes_are_asked_of_the_product_environment(home: Home) -> None:
    async with home.serve() as product:
        await product.client().register("product", topics=["T", "P"])
        test_home = Home(home.folder / "test")
        async with test_home.serve(clusterTest="true", productNamesrvAddr=product.address) as running:
            await running.client().register("local", topics=["T", "L"])
            client = running.client()
            local = await client.ok(ROUTE, topic="T")
            assert list(decode_route(local.body).queues) == ["local"]
            foreign = await client.ok(ROUTE, topic="P")
            assert list(decode_route(foreign.body).queues) == ["product"]
            assert b'"brokerAddrs":{0:' in foreign.body
            assert await client.route("neither") is None
            assert list(running.table.brokers) == ["local"]


@in_loop
async def test_only_route_queries_differ_in_cluster_test_mode(home: Home) -> None:
    async with home.serve() as product:
        await product.client().register("product")
        test_home = Home(home.folder / "test")
        async with test_home.serve(clusterTest="true", productNamesrvAddr=product.address) as running:
            client = running.client()
            topics = await client.ok(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            assert json.loads(topics.body) == {"topicList": []}
            await client.register()
            assert "TopicA" in running.table.topics


@in_loop
async def test_order_configuration_always_comes_with_routes_in_cluster_test_mode(home: Home) -> None:
    async with home.serve(clusterTest="true", productNamesrvAddr="127.0.0.1:1") as running:
        client = running.client()
        await client.register()
        await client.ok(RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="TopicA", value="broker-a:4")
        assert (await client.route("TopicA") or {})["orderTopicConf"] == "broker-a:4"


@in_loop
async def test_product_environment_that_is_not_there_is_no_route(home: Home) -> None:
    async with home.serve(clusterTest="true", productNamesrvAddr="127.0.0.1:1") as running:
        client = running.client()
        assert await client.route("T") is None
        await client.register()
        assert await client.route("TopicA") is not None


# -- notices of the lowest id -------------------------------------------------------------------------------------


class ListeningBroker:
    """A broker's port that takes notices."""

    def __init__(self) -> None:
        self.heard: list[NotifyMinBrokerIdChange] = []
        dispatcher = Dispatcher()
        dispatcher.register(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, self.take)
        self.server = Server(dispatcher, Limits())
        host, port = self.server.start("127.0.0.1", 0)
        self.address = f"{host}:{port}"

    def take(self, channel: Channel, command: Command) -> None:
        assert command.is_one_way
        self.heard.append(read_notify_min_broker_id(command))


@in_loop
async def test_brokers_are_told_when_the_lowest_id_of_their_group_changes(home: Home) -> None:
    master, slave, other = ListeningBroker(), ListeningBroker(), ListeningBroker()
    async with home.serve(notifyMinBrokerIdChanged="true") as running:
        await running.client().register(broker_id=1, address=slave.address, acting=True)
        await running.client().register(broker_id=2, address=other.address, acting=True)
        connection = running.client()
        await connection.register(broker_id=0, address=master.address, acting=True, ha_address="ha:1")
        await eventually(lambda: slave.heard and other.heard)
        arrived = NotifyMinBrokerIdChange(0, None, master.address, None, "ha:1")
        assert (slave.heard, other.heard, master.heard) == ([arrived], [arrived], [])
        await running.closed(connection)
        await eventually(lambda: len(slave.heard) == 2 and len(other.heard) == 2)
        left = NotifyMinBrokerIdChange(1, None, slave.address, master.address, None)
        assert (slave.heard[1], other.heard[1]) == (left, left)
        assert master.heard == []
    for broker in (master, slave, other):
        await broker.server.stop()


@in_loop
async def test_broker_that_cannot_be_told_disturbs_nobody(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    listening = ListeningBroker()
    async with home.serve(notifyMinBrokerIdChanged="true") as running:
        await running.client().register(broker_id=1, address="127.0.0.1:1")
        await running.client().register(broker_id=2, address=listening.address)
        await running.client().register(broker_id=3, address="no address at all")
        await running.client().register(broker_id=0)
        await eventually(lambda: len(listening.heard) == 1 and "no address at all" in caplog.text)
    assert "was not told" in caplog.text
    await listening.server.stop()
