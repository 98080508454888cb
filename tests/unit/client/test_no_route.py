"""A topic without a route: each cause, with real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from apogeemq.client import Producer, PullConsumer
from apogeemq.client.route_cache import NewTopic, RouteCache
from apogeemq.errors import ApogeeError, NoRoute, RouteCause
from apogeemq.transport.discovery import find_source
from apogeemq.transport.name_servers import NameServerClient
from tests.unit.broker.registering import free_address
from tests.unit.client.cluster import cluster
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import broker, connections, name_server, register, topics
from tests.unit.transport.address_servers import AddressServer


async def failure(address: str) -> NoRoute:
    """Of a send; that of a reader must have the same cause."""
    async with Producer(address, group="P") as producer:
        with pytest.raises(NoRoute, match="no route of topic T: ") as caught:
            await producer.send("T", b"x")
    async with PullConsumer(address, group="G") as reader:
        with pytest.raises(NoRoute, match="no route of topic T: ") as again:
            await reader.subscribe_queues("T")
    assert again.value.cause is caught.value.cause
    assert caught.value.retriable and caught.value.refresh_routes
    return caught.value


@asynccontextmanager
async def hanging_up() -> AsyncIterator[str]:
    """Takes connections and closes them."""

    def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"


@in_loop
async def test_no_name_server_is_reached() -> None:
    refusing = free_address()
    async with hanging_up() as silent:
        error = await failure(f"{refusing};{silent}")
    assert error.cause is RouteCause.NO_NAME_SERVER
    assert f"{refusing} (cannot connect to {refusing}: Connection refused)" in str(error)
    assert f"{silent} (" in str(error)


@in_loop
async def test_no_address_of_a_name_server() -> None:
    with AddressServer() as site:
        site.answer = (500, b"")
        error = await failure(f"http://{site.domain}/rocketmq/nsaddr")
    assert error.cause is RouteCause.NO_NAME_SERVER
    assert "no name server address is known" in str(error) and "status 500" in str(error)


@in_loop
async def test_no_broker_is_registered(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, address):
        error = await failure(address)
    assert error.cause is RouteCause.NO_BROKER
    assert f"no broker is registered at the name server {address}" in str(error)


@in_loop
async def test_no_broker_makes_topics(tmp_path: Path) -> None:
    async with cluster(tmp_path, autoCreateTopicEnable="false") as it:
        error = await failure(it.address)
    assert error.cause is RouteCause.NO_AUTO_CREATION
    assert "autoCreateTopicEnable is off" in str(error) and "create it first" in str(error)


@in_loop
async def test_nobody_has_made_it_yet(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        async with PullConsumer(it.address, group="G") as reader:
            with pytest.raises(NoRoute, match="made by the first message to it") as caught:
                await reader.subscribe_queues("T")
        assert caught.value.cause is RouteCause.NOT_YET
        async with Producer(it.address, group="P") as producer:
            await producer.send("T", b"x")
            await producer._running.routes.ask("TBW102")


@in_loop
async def test_not_yet_spread(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path / "1") as (_, first),
        name_server(tmp_path / "2") as (_, second),
        connections() as pool,
    ):
        await register(pool, first, broker("broker-a"), topics("other", "more"))
        await register(pool, second, broker("broker-a"), topics("T", "other"))
        name_servers = NameServerClient(pool, find_source(f"{first};{second}", {}), choose_start=lambda count: 0)
        routes = RouteCache(pool, name_servers, lambda topic: None)
        for ask in (routes.get("T", NewTopic("TBW102", 4)), routes.get("T"), routes.ask("T")):
            with pytest.raises(NoRoute, match=f"the name server {second} knows it, but {first} does not") as caught:
                await ask
            assert caught.value.cause is RouteCause.NOT_YET
        await name_servers.close()


@in_loop
async def test_nobody_may_be_sent_to(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, connections() as pool:
        await it.make_topic("closed", 1, perm=4)
        await register(pool, it.address, broker("broker-s", 1), topics("slave-only", "more"))
        async with Producer(it.address, group="P") as producer:
            for topic, cause in (("closed", RouteCause.NOT_WRITABLE), ("slave-only", RouteCause.NO_MASTER)):
                with pytest.raises(NoRoute, match=f"no queue of topic {topic} can be sent to") as caught:
                    await producer.send(topic, b"x")
                assert caught.value.cause is cause


def test_every_error_says_whether_to_try_again_and_whether_routes_are_stale() -> None:
    def kinds(kind: type[ApogeeError]) -> list[type[ApogeeError]]:
        below = [each for each in kind.__subclasses__() if each.__module__ == ApogeeError.__module__]
        return [kind, *(each for one in below for each in kinds(one))]

    stale = {kind.__name__ for kind in kinds(ApogeeError) if kind.refresh_routes}
    again = {kind.__name__ for kind in kinds(ApogeeError) if kind.retriable}
    assert stale == {"ConnectFailed", "ConnectionLost", "RequestTimedOut", "NoRoute"}
    assert again == stale | {"TooManyRequests", "NoNameServer"}
