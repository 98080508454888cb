"""Topics made on the way, on the other masters of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from apogeemq.broker.config import BrokerConfig
from apogeemq.broker.handlers.admin_topics import TopicHandlers
from apogeemq.broker.outward import Outward
from apogeemq.broker.server import Broker
from apogeemq.broker.services.spread_topics import ATTEMPTS, TopicSpreading
from apogeemq.broker.settings import resolve_settings
from apogeemq.errors import RequestRefused
from apogeemq.model.topics import AUTO_CREATE_TOPIC, TopicConfig
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers.broker import SendMessage
from apogeemq.transport.broker_registration import BrokerIdentity
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher
from apogeemq.transport.flow import Limits
from apogeemq.transport.server import Server
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import connections, name_server, register, topics

TOPIC = TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)
FIELDS = {
    "topic": "T",
    "defaultTopic": "TBW102",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}


class OtherBroker:
    """Takes topics; refuses the first so many."""

    def __init__(self, refusals: int = 0) -> None:
        self.asked: list[dict[str, str]] = []
        self._refusals = refusals
        dispatcher = Dispatcher()
        dispatcher.register(RequestCode.UPDATE_AND_CREATE_TOPIC, self._create)
        self.server = Server(dispatcher, Limits())
        self.address = "{}:{}".format(*self.server.start("127.0.0.1", 0))

    def _create(self, channel: Channel, command: Command) -> bytes:
        self.asked.append(command.fields())
        if len(self.asked) <= self._refusals:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "not now")
        return encode_reply(command, ResponseCode.SUCCESS)


class Cluster:
    def __init__(self, outward: Outward, name_server_address: str) -> None:
        self.outward = outward
        self.config = BrokerConfig(
            namesrv_addr=name_server_address,
            broker_name="own",
            broker_cluster_name="c",
            auto_create_topic_on_all_brokers=True,
        )
        self.spreading = TopicSpreading(outward, lambda: self.config, first_pause_seconds=0.001)
        self.others: list[OtherBroker] = []

    async def add(
        self, name: str, *, cluster: str = "c", broker_id: int = 0, has: str = "X", refusals: int = 0
    ) -> OtherBroker:
        other = OtherBroker(refusals)
        self.others.append(other)
        identity = BrokerIdentity(cluster, name, broker_id, other.address)
        await register(self.outward.pool, self.config.namesrv_addr, identity, topics(has, "Y"))
        return other

    async def spread(self) -> None:
        self.spreading.topic_created(TOPIC)
        if self.spreading._task is not None:
            await self.spreading._task


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    async with name_server(folder) as (_, address):
        outward = Outward(lambda: BrokerConfig(namesrv_addr=address), {}, {})
        it = Cluster(outward, address)
        await it.add("own")
        try:
            yield it
        finally:
            await it.spreading.stop()
            await outward.close()
            for other in it.others:
                await other.server.stop()


@in_loop
async def test_every_other_master_of_the_cluster_gets_it(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        one, two = await it.add("one"), await it.add("two")
        not_asked = [
            it.others[0],
            await it.add("elsewhere", cluster="d"),
            await it.add("slave", broker_id=1),
            await it.add("has it", has="T"),
        ]
        await it.spread()
        assert (one.asked, two.asked) == ([FIELDS], [FIELDS])
        assert [other.asked for other in not_asked] == [[], [], [], []]


@in_loop
async def test_only_when_it_is_wanted(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        other = await it.add("one")
        it.config.auto_create_topic_on_all_brokers = False
        await it.spread()
        assert other.asked == []


@in_loop
async def test_a_broker_that_refuses_is_asked_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        one, two = await it.add("one", refusals=2), await it.add("two")
        await it.spread()
        assert (len(one.asked), len(two.asked)) == (3, 1)


@in_loop
async def test_trying_has_an_end_and_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(tmp_path) as it:
        one = await it.add("one", refusals=100)
        await it.spread()
        assert len(one.asked) == ATTEMPTS
        assert "topic T is not on every broker of the cluster: one: " in caplog.text


@in_loop
async def test_without_a_name_server_it_stays_here(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outward = Outward(BrokerConfig, {}, {})
    config = BrokerConfig(auto_create_topic_on_all_brokers=True)
    spreading = TopicSpreading(outward, lambda: config, first_pause_seconds=0.0)
    spreading.topic_created(TOPIC)
    assert spreading._task is not None
    await spreading._task
    assert "no name server address is known" in caplog.text
    await outward.close()


@asynccontextmanager
async def broker(name: str, folder: Path, name_servers: str) -> AsyncIterator[tuple[Broker, str]]:
    properties = {
        "autoCreateTopicOnAllBrokers": "true",
        "bindAddress": "127.0.0.1",
        "brokerName": name,
        "listenPort": "0",
        "mappedFileSizeCommitLog": str(1 << 20),
        "namesrvAddr": name_servers,
        "storePathRootDir": str(folder),
        "tls.server.mode": "disabled",
    }
    settings, _ = resolve_settings(properties, {}, home=folder, host_name="h", local_address="127.0.0.1")
    server = Broker(settings, {})
    try:
        host, port = await server.start()
        yield server, f"{host}:{port}"
    finally:
        await server.stop()


@in_loop
async def test_a_send_to_one_broker_makes_the_topic_on_the_other(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path / "n") as (registry, address),
        broker("a", tmp_path / "a", address) as (_, first),
        broker("b", tmp_path / "b", address) as (other, _),
        connections() as pool,
    ):
        TopicHandlers(other.state).install(other.dispatcher)
        header = SendMessage("T", 0, 0, 1, 0, "g", AUTO_CREATE_TOPIC, 4)
        answer = await pool.request(first, RequestCode.SEND_MESSAGE_V2, write_fields(header), b"body")
        assert answer.code == ResponseCode.SUCCESS
        async with asyncio.timeout(20):
            while registry.registry.table.topics.get("T", {}).keys() != {"a", "b"}:
                await asyncio.sleep(0.01)
        made = other.state.topics.get("T")
        assert made is not None
        assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (4, 4, 6)
