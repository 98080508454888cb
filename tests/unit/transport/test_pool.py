"""Connections shared by everyone who talks to the same address."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from apogeemq.errors import ConnectionLost, RequestTimedOut, TooManyRequests
from apogeemq.protocol.codec import encode_ok, encode_reply
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import BINARY, Command
from apogeemq.protocol.signing import is_signed_with, signed
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Reply
from apogeemq.transport.flow import Limits
from apogeemq.transport.pooled_channel import PooledChannel
from tests.unit.event_loop import in_loop
from tests.unit.transport.live import (
    ECHO,
    HOLD,
    Holding,
    RecordingTransport,
    deaf_port,
    dispatcher,
    on_each_loop,
    pooled,
    serving,
    until,
)


@on_each_loop
async def test_concurrent_callers_share_one_connection() -> None:
    async with serving() as running, pooled() as pool:
        asking = (pool.request(running.address, ECHO, None, b"%d" % number) for number in range(300))
        answers = await asyncio.gather(*asking)
        assert [answer.body for answer in answers] == [b"%d" % number for number in range(300)]
        assert running.server.counters.accepted == 1


@on_each_loop
async def test_each_address_has_its_own() -> None:
    async with serving() as first, serving() as second, pooled() as pool:
        for running in (first, second, first):
            await pool.request(running.address, ECHO)
        assert (first.server.counters.accepted, second.server.counters.accepted) == (1, 1)


@on_each_loop
async def test_fields_body_and_codec_are_sent_and_any_answer_is_given_back() -> None:
    def mirror(channel: Channel, command: Command) -> Reply:
        return encode_reply(command, 17, "remark", command.fields(), command.body)

    async with serving({5: mirror}) as running, pooled() as pool:
        answer = await pool.request(running.address, 5, {"a": "b"}, b"body", codec=BINARY)
        assert (answer.code, answer.remark, answer.fields(), answer.body) == (17, "remark", {"a": "b"}, b"body")
        assert answer.codec == BINARY


@on_each_loop
async def test_one_way_requests() -> None:
    seen: list[Command] = []
    async with serving({5: lambda channel, command: seen.append(command)}) as running, pooled() as pool:
        await pool.one_way(running.address, 5, {"a": "b"}, b"body")
        await until(lambda: seen)
        assert (seen[0].is_one_way, seen[0].fields(), seen[0].body) == (True, {"a": "b"}, b"body")


@on_each_loop
async def test_requests_of_the_server_are_answered() -> None:
    def ask_back(channel: Channel, command: Command) -> Reply:
        async def answer() -> bytes:
            known = await channel.request(ECHO, None, command.body, timeout_seconds=60)
            unknown = await channel.request(4321, timeout_seconds=60)
            return encode_ok(command, known.body + b"%d" % unknown.code)

        return asyncio.ensure_future(answer())

    async with serving({5: ask_back}) as running, pooled(dispatcher()) as pool:
        assert (await pool.request(running.address, 5, None, b"hello")).body == b"hello3"


@on_each_loop
async def test_a_lost_connection_fails_its_requests_and_the_next_one_connects_again() -> None:
    holding = Holding()
    closed: list[str] = []
    async with serving({HOLD: holding}) as running, pooled(on_closed=closed.append) as pool:
        waiting = [asyncio.ensure_future(pool.request(running.address, HOLD, timeout_seconds=60)) for _ in range(3)]
        await until(lambda: len(holding.held) == 3)
        holding.held[0][0].abort()
        for request in waiting:
            with pytest.raises(ConnectionLost):
                await request
        assert closed == [running.address]
        assert (await pool.request(running.address, ECHO)).code == 0
        assert running.server.counters.accepted == 2


@on_each_loop
async def test_a_server_that_speaks_garbage_is_left(caplog: pytest.LogCaptureFixture) -> None:
    def babble(channel: Channel, command: Command) -> Reply:
        channel.write(b"HTTP/1.1 400 Bad Request\r\n")
        return None

    async with serving({5: babble}) as running, pooled() as pool:
        with pytest.raises(ConnectionLost):
            await pool.request(running.address, 5, timeout_seconds=60)
        assert f"closed the connection to {running.address}: frame length" in caplog.text


# -- silence -------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_connection_on_which_nothing_is_answered_is_not_used_again() -> None:
    holding = Holding()
    async with serving({HOLD: holding}) as running, pooled(suspect_after_seconds=0) as pool:
        with pytest.raises(RequestTimedOut, match=f"{running.address} did not answer code {HOLD}"):
            await pool.request(running.address, HOLD, timeout_seconds=0.02)
        assert (await pool.request(running.address, ECHO)).code == 0
        assert running.server.counters.accepted == 2


@in_loop
async def test_a_connection_that_answers_others_is_kept_after_a_timeout() -> None:
    async with pooled(suspect_after_seconds=0) as pool:
        channel = PooledChannel(pool, asyncio.get_running_loop(), "host:1")
        transport = RecordingTransport()
        channel.connection_made(transport)
        served = asyncio.ensure_future(pool.request("host:1", ECHO, timeout_seconds=60))
        unserved = asyncio.ensure_future(pool.request("host:1", HOLD, timeout_seconds=0.01))
        await asyncio.sleep(0)  # both are sent before any timer can end
        channel.data_received(encode_reply(transport.answers()[0]))
        assert (await served).code == 0
        with pytest.raises(RequestTimedOut):
            await unserved
        assert pool._live("host:1") is channel
        with pytest.raises(RequestTimedOut):
            await pool.request("host:1", HOLD, timeout_seconds=0.01)
        assert pool._live("host:1") is None
        channel.connection_lost(None)


@on_each_loop
async def test_an_impatient_request_says_nothing_about_the_connection() -> None:
    async with serving({HOLD: Holding()}) as running, pooled(suspect_after_seconds=1.0) as pool:
        with pytest.raises(RequestTimedOut):
            await pool.request(running.address, HOLD, timeout_seconds=0.01)
        await pool.request(running.address, ECHO)
        assert running.server.counters.accepted == 1


@on_each_loop
async def test_requests_without_answer_are_limited() -> None:
    holding = Holding()
    limits = Limits(max_pending_per_channel=2)
    async with serving({HOLD: holding}) as running, pooled(limits=limits) as pool:
        waiting = [asyncio.ensure_future(pool.request(running.address, HOLD)) for _ in range(2)]
        await until(lambda: len(holding.held) == 2)
        with pytest.raises(TooManyRequests):
            await pool.request(running.address, ECHO)
        holding.release()
        await asyncio.gather(*waiting)


@on_each_loop
async def test_more_than_the_line_takes_waits_instead_of_piling_up() -> None:
    limits = Limits(pause_reading_at=64 * 1024)
    body = bytes(512 * 1024)
    async with serving(limits=limits) as running, pooled(limits=limits) as pool:
        asking = (pool.request(running.address, ECHO, None, body, timeout_seconds=60) for _ in range(64))
        answers = await asyncio.gather(*asking)  # if both ends waited for the other to read, this would never end
        assert all(len(answer.body) == len(body) for answer in answers)


@on_each_loop
async def test_a_server_that_takes_nothing_times_requests_out() -> None:
    async with pooled(limits=Limits(pause_reading_at=64 * 1024), suspect_after_seconds=60) as pool:
        taken = asyncio.Event()

        async def take_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await taken.wait()
            writer.close()

        server = await asyncio.start_server(take_nothing, "127.0.0.1", 0, limit=1024)
        address = "{}:{}".format(*server.sockets[0].getsockname())
        body = bytes(16 * 1024 * 1024 - 1024)
        stuck = asyncio.ensure_future(pool.request(address, ECHO, None, body, timeout_seconds=60))
        await until(lambda: any(not channel.writable.is_set() for channel in pool._open))
        for request in (pool.request, pool.one_way):
            with pytest.raises(RequestTimedOut, match="took no more requests"):
                await request(address, ECHO, timeout_seconds=0.01)
        taken.set()
        with pytest.raises(ConnectionLost):
            await stuck
        server.close()


# -- going away ----------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_server_going_away_is_asked_once_more_over_a_new_connection() -> None:
    holding = Holding()
    seen: list[int] = []

    def leaving(channel: Channel, command: Command) -> Reply:
        seen.append(channel.number)
        if len(set(seen)) == 1:
            return encode_reply(command, ResponseCode.GO_AWAY, "please go away")
        return encode_ok(command, b"stayed")

    async with serving({5: leaving, HOLD: holding}) as running, pooled() as pool:
        held = asyncio.ensure_future(pool.request(running.address, HOLD, timeout_seconds=60))
        await until(lambda: holding.held)
        answers = await asyncio.gather(*(pool.request(running.address, 5) for _ in range(10)))
        assert {(answer.code, answer.body) for answer in answers} == {(0, b"stayed")}
        assert running.server.counters.accepted == 2
        assert len(running.server.channels) == 2  # the old connection finishes what it was asked
        holding.release()
        assert (await held).body == b"released"
        pool.tick()
        await until(lambda: len(running.server.channels) == 1)


@on_each_loop
async def test_a_second_word_to_go_away_is_the_answer() -> None:
    async with serving() as running, pooled() as pool:
        running.server.dispatcher.is_going_away = True
        answer = await pool.request(running.address, ECHO)
        assert (answer.code, answer.remark) == (ResponseCode.GO_AWAY, "please go away")
        assert running.server.counters.accepted == 2


# -- the rest ------------------------------------------------------------------------------------------------


@on_each_loop
async def test_connections_nobody_uses_are_closed() -> None:
    holding = Holding()
    async with serving({HOLD: holding}) as running, pooled(limits=Limits(idle_seconds=120)) as pool:
        await pool.request(running.address, ECHO)
        for _ in range(120):
            pool.tick()
        assert len(running.server.channels) == 1
        pool.tick()
        await until(lambda: not running.server.channels)
        waiting = asyncio.ensure_future(pool.request(running.address, HOLD, timeout_seconds=60))
        await until(lambda: holding.held)
        for _ in range(200):
            pool.tick()
        holding.release()
        assert (await waiting).body == b"released"


@on_each_loop
async def test_hooks_give_the_fields_that_are_sent() -> None:
    def sign(code: int, fields: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        return signed(fields, body, "key", "secret")

    def is_signed(channel: Channel, command: Command) -> Reply:
        return encode_ok(command, b"%d" % is_signed_with(command.fields(), command.body, "secret"))

    async with serving({5: is_signed}) as running:
        hooks = [lambda code, fields, body: {**fields, "code": str(code)}, sign]
        async with pooled(before_send=hooks) as pool:
            assert (await pool.request(running.address, 5, {"a": "b"}, b"body")).body == b"1"
            assert (await pool.request(running.address, 5)).body == b"1"


@on_each_loop
async def test_closing_ends_everything() -> None:
    holding = Holding()
    async with serving({HOLD: holding}) as running, deaf_port() as deaf, pooled() as pool:
        waiting = asyncio.ensure_future(pool.request(running.address, HOLD, timeout_seconds=60))
        connecting = asyncio.ensure_future(pool.request(deaf, ECHO, timeout_seconds=60))
        await until(lambda: holding.held)
        await pool.close()
        with pytest.raises(ConnectionLost):
            await waiting
        with pytest.raises(ConnectionLost, match="the connection pool was closed"):
            await connecting
        with pytest.raises(ConnectionLost, match="the connection pool is closed"):
            await pool.request(running.address, ECHO)
        await until(lambda: not running.server.channels)
        assert asyncio.all_tasks() == {asyncio.current_task()}
