"""A listening socket: who gets in, who is closed, and how it ends."""

from __future__ import annotations

import asyncio
import socket

import pytest

from apogeemq.errors import ConfigError
from apogeemq.protocol.codec import encode_reply, encode_request
from apogeemq.protocol.command import Command
from apogeemq.transport.dispatch import Dispatcher
from apogeemq.transport.flow import Limits
from apogeemq.transport.server import Server
from apogeemq.transport.tls import TlsMode, TlsServerContexts
from tests.unit.transport.live import ECHO, HOLD, Holding, on_each_loop, serving, until


@on_each_loop
async def test_requests_over_a_socket() -> None:
    async with serving() as running:
        peer = await running.connect()
        peer.send(b"".join(encode_request(ECHO, number, None, b"%d" % number) for number in range(500)))
        answers = await peer.receive(500)
        assert [(answer.opaque, answer.body) for answer in answers] == [(n, b"%d" % n) for n in range(500)]
        (channel,) = running.server.channels
        assert channel.address == peer.address
        await peer.close()
        await until(lambda: running.closed == [channel])
        assert running.server.connection_count == 0


@on_each_loop
async def test_large_bodies_come_whole_both_ways() -> None:
    async with serving() as running:
        peer = await running.connect()
        body = bytes(range(256)) * 20_000
        assert (await peer.ask(ECHO, body)).body == body
        await peer.close()


@on_each_loop
async def test_a_server_asks_its_clients_over_the_same_connection() -> None:
    async with serving() as running:
        peer = await running.connect()
        assert (await peer.ask(ECHO)).code == 0
        (channel,) = running.server.channels
        asking = asyncio.ensure_future(channel.request(905, {"a": "b"}, timeout_seconds=60))
        (question,) = await peer.receive()
        assert (question.code, question.fields()) == (905, {"a": "b"})
        peer.send(encode_request(ECHO, 7) + encode_reply(question, 0, body=b"yes"))
        assert (await asking).body == b"yes"
        assert [answer.opaque for answer in await peer.receive()] == [7]
        channel.send_one_way(40)
        assert [(command.code, command.is_one_way) for command in await peer.receive()] == [(40, True)]
        await peer.close()


@on_each_loop
async def test_many_connections_at_once() -> None:
    async with serving() as running:
        peers = await asyncio.gather(*(running.connect() for _ in range(200)))
        answers = await asyncio.gather(*(peer.ask(ECHO, b"%d" % n) for n, peer in enumerate(peers)))
        assert [answer.body for answer in answers] == [b"%d" % number for number in range(200)]
        assert running.server.connection_count == running.server.counters.accepted == 200
        await asyncio.gather(*(peer.close() for peer in peers))


@on_each_loop
async def test_a_taken_port_is_a_clear_error() -> None:
    async with serving() as running:
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{running.port}: Address already in use"):
            Server(Dispatcher(), Limits()).start("127.0.0.1", running.port)


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
@on_each_loop
async def test_ipv6() -> None:
    server = Server(Dispatcher(), Limits())
    host, port = server.start("::1", 0)
    reader, writer = await asyncio.open_connection(host, port)
    await until(lambda: server.channels)
    assert [channel.address[0] for channel in server.channels] == ["::1"]
    await server.stop()
    assert await reader.read() == b""
    writer.close()


@on_each_loop
async def test_stopping_finishes_what_was_taken() -> None:
    holding = Holding()
    async with serving({HOLD: holding}) as running:
        peer, idle = await running.connect(), await running.connect()
        peer.send(encode_request(HOLD, 1))
        await until(lambda: holding.held)
        stopping = asyncio.ensure_future(running.server.stop(grace_seconds=60))
        await until(lambda: running.server._listener is None)
        with pytest.raises(OSError):
            await running.connect()
        assert (await peer.ask(ECHO)).code == 0  # an open connection is served to the end
        holding.release()
        assert [answer.body for answer in await peer.receive()] == [b"released"]
        await stopping
        assert await peer.closed() == b""
        assert await idle.closed() == b""
        assert running.server.connection_count == 0
        assert len(running.closed) == 2
        await peer.close()
        await idle.close()


@on_each_loop
async def test_stopping_does_not_wait_for_ever() -> None:
    holding = Holding()
    async with serving({HOLD: holding}) as running:
        peer = await running.connect()
        peer.send(encode_request(HOLD, 1))
        await until(lambda: holding.held)
        await running.server.stop(grace_seconds=0.01)
        assert holding.held[0][2].cancelled()
        assert await peer.closed() == b""
        await peer.close()


@on_each_loop
async def test_stopping_drops_those_that_have_not_spoken_or_shaken_hands() -> None:
    async with serving(tls=TlsServerContexts(TlsMode.PERMISSIVE)) as running:
        silent, halfway = await running.connect(), await running.connect()
        halfway.send(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a TLS greeting
        await until(lambda: running.server._handovers and running.server._silent)
        await running.server.stop(grace_seconds=0.01)
        assert await silent.closed() == b""
        assert await halfway.closed() == b""
        assert running.server.connection_count == 0
        await silent.close()
        await halfway.close()


@on_each_loop
async def test_a_stopped_server_can_be_followed_by_another_on_its_port() -> None:
    async with serving() as running:
        peer = await running.connect()
        assert isinstance(await peer.ask(ECHO), Command)
        await running.server.stop()
        successor = Server(Dispatcher(), Limits())
        assert successor.start(running.host, running.port) == (running.host, running.port)
        await successor.stop()
        await peer.close()
