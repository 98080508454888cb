"""The route watch as its watchers use it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.errors import ConnectFailed, ProtocolError, RemoteRefused
from apogeemq.protocol.codec import encode_ok
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Reply
from apogeemq.transport.route_watch import watch_routes
from tests.unit.broker.registering import free_address
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import broker, connections, name_server, register, topics
from tests.unit.transport.live import serving


@in_loop
async def test_what_is_not_known_yet_comes_at_once(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, address), connections() as pool:
        await register(pool, address, broker("broker-a"), topics("T1", "T2"))
        found = await watch_routes(pool, address, {"T1": "", "nobody's": ""}, 10)
        assert set(found) == {"T1", "nobody's"}
        route = found["T1"].route
        assert route is not None and set(route.queues) == {"broker-a"}
        assert found["nobody's"].route is None
        assert found["T1"].digest != found["nobody's"].digest


@in_loop
async def test_a_change_comes_when_it_happens_and_only_that(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, address), connections() as pool:
        await register(pool, address, broker("broker-a"), topics("T1", "T2"))
        first = await watch_routes(pool, address, {"T1": "", "T2": ""}, 10)
        known = {topic: seen.digest for topic, seen in first.items()}
        watching = asyncio.ensure_future(watch_routes(pool, address, known, 30))
        await register(pool, address, broker("broker-b"), topics("T2", "other"))
        changed = await watching
        assert set(changed) == {"T2"}
        route = changed["T2"].route
        assert route is not None and set(route.queues) == {"broker-a", "broker-b"}


@in_loop
async def test_a_topic_nobody_serves_any_more(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, address), connections() as pool:
        registration = await register(pool, address, broker("broker-a"), topics("T1", "other"))
        known = (await watch_routes(pool, address, {"T1": ""}, 10))["T1"].digest
        watching = asyncio.ensure_future(watch_routes(pool, address, {"T1": known}, 30))
        await registration.unregister()
        assert (await watching)["T1"].route is None


@in_loop
async def test_nothing_when_the_time_is_over(tmp_path: Path) -> None:
    async with name_server(tmp_path) as (_, address), connections() as pool:
        await register(pool, address, broker("broker-a"), topics("T1", "other"))
        known = (await watch_routes(pool, address, {"T1": ""}, 10))["T1"].digest
        assert await watch_routes(pool, address, {"T1": known}, 0.01) == {}


@in_loop
async def test_a_name_server_that_knows_no_watch() -> None:
    async with serving() as server, connections() as pool:
        with pytest.raises(RemoteRefused) as caught:
            await watch_routes(pool, server.address, {"T1": ""}, 1)
        assert caught.value.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("body", [b"", b"[]", b'{"changed":{"T1":{"digest":1}}}', b'{"changed":{"T1":{"route":[]}}}'])
def test_answers_that_are_none(body: bytes) -> None:
    def answer(channel: Channel, command: Command) -> Reply:
        return encode_ok(command, body)

    async def run() -> None:
        async with serving({RequestCode.WATCH_ROUTES: answer}) as server, connections() as pool:
            try:
                found = await watch_routes(pool, server.address, {"T1": ""}, 1)
            except ProtocolError:
                return
            assert all(isinstance(seen.digest, str) for seen in found.values())

    asyncio.run(run())


@in_loop
async def test_nobody_there() -> None:
    async with connections() as pool:
        with pytest.raises(ConnectFailed):
            await watch_routes(pool, free_address(), {"T1": ""}, 1)
