"""What a peer that reads slowly gets of requests that were given up."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from apogeemq.errors import ConnectionLost, RequestTimedOut
from tests.unit.transport.live import ECHO, on_each_loop, pooled, serving

LARGE = bytes(8 * 1024 * 1024)  # more than kernels keep
SMALL = bytes(256 * 1024)
MEANWHILE = 60.0


class SlowPeer:
    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.address = f"127.0.0.1:{listener.getsockname()[1]}"

    async def accept(self) -> socket.socket:
        """The peer's end, once something has come."""
        loop = asyncio.get_running_loop()
        connection, _ = await loop.sock_accept(self._listener)
        connection.setblocking(False)
        await loop.sock_recv(connection, 1)
        return connection


@asynccontextmanager
async def slow_peer() -> AsyncIterator[SlowPeer]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        yield SlowPeer(listener)


async def read_all(connection: socket.socket) -> int:
    size, loop = 0, asyncio.get_running_loop()
    while data := await loop.sock_recv(connection, 65_536):
        size += len(data)
    return size


@on_each_loop
@pytest.mark.parametrize("body", [LARGE, SMALL])
async def test_what_has_not_left_when_a_request_times_out_never_leaves(body: bytes) -> None:
    async with slow_peer() as peer, pooled(unacknowledged_seconds=MEANWHILE) as pool:
        patient = asyncio.ensure_future(pool.request(peer.address, ECHO, timeout_seconds=MEANWHILE))
        with await peer.accept() as connection:
            with pytest.raises(RequestTimedOut):
                await pool.request(peer.address, ECHO, body=body, timeout_seconds=0.05)
            with pytest.raises(ConnectionResetError):
                await read_all(connection)
        with pytest.raises(ConnectionLost):
            await patient


@on_each_loop
@pytest.mark.parametrize("body", [LARGE, SMALL])
async def test_what_has_not_left_when_a_request_is_cancelled_never_leaves(body: bytes) -> None:
    async with slow_peer() as peer, pooled(unacknowledged_seconds=MEANWHILE) as pool:
        cancelled = asyncio.ensure_future(pool.request(peer.address, ECHO, body=body, timeout_seconds=MEANWHILE))
        with await peer.accept() as connection:
            cancelled.cancel()
            with pytest.raises(ConnectionResetError):
                await read_all(connection)
        assert cancelled.cancelled()


@on_each_loop
async def test_a_request_that_may_be_late_leaves_the_connection_to_others() -> None:
    async with (
        serving() as running,
        pooled(unacknowledged_seconds=MEANWHILE, may_be_late=lambda address: address == running.address) as pool,
    ):
        await pool.request(running.address, ECHO)
        cancelled = asyncio.ensure_future(pool.request(running.address, ECHO))
        await asyncio.sleep(0)
        cancelled.cancel()
        await pool.request(running.address, ECHO)
        assert cancelled.cancelled()
        assert running.server.counters.accepted == 1


@on_each_loop
async def test_what_is_sent_before_a_close_in_peace_arrives() -> None:
    async with slow_peer() as peer, pooled(unacknowledged_seconds=MEANWHILE) as pool:
        telling = asyncio.ensure_future(pool.one_way(peer.address, ECHO, body=SMALL, timeout_seconds=MEANWHILE))
        with await peer.accept() as connection:
            await telling
            pool.channels[peer.address].close()
            assert await read_all(connection) > len(SMALL)
