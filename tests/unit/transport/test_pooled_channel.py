"""Many requests over one connection of a pool: written together, timed together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

import pytest

from apogeemq.errors import ConnectionLost, RequestTimedOut, TooManyRequests
from apogeemq.protocol.codec import encode_reply, encode_request
from apogeemq.protocol.command import Command
from apogeemq.transport.flow import Limits
from apogeemq.transport.pool import ConnectionPool
from apogeemq.transport.pooled_channel import PooledChannel
from tests.unit.event_loop import in_loop
from tests.unit.transport.live import RecordingTransport, pooled, until

CODE = 5
MEANWHILE = 60.0


class Line(NamedTuple):
    pool: ConnectionPool
    channel: PooledChannel
    transport: RecordingTransport

    def ask(self, body: bytes = b"", seconds: float = MEANWHILE) -> asyncio.Future[Command]:
        return self.channel.ask(CODE, request(body), seconds)

    def asked(self) -> list[Command]:
        return self.transport.answers()


def request(body: bytes = b"") -> Callable[[int], bytes]:
    return lambda opaque: encode_request(CODE, opaque, None, body)


@asynccontextmanager
async def connected(**limits: int) -> AsyncIterator[Line]:
    async with pooled(limits=Limits(**limits)) as pool:
        channel, transport = PooledChannel(pool, asyncio.get_running_loop(), "host:1"), RecordingTransport()
        channel.connection_made(transport)
        yield Line(pool, channel, transport)
        channel.connection_lost(None)


@in_loop
async def test_a_request_alone_is_written_at_once_and_those_behind_it_together() -> None:
    async with connected() as line:
        answers = [line.ask(b"%d" % number) for number in range(4)]
        assert len(line.transport.writes) == 1
        line.channel.tell(partial(encode_request, CODE, body=b"one way", one_way=True))
        await asyncio.sleep(0)
        assert len(line.transport.writes) == 2
        asked = line.asked()
        assert [command.body for command in asked] == [b"0", b"1", b"2", b"3", b"one way"]
        line.channel.data_received(b"".join(encode_reply(command, body=command.body) for command in asked[3::-1]))
        assert [(await answer).body for answer in answers] == [b"0", b"1", b"2", b"3"]
        assert line.channel.pending_count == 0


@in_loop
async def test_what_waits_to_be_written_does_not_grow_without_end() -> None:
    async with connected() as line:
        body = bytes(10_000)
        for _ in range(20):
            line.channel.tell(request(body))
        assert sum(map(len, line.transport.writes)) > 130_000  # without a turn of the loop
        await asyncio.sleep(0)
        assert len(line.asked()) == 20


@in_loop
async def test_what_waits_to_be_written_goes_before_the_end() -> None:
    async with connected() as line:
        line.channel.tell(request(b"last words"))
        line.channel.close()
        assert [command.body for command in line.asked()] == [b"last words"]
        with pytest.raises(ConnectionLost, match="is closed"):
            line.ask()


@in_loop
async def test_each_request_has_its_own_time() -> None:
    async with connected() as line:
        slow, quick, quicker = line.ask(seconds=MEANWHILE), line.ask(seconds=0.03), line.ask(seconds=0.01)
        for late, shown in ((quicker, "0.01"), (quick, "0.03")):
            with pytest.raises(RequestTimedOut, match=f"did not answer code {CODE} in {shown} s"):
                await late
        assert not slow.done()
        assert line.channel.pending_count == 1
        again = line.ask(seconds=0.01)
        with pytest.raises(RequestTimedOut):
            await again
        line.channel.data_received(encode_reply(line.asked()[0]))
        assert (await slow).code == 0


@in_loop
async def test_nobody_waits_for_a_lost_connection() -> None:
    async with connected() as line:
        answers = [line.ask() for _ in range(3)]
        line.channel.connection_lost(None)
        for answer in answers:
            with pytest.raises(ConnectionLost, match="ended before the answer"):
                await answer


@in_loop
async def test_requests_that_were_given_up_do_not_count_for_ever() -> None:
    async with connected(max_pending_per_channel=3) as line:
        given_up, waiting = [line.ask() for _ in range(2)], line.ask()
        with pytest.raises(TooManyRequests, match="3 requests"):
            line.ask()
        for answer in given_up:
            answer.cancel()
        answers = [waiting, line.ask(), line.ask()]
        with pytest.raises(TooManyRequests):
            line.ask()
        await asyncio.sleep(0)
        line.channel.data_received(b"".join(map(encode_reply, line.asked())))  # also to those who are gone
        assert [(await answer).code for answer in answers] == [0, 0, 0]


@in_loop
async def test_a_request_that_was_given_up_is_forgotten_when_its_time_is_over() -> None:
    async with connected() as line:
        line.ask(seconds=0.01).cancel()
        assert line.channel.pending_count == 1
        await until(lambda: line.channel.pending_count == 0)
        assert not line.transport.is_closed  # its silence says nothing
