"""Making the connections that are shared."""

from __future__ import annotations

import asyncio
import os
import socket
import struct

import pytest

from apogeemq.errors import ConfigError, ConnectFailed, ConnectionLost
from tests.unit.transport.live import ECHO, deaf_port, on_each_loop, pooled, serving


@on_each_loop
async def test_no_connection_in_time_fails_all_who_wait_for_it() -> None:
    async with deaf_port() as address, pooled(connect_timeout_seconds=0.05) as pool:
        asking = (pool.request(address, ECHO, timeout_seconds=60) for _ in range(5))
        for failure in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(failure, ConnectFailed)
            assert str(failure) == f"cannot connect to {address}: no answer in 0.05 s"


@on_each_loop
async def test_a_caller_in_more_haste_does_not_stop_the_attempt_for_others() -> None:
    async with deaf_port() as address, pooled(connect_timeout_seconds=60) as pool:
        patient = asyncio.ensure_future(pool.request(address, ECHO, timeout_seconds=60))
        with pytest.raises(ConnectFailed, match=r"no connection in 0\.01 s"):
            await pool.request(address, ECHO, timeout_seconds=0.01)
        assert not patient.done()
        await pool.close()
        with pytest.raises(ConnectionLost):
            await patient


@on_each_loop
async def test_a_refused_connection_says_so() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        async with pooled() as pool:
            with pytest.raises(ConnectFailed, match=f"cannot connect to {address}: .*refused") as failure:
                await pool.request(address, ECHO)
            assert failure.value.retriable


@on_each_loop
async def test_an_address_that_is_none_is_a_config_error() -> None:
    async with pooled() as pool:
        with pytest.raises(ConfigError, match="is not of the form host:port"):
            await pool.request("nonsense", ECHO)


@on_each_loop
async def test_a_cancelled_caller_leaves_the_connection_to_others() -> None:
    async with serving() as running, pooled() as pool:
        cancelled = asyncio.ensure_future(pool.request(running.address, ECHO))
        kept = asyncio.ensure_future(pool.request(running.address, ECHO))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert (await kept).code == 0
        assert cancelled.cancelled()
        assert running.server.counters.accepted == 1


@on_each_loop
async def test_the_kernel_may_be_told_when_to_give_up() -> None:
    async with serving() as running, pooled(unacknowledged_seconds=2.5) as pool:
        await pool.request(running.address, ECHO)
        (descriptor,) = pool.descriptors()
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 2500
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == struct.pack("ii", 1, 0)
