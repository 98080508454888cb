"""Where clients find their name servers and brokers, and how soon they notice that these are others."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.client import ClientOptions, Message, MessageQueue, Producer, ProducerOptions
from apogeemq.client.instance import ClientInstance
from apogeemq.errors import SendFailed
from apogeemq.nameserver.server import NameServer
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from apogeemq.transport.discovery import REFRESH_SECONDS
from apogeemq.transport.pool import ConnectionPool
from tests.unit.broker.registering import free_address
from tests.unit.client.cluster import Cluster, cluster, eventually
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import broker, connections, name_server, register, topics
from tests.unit.transport.address_servers import AddressServer

NEVER = 3600.0
UNWATCHED = ClientOptions(watches_routes=False, route_poll_seconds=NEVER)
ONLY_WATCHED = ClientOptions(watches_routes=True, route_poll_seconds=NEVER)


def route_questions(server: NameServer) -> list[str]:
    """The topics a name server is asked for from now on."""
    asked: list[str] = []

    def note(channel: Channel, command: Command) -> None:
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            asked.append(command.fields()["topic"])

    server.dispatcher.before.append(note)
    return asked


async def two_brokers(where: Cluster) -> None:
    for name in where.brokers:
        await where.make_topic("T", 2, name)


async def brokers_of(producer: Producer) -> set[str]:
    return {queue.broker_name for queue in await producer.queues("T")}


async def until_brokers_are(producer: Producer, *names: str) -> None:
    """Without a question to a name server."""
    await eventually(lambda: {queue.broker_name for queue in known_queues(producer)} == set(names))


def known_queues(producer: Producer) -> tuple[MessageQueue, ...]:
    assert producer._destinations is not None
    info = producer._destinations.known("T")
    return info.queues if info is not None else ()


# -- brokers that come and go --------------------------------------------------------------------------------


@in_loop
async def test_a_producer_leaves_a_broker_that_goes_without_having_asked(tmp_path: Path) -> None:
    async with cluster(tmp_path, "broker-a") as it:
        leaving = await it.add_broker("broker-b")
        await two_brokers(it)
        async with Producer(it.address, group="P", client=ONLY_WATCHED) as producer:
            assert await brokers_of(producer) == {"broker-a", "broker-b"}
            await eventually(lambda: "T" in producer._running.routes._digests)
            asked = route_questions(it.name_server)
            await leaving.aclose()
            await until_brokers_are(producer, "broker-a")
            assert producer._running.master_of("broker-b") is None
            results = [await producer.send("T", b"x") for _ in range(4)]
            assert {result.queue.broker_name for result in results} == {"broker-a"}
            assert asked == []
            await it.add_broker("broker-c")
            await it.make_topic("T", 2, "broker-c")
            await until_brokers_are(producer, "broker-a", "broker-c")


@in_loop
async def test_a_producer_leaves_a_broker_that_is_gone_without_a_word(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P", client=ONLY_WATCHED) as producer:
        await it.make_topic("T", 2)
        pool = ConnectionPool()
        await register(pool, it.address, broker("broker-b"), topics("T", "U"))
        assert await brokers_of(producer) == {"broker-a", "broker-b"}
        await eventually(lambda: "T" in producer._running.routes._digests)
        await pool.close()
        await until_brokers_are(producer, "broker-a")


@in_loop
async def test_a_producer_leaves_a_broker_that_may_not_be_written_to_any_more(tmp_path: Path) -> None:
    async with cluster(tmp_path, "broker-a", "broker-b") as it, connections() as pool:
        await two_brokers(it)
        async with Producer(it.address, group="P", client=ONLY_WATCHED) as producer:
            assert await brokers_of(producer) == {"broker-a", "broker-b"}
            await eventually(lambda: "T" in producer._running.routes._digests)
            asked = route_questions(it.name_server)
            wipe = {"brokerName": "broker-b"}
            await pool.request(it.address, RequestCode.WIPE_WRITE_PERM_OF_BROKER, wipe)
            await until_brokers_are(producer, "broker-a")
            assert producer._running.master_of("broker-b") is not None  # it is still read from
            await pool.request(it.address, RequestCode.ADD_WRITE_PERM_OF_BROKER, wipe)
            await until_brokers_are(producer, "broker-a", "broker-b")
            assert asked == []


@in_loop
async def test_routes_are_polled(tmp_path: Path) -> None:
    client = ClientOptions(watches_routes=False, route_poll_seconds=0.02)
    async with cluster(tmp_path, "broker-a", "broker-b") as it, connections() as pool:
        await two_brokers(it)
        async with Producer(it.address, group="P", client=client) as producer:
            assert await brokers_of(producer) == {"broker-a", "broker-b"}
            await pool.request(it.address, RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-b"})
            await until_brokers_are(producer, "broker-a")


@in_loop
async def test_a_failed_send_finds_the_new_route_for_the_next(tmp_path: Path) -> None:
    async with cluster(tmp_path, "broker-a") as it:
        leaving = await it.add_broker("broker-b")
        await two_brokers(it)
        options = ProducerOptions(retries=0)
        async with Producer(it.address, group="P", client=UNWATCHED, options=options) as producer:
            assert await brokers_of(producer) == {"broker-a", "broker-b"}
            await leaving.aclose()
            with pytest.raises(SendFailed):
                for _ in range(4):
                    await producer.send("T", b"x")
            await until_brokers_are(producer, "broker-a")


@in_loop
async def test_sending_goes_on_while_all_name_servers_are_gone_or_empty(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Producer(it.address, group="P") as producer:
            await producer.send("T", b"x")
            routes = producer._running.routes
            async with name_server(tmp_path / "new") as (_, empty):
                producer._running.name_servers.book.replace([empty])
                await routes.refresh_all()
                await producer.send("T", b"x")
            await routes.refresh_all()
            await producer.send("T", b"x")


@in_loop
async def test_an_ordered_topic_keeps_the_queues_of_its_configuration(tmp_path: Path) -> None:
    ordering = {"orderMessageEnable": "true"}
    async with cluster(tmp_path, "broker-a", "broker-b", names=ordering) as it, connections() as pool:
        await two_brokers(it)
        config = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-b:2;broker-a:1"}
        await pool.request(it.address, RequestCode.PUT_KV_CONFIG, config)
        async with Producer(it.address, group="P") as producer:
            expected = [("broker-b", 0), ("broker-b", 1), ("broker-a", 0)]
            assert [(queue.broker_name, queue.queue_id) for queue in await producer.queues("T")] == expected
            await producer.send("T", b"x", sharding_key="k")


@in_loop
async def test_a_new_topic_has_the_smaller_number_of_queues(tmp_path: Path) -> None:
    async with cluster(tmp_path, defaultTopicQueueNums="8") as it:
        for asked, expected in ((4, 4), (16, 8)):
            options = ProducerOptions(default_topic_queues=asked)
            async with Producer(it.address, group="P", options=options) as producer:
                assert len(await producer.queues(f"T{asked}")) == expected
                await producer.send(f"T{asked}", b"x")
                made = it.state.topics.get(f"T{asked}")
                assert made is not None and made.write_queue_nums == expected


# -- name servers --------------------------------------------------------------------------------------------


@in_loop
async def test_a_list_with_one_that_is_down(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        for servers in (f"{free_address()};{it.address}", f"{it.address};{free_address()}"):
            async with Producer(servers, group="P") as producer:
                for _ in range(3):
                    await producer.send("T", b"x")
                instance = producer._running
                assert instance.name_servers.book.current == it.address
                await instance.routes.refresh("T")
                assert instance.name_servers.book.current == it.address


@in_loop
async def test_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster(tmp_path) as it:
        monkeypatch.setenv("NAMESRV_ADDR", f"{free_address()};{it.address}")
        async with Producer(group="P") as producer, Producer(group="Q") as other:
            await producer.send("T", b"x")
            assert other._instance is producer._instance


@in_loop
async def test_a_name(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        port = it.address.rpartition(":")[2]
        for name in (f"localhost:{port}", f"dns:localhost:{port}", f"dns:///localhost:{port}"):
            async with Producer(name, group="P") as producer:
                await producer.send("T", b"x")


@in_loop
async def test_an_address_server_is_asked_again_every_two_minutes(tmp_path: Path) -> None:
    with AddressServer() as site:
        async with cluster(tmp_path / "1") as old, cluster(tmp_path / "2", "broker-b") as new:
            site.answer = (200, f"{old.address}\n".encode())
            url = f"http://{site.domain}/rocketmq/nsaddr"
            async with Producer(url, group="P", client=ClientOptions(watches_routes=False)) as producer:
                assert (await producer.send("T", b"x")).queue.broker_name == "broker-a"
                site.answer = (200, f"{new.address}\n".encode())
                await seconds_pass(producer._running, REFRESH_SECONDS - 2)  # one may have passed by itself
                assert producer._running.name_servers.book.addresses == (old.address,)
                await seconds_pass(producer._running, 2)
                await eventually(lambda: producer._running.name_servers.book.addresses == (new.address,))
                assert (await producer.send("U", b"x")).queue.broker_name == "broker-b"
                assert len(site.paths) == 2


@in_loop
async def test_new_topics_end_no_connection_where_sends_are_hurried(tmp_path: Path) -> None:
    """The route watch is given up for a longer one with each of them, over the connection that asks for routes."""
    options = ClientOptions(unacknowledged_seconds=60.0)
    async with cluster(tmp_path) as it, Producer(it.address, group="P", client=options) as producer:
        pool = producer._running.pool
        await producer.send("T0", b"x")
        before = dict(pool.channels)
        assert set(before) == {it.address, it.broker_address}
        for number in range(1, 5):
            await producer.send(f"T{number}", b"x")
        assert pool.channels == before
        assert pool.channels[it.broker_address]._hurried is not None
        assert pool.channels[it.address]._hurried is None


async def seconds_pass(instance: ClientInstance, count: int) -> None:
    for _ in range(count):
        await instance._tick()


@in_loop
async def test_apaches_convention_for_address_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with AddressServer() as site:
        async with cluster(tmp_path) as it:
            site.answer = (200, it.address.encode())
            monkeypatch.delenv("NAMESRV_ADDR", raising=False)
            monkeypatch.setenv("ROCKETMQ_NAMESRV_DOMAIN", site.domain)
            async with Producer(group="P", client=ClientOptions(unit_name="u")) as producer:
                await producer.send_one_way(Message("T", b"x"))
                await producer.send("T", b"x")
            assert site.paths == ["/rocketmq/nsaddr-u?nofix=1"]
