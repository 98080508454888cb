"""Who is refused, slowed or closed by a server, and when."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from apogeemq.protocol.codec import encode_request
from apogeemq.transport.flow import Limits
from apogeemq.transport.tls import TlsMode, TlsServerContexts
from tests.unit.transport.live import ECHO, Running, on_each_loop, serving, until

MODES = pytest.mark.parametrize("mode", [TlsMode.DISABLED, TlsMode.PERMISSIVE])


@MODES
@on_each_loop
async def test_more_connections_than_allowed_are_closed_at_once(
    mode: TlsMode, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(limits=Limits(max_connections=3), tls=TlsServerContexts(mode)) as running:
        peers = [await running.connect() for _ in range(3)]
        for peer in peers:
            await peer.ask(ECHO)
        for _ in range(2):
            refused = await running.connect()
            assert await refused.closed() == b""
            await refused.close()
        assert running.server.counters.refused == 2
        assert caplog.text.count("refused a connection: 3 are open already") == 1
        await peers.pop().close()
        await until(lambda: running.server.connection_count == 2)
        peers.append(await running.connect())
        assert (await peers[-1].ask(ECHO)).code == 0
        for peer in peers:
            await peer.close()


@on_each_loop
async def test_a_burst_of_connections_fills_the_limit_exactly() -> None:
    async with serving(limits=Limits(max_connections=50)) as running:
        peers = await asyncio.gather(*(running.connect() for _ in range(60)))
        await until(lambda: len(running.server.channels) == 50 and running.server.counters.accepted == 60)
        assert running.server.counters.refused == 10
        await asyncio.gather(*(peer.close() for peer in peers))


@on_each_loop
async def test_idle_connections_are_closed_and_busy_ones_kept() -> None:
    async with serving(limits=Limits(idle_seconds=120)) as running:
        idle, busy = await running.connect(), await running.connect()
        await idle.ask(ECHO)
        await busy.ask(ECHO)
        running.tick(119)
        await busy.ask(ECHO)
        running.tick(2)
        assert await idle.closed() == b""
        assert running.server.counters.closed_idle == 1
        assert (await busy.ask(ECHO)).code == 0
        await busy.close()
        await idle.close()


@on_each_loop
async def test_what_the_server_sends_counts_as_use() -> None:
    async with serving(limits=Limits(idle_seconds=120)) as running:
        peer = await running.connect()
        await peer.ask(ECHO)
        (channel,) = running.server.channels
        running.tick(120)
        channel.send_one_way(40)
        running.tick(120)
        assert [command.code for command in await peer.receive()] == [40]
        assert running.server.counters.closed_idle == 0
        await peer.close()


@on_each_loop
async def test_connections_that_never_say_a_byte_are_closed() -> None:
    permissive = TlsServerContexts(TlsMode.PERMISSIVE)
    async with serving(limits=Limits(first_byte_seconds=120), tls=permissive) as running:
        peer = await running.connect()
        await until(lambda: running.server.connection_count == 1)
        assert not running.server.channels
        running.tick(120)
        assert running.server.connection_count == 1
        running.tick(1)
        assert await peer.closed() == b""
        assert (running.server.connection_count, running.server.counters.closed_idle) == (0, 1)
        await peer.close()


@on_each_loop
async def test_a_peer_that_leaves_without_a_byte_is_forgotten() -> None:
    async with serving(tls=TlsServerContexts(TlsMode.PERMISSIVE)) as running:
        peer = await running.connect()
        await until(lambda: running.server.connection_count == 1)
        await peer.close()
        await until(lambda: running.server.connection_count == 0)
        assert running.closed == []


@on_each_loop
async def test_half_a_frame_and_then_nothing_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(limits=Limits(partial_frame_seconds=30)) as running:
        for _ in range(2):
            peer = await running.connect()
            peer.send(encode_request(ECHO, 1) + encode_request(ECHO, 2)[:9])
            await peer.receive(1)
            running.tick(30)
            assert len(running.server.channels) == 1
            running.tick(1)
            assert await peer.closed() == b""
            await until(lambda: not running.server.channels)
            await peer.close()
        assert running.server.counters.closed_stalled == 2
        assert caplog.text.count("half a frame, then nothing") == 1


def received(running: Running, size: int) -> bool:
    return sum(channel.partial_size for channel in running.server.channels) == size


@on_each_loop
async def test_bytes_that_trickle_do_not_buy_time() -> None:
    async with serving(limits=Limits(partial_frame_seconds=30)) as running:
        peer = await running.connect()
        frame = encode_request(ECHO, 1, None, bytes(1000))
        for number in range(31):
            peer.send(frame[number : number + 1])
            await until(partial(received, running, number + 1))
            running.tick(1)
        assert await peer.closed() == b""
        assert running.server.counters.closed_stalled == 1
        await peer.close()


@on_each_loop
async def test_a_busy_peer_may_be_mid_frame_at_every_tick() -> None:
    async with serving(limits=Limits(partial_frame_seconds=30)) as running:
        peer = await running.connect()
        frame = encode_request(ECHO, 1, None, b"body")
        peer.send(frame[:10])
        for _ in range(50):
            peer.send(frame[10:] + frame[:10])
            await peer.receive(1)
            running.tick(1)
        assert running.server.counters.closed_stalled == 0
        await peer.close()


@on_each_loop
async def test_a_long_frame_over_a_slow_line_has_more_time() -> None:
    limits = Limits(partial_frame_seconds=30, slowest_bytes_per_second=1000, idle_seconds=1000)
    async with serving(limits=limits) as running:
        peer = await running.connect()
        frame = encode_request(ECHO, 1, None, bytes(100_000))
        peer.send(frame[:50_000])
        await until(lambda: received(running, 50_000))
        running.tick(80)
        peer.send(frame[50_000:])
        assert len((await peer.receive())[0].body) == 100_000
        peer.send(frame[:50_000])
        await until(lambda: received(running, 50_000))
        running.tick(81)
        assert await peer.closed() == b""
        await peer.close()


@on_each_loop
async def test_the_largest_unfinished_frames_go_when_all_together_are_too_much() -> None:
    async with serving(limits=Limits(max_partial_size=100_000)) as running:
        large, small = await running.connect(), await running.connect()
        frame = encode_request(ECHO, 1, None, bytes(200_000))
        large.send(frame[:90_000])
        small.send(frame[:9_000])
        await until(lambda: received(running, 99_000))
        running.tick(1)
        assert running.server.counters.closed_stalled == 0
        small.send(frame[9_000:20_000])
        await until(lambda: received(running, 110_000))
        running.tick(1)
        assert await large.closed() == b""
        small.send(frame[20_000:])
        assert len((await small.receive())[0].body) == 200_000
        await large.close()
        await small.close()


@on_each_loop
async def test_garbage_is_closed_counted_and_logged_once_for_an_address(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as running:
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, b"\x16\x03\x01\x02\x00\x01", bytes(8)):
            peer = await running.connect()
            peer.send(garbage)
            assert await peer.closed() == b""
            await peer.close()
        assert running.server.counters.closed_malformed == 4
        assert caplog.text.count("closed 127.0.0.1:") == 1
        good = await running.connect()
        assert (await good.ask(ECHO)).code == 0
        await good.close()


@on_each_loop
async def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    async with serving(limits=Limits(pause_reading_at=64 * 1024)) as running:
        peer = await running.connect()
        request = encode_request(ECHO, 1, None, bytes(512 * 1024))
        asked = 48
        peer.send(request * asked)
        await until(lambda: any(channel.queued_size > 64 * 1024 for channel in running.server.channels))
        good = await running.connect()  # others are served meanwhile
        assert (await good.ask(ECHO)).code == 0
        (slow,) = [channel for channel in running.server.channels if channel.queued_size]
        assert slow.queued_size < 8 * 1024 * 1024
        assert running.server.dispatcher.request_counts[ECHO] < asked
        assert all(answer.code == 0 for answer in await peer.receive(asked))
        await peer.close()
        await good.close()
