"""Routes: fetched once, kept fresh, and told of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from apogeemq.client import route_cache
from apogeemq.client.route_cache import NewTopic, RouteCache
from apogeemq.errors import NoRoute, RemoteRefused, RequestRefused, WrongState
from apogeemq.nameserver.server import NameServer
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.transport.broker_registration import BrokerIdentity
from apogeemq.transport.channel import Channel
from apogeemq.transport.discovery import find_source
from apogeemq.transport.name_servers import NameServerClient
from apogeemq.transport.pool import ConnectionPool
from tests.unit.client.cluster import eventually
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import broker, connections, name_server, register, topics

ALSO = "another"  # a name server takes a single topic for an update of a broker it knows
LIKE_DEFAULT = NewTopic("TBW102", 4)


class Cached:
    def __init__(self, pool: ConnectionPool, address: str) -> None:
        self.pool = pool
        self.address = address
        self.changes: list[str] = []
        self.name_servers = NameServerClient(pool, find_source(address, {}), choose_start=lambda count: 0)
        self.routes = RouteCache(pool, self.name_servers, self.changes.append)

    async def register(self, name: str, *names: str, broker_id: int = 0, version: int = 1, queues: int = 4) -> None:
        table = topics(*names, ALSO, queues=queues)
        await register(self.pool, self.address, broker(name, broker_id), table, version)

    async def close(self) -> None:
        await self.name_servers.close()


def asked_of(server: NameServer) -> list[str]:
    """The topics whose routes a name server is asked for, from now on."""
    asked: list[str] = []

    def note(channel: Channel, command: Command) -> None:
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            asked.append(command.fields()["topic"])

    server.dispatcher.before.append(note)
    return asked


@asynccontextmanager
async def caching(folder: Path) -> AsyncIterator[tuple[Cached, list[str]]]:
    async with name_server(folder) as (server, address), connections() as pool:
        cached = Cached(pool, address)
        yield cached, asked_of(server)
        await cached.close()


@asynccontextmanager
async def watched(routes: RouteCache) -> AsyncIterator[None]:
    watching = asyncio.ensure_future(routes.watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait((watching,))


@in_loop
async def test_a_route_is_fetched_once(tmp_path: Path) -> None:
    async with caching(tmp_path) as (it, asked):
        await it.register("broker-a", "T")
        assert it.routes.known("T") is None
        routes = await asyncio.gather(*(it.routes.get("T") for _ in range(5)))
        assert all(route is routes[0] for route in routes)
        assert await it.routes.get("T") is it.routes.known("T")
        assert (asked, it.changes, it.routes.topics) == (["T"], ["T"], ["T"])


@in_loop
async def test_only_a_change_is_told(tmp_path: Path) -> None:
    async with caching(tmp_path) as (it, asked):
        await it.register("broker-a", "T")
        await it.routes.get("T")
        await it.routes.refresh_all()
        assert (asked, it.changes) == (["T", "T"], ["T"])
        await it.register("broker-b", "T")
        await it.routes.refresh_all()
        assert it.changes == ["T", "T"]


@in_loop
async def test_whoever_gives_up_waiting_does_not_spoil_it_for_others(tmp_path: Path) -> None:
    async with caching(tmp_path) as (it, _):
        await it.register("broker-a", "T")
        first, second = (asyncio.ensure_future(it.routes.get("T")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert set((await second).queues) == {"broker-a"}


@in_loop
async def test_refreshed_in_the_background(tmp_path: Path) -> None:
    async with caching(tmp_path) as (it, _):
        await it.register("broker-a", "T")
        await it.routes.get("T")
        await it.register("broker-b", "T")
        it.routes.refresh_soon("T")
        it.routes.refresh_soon("T")
        it.routes.refresh_soon("nobody's")  # that it fails matters to nobody
        await eventually(lambda: it.changes == ["T", "T"] and not it.routes._fetching)


# -- topics that do not exist --------------------------------------------------------------------------------


@in_loop
async def test_a_reader_that_asks_at_the_same_time_does_not_keep_a_topic_from_being_made(tmp_path: Path) -> None:
    async with caching(tmp_path) as (cached, _):
        await cached.register("broker-a", "TBW102")
        for turns in range(30):  # of the loop, by which the reader is ahead
            topic = f"T{turns}"
            reading = asyncio.ensure_future(cached.routes.get(topic))
            for _ in range(turns):
                await asyncio.sleep(0)
            assert (await cached.routes.get(topic, LIKE_DEFAULT)).queues
            await asyncio.gather(reading, return_exceptions=True)


@in_loop
async def test_a_new_topic_borrows_the_default_ones_route(tmp_path: Path) -> None:
    async with caching(tmp_path) as (it, asked):
        await it.register("broker-a", "TBW102", queues=8)
        route = await it.routes.get("T", LIKE_DEFAULT)
        assert [settings[:2] for settings in route.queues.values()] == [(4, 4)]
        assert asked == ["T", "TBW102"]
        await it.register("broker-a", "TBW102", "T", version=2, queues=8)  # the first message has made it
        await it.routes.refresh("T")
        known = it.routes.known("T")
        assert known is not None
        assert [settings[:2] for settings in known.queues.values()] == [(8, 8)]


@in_loop
async def test_what_was_known_stays_while_no_name_server_answers(tmp_path: Path) -> None:
    async with connections() as pool:
        async with name_server(tmp_path) as (_, address):
            it = Cached(pool, address)
            await it.register("broker-a", "T")
            route = await it.routes.get("T")
        await it.routes.refresh_all()
        assert it.routes.known("T") is route
        await it.close()


@in_loop
async def test_a_topic_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    async with caching(tmp_path) as (it, _):
        await it.register("broker-a", "T")
        await it.routes.get("T")
        await it.pool.request(it.address, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "T"})
        with pytest.raises(NoRoute):
            await it.routes.refresh("T")
        assert it.routes.known("T") is None
        assert it.routes.address("broker-a") is None
        assert it.changes == ["T", "T"]


@in_loop
async def test_a_name_server_that_knows_no_broker_says_nothing_about_their_topics(tmp_path: Path) -> None:
    async with caching(tmp_path) as (it, _):
        gone = await register(it.pool, it.address, broker("broker-a"), topics("T", ALSO))
        async with watched(it.routes):
            route = await it.routes.get("T")
            await eventually(lambda: "T" in it.routes._digests)
            digest = it.routes._digests["T"]
            await gone.unregister()  # or it begins anew, and nobody has told it of anything yet
            await eventually(lambda: it.routes._digests["T"] != digest and not it.routes._fetching)
            assert await it.routes.refresh("T") is it.routes.known("T") is route
            await it.register("broker-b", "other")
            await it.routes.refresh_all()
            assert it.routes.known("T") is route
            assert it.changes == ["T"]
            await it.register("broker-a", "U")  # the broker is back, and the topic is not
            await it.routes.refresh_all()
            assert it.routes.known("T") is None


@in_loop
async def test_nothing_is_fetched_after_the_end(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (server, address), connections() as pool:
        it = Cached(pool, address)
        held: list[asyncio.Future[bytes]] = []

        def hold(channel: Channel, command: Command) -> asyncio.Future[bytes]:
            held.append(asyncio.get_running_loop().create_future())
            return held[-1]

        server.dispatcher.register(RequestCode.GET_ROUTEINFO_BY_TOPIC, hold)
        waiting = asyncio.ensure_future(it.routes.get("T"))
        await eventually(lambda: held)
        await it.routes.close()
        assert not it.routes._fetching
        with pytest.raises(WrongState, match="the client has ended"):
            await waiting
        held[0].cancel()
        await it.close()


@in_loop
async def test_one_round_gives_up_when_no_name_server_answers(tmp_path: Path) -> None:
    async with connections() as pool:
        async with name_server(tmp_path) as (_, address):
            it = Cached(pool, address)
            await it.register("broker-a", "T", "U", "V")
            for topic in ("T", "U", "V"):
                await it.routes.get(topic)
        asked: list[str] = []

        def note(code: int, fields: Mapping[str, str], body: bytes) -> Mapping[str, str]:
            asked.append(fields["topic"])
            return fields

        pool.before_send.append(note)
        await it.routes.refresh_all()
        assert asked == ["T"]
        await it.close()


@in_loop
async def test_a_name_server_that_refuses(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (server, address), connections() as pool:
        it = Cached(pool, address)

        def refuse(channel: Channel, command: Command) -> bytes:
            raise RequestRefused(1, "not today")

        server.dispatcher.register(RequestCode.GET_ROUTEINFO_BY_TOPIC, refuse)
        with pytest.raises(RemoteRefused, match="not today"):
            await it.routes.get("T")
        await it.close()


# -- addresses -----------------------------------------------------------------------------------------------


@in_loop
async def test_addresses(tmp_path: Path) -> None:
    async with caching(tmp_path) as (it, _):
        await it.register("broker-a", "T")
        await it.register("broker-a", "T", broker_id=1)
        await it.register("broker-b", "T", "U")
        await it.register("broker-c", "U", broker_id=1)
        for topic in ("T", "U"):
            await it.routes.get(topic)
        a, slave, b, c = (
            broker(name, number).address
            for name, number in (("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-c", 1))
        )
        assert it.routes.address("broker-a") == a
        assert it.routes.address("broker-a", 1) == slave
        assert (it.routes.address("broker-c"), it.routes.address("broker-c", only_this=True)) == (c, None)
        assert it.routes.address("unknown") is None
        assert it.routes.masters == {"broker-a": a, "broker-b": b}
        assert it.routes.broker_addresses(only_masters=True) == {a, b}
        assert it.routes.broker_addresses(only_masters=False) == {a, slave, b, c}
        assert sorted(it.routes.masters_of("U")) == sorted((b, c))
        assert it.routes.masters_of("unknown") == []


@in_loop
async def test_brokers_no_route_names_are_dropped(tmp_path: Path) -> None:
    async with caching(tmp_path) as (it, _):
        await it.register("broker-a", "T", "U")
        gone = await register(it.pool, it.address, broker("broker-b"), topics("T", ALSO))
        for topic in ("T", "U"):
            await it.routes.get(topic)
        assert it.routes.address("broker-b") is not None
        await gone.unregister()
        await it.routes.refresh_all()
        assert it.routes.address("broker-b") is None
        assert it.routes.masters == {"broker-a": broker("broker-a").address}
        assert it.routes.broker_addresses(only_masters=False) == {broker("broker-a").address}


@in_loop
async def test_the_newest_route_says_where_a_broker_is(tmp_path: Path) -> None:
    async with caching(tmp_path) as (it, _):
        await it.register("broker-a", "T", "U")
        for topic in ("T", "U"):
            await it.routes.get(topic)
        moved = BrokerIdentity("c", "broker-a", 0, "10.9.9.9:10911", "10.9.9.9:10912")
        await register(it.pool, it.address, moved, topics("T", "U", ALSO), 2)
        await it.routes.refresh("T")
        assert it.routes.address("broker-a") == "10.9.9.9:10911"  # though the route of U is still the old one


# -- watching ------------------------------------------------------------------------------------------------


@in_loop
async def test_changes_are_heard_of_without_asking(tmp_path: Path) -> None:
    async with caching(tmp_path) as (it, asked):
        await it.register("broker-a", "T", "U")
        async with watched(it.routes):
            await it.routes.get("T")
            await it.routes.get("U")  # joins the watch
            await eventually(lambda: set(it.routes._digests) == {"T", "U"})
            assert it.changes == ["T", "U"]
            gone = await register(it.pool, it.address, broker("broker-b"), topics("U", ALSO))
            await eventually(lambda: it.changes == ["T", "U", "U"])
            known = it.routes.known("U")
            assert known is not None and set(known.queues) == {"broker-a", "broker-b"}
            await gone.unregister()
            await eventually(lambda: len(it.changes) == 4)
            assert asked == ["T", "U"]


@in_loop
async def test_a_borrowed_route_stays_until_the_topic_is_there(tmp_path: Path) -> None:
    async with caching(tmp_path) as (it, _):
        await it.register("broker-a", "TBW102", queues=8)
        async with watched(it.routes):
            await it.routes.get("T", LIKE_DEFAULT)
            await eventually(lambda: "T" in it.routes._digests)
            assert it.routes.known("T") is not None
            await it.register("broker-a", "TBW102", "T", version=2, queues=8)
            await eventually(lambda: it.changes == ["T", "T"])
            known = it.routes.known("T")
            assert known is not None and known.queues["broker-a"].write_queues == 8


@in_loop
async def test_a_name_server_without_a_watch_is_asked_for_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_cache, "_ELSEWHERE_SECONDS", 0.001)
    async with (
        name_server(tmp_path / "1") as (old, first),
        name_server(tmp_path / "2") as (_, second),
        connections() as pool,
    ):
        it = Cached(pool, f"{first};{second}")
        for address in (first, second):
            await register(pool, address, broker("broker-a"), topics("T", ALSO))
        asked: list[Command] = []

        def unknown(channel: Channel, command: Command) -> bytes:
            asked.append(command)
            raise RequestRefused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "request type not supported")

        del old.dispatcher.handlers[RequestCode.WATCH_ROUTES]
        old.dispatcher.register(RequestCode.WATCH_ROUTES, unknown)
        async with watched(it.routes):
            await it.routes.get("T")
            await eventually(lambda: asked)
            for _ in range(20):
                await it.routes.refresh("T")
            assert len(asked) == 1
            it.name_servers.book.mark_bad(first)  # the next one knows it
            await register(pool, second, broker("broker-b"), topics("T", ALSO))
            await eventually(lambda: it.changes == ["T", "T"])
        await it.close()


@in_loop
async def test_the_watch_goes_on_with_another_name_server(tmp_path: Path) -> None:
    async with connections() as pool, name_server(tmp_path / "2") as (_, second):
        async with name_server(tmp_path / "1") as (_, first):
            it = Cached(pool, f"{first};{second}")
            for address in (first, second):
                await register(pool, address, broker("broker-a"), topics("T", ALSO))
            await it.routes.get("T")
            assert it.name_servers.book.current == first
            watching = asyncio.ensure_future(it.routes.watch())
            await eventually(lambda: it.routes._digests)
        await register(pool, second, broker("broker-b"), topics("T", ALSO))
        await eventually(lambda: it.changes == ["T", "T"])
        assert it.name_servers.book.current == second
        watching.cancel()
        await asyncio.wait((watching,))
        await it.close()
