"""Requests of our own over a connection, and their answers."""

from __future__ import annotations

import asyncio

import pytest

from apogeemq.errors import ConnectionLost, RequestTimedOut, TooManyRequests
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.command import Command
from tests.unit.event_loop import in_loop
from tests.unit.transport.live import Line, until


def sent(line: Line) -> Command:
    (command,) = line.transport.answers()
    return command


@in_loop
async def test_answers_are_matched_by_number_in_any_order() -> None:
    line = Line()
    first = asyncio.ensure_future(line.channel.request(5, {"a": "b"}, b"body", timeout_seconds=60))
    second = asyncio.ensure_future(line.channel.request(6, timeout_seconds=60))
    await until(lambda: len(line.transport.writes) == 2)
    asked = line.transport.answers()
    assert [(command.code, command.fields(), command.body) for command in asked] == [
        (5, {"a": "b"}, b"body"),
        (6, {}, b""),
    ]
    assert line.channel.pending_count == 2
    line.feed(encode_reply(asked[1], 17, "late"), encode_reply(asked[0], body=b"early"))
    assert (await first).body == b"early"
    assert ((await second).code, (await second).remark) == (17, "late")
    assert line.channel.pending_count == 0


@in_loop
async def test_answers_nobody_waits_for_are_dropped() -> None:
    line = Line()
    waiting = asyncio.ensure_future(line.channel.request(5, timeout_seconds=60))
    await until(lambda: line.transport.writes)
    command = sent(line)
    stray = Command(code=5, opaque=command.opaque + 1)
    line.feed(encode_reply(stray), encode_reply(command), encode_reply(command))
    await waiting
    assert line.transport.writes == []
    assert not line.transport.is_closed


@in_loop
async def test_no_answer_in_time() -> None:
    line = Line()
    with pytest.raises(RequestTimedOut, match=r"10\.0\.0\.9:1234 did not answer code 5 in 0\.01 s"):
        await line.channel.request(5, timeout_seconds=0.01)
    assert line.channel.pending_count == 0
    line.feed(encode_reply(sent(line)))  # too late: dropped


@in_loop
async def test_a_lost_connection_fails_what_waits_and_what_comes_after() -> None:
    line = Line()
    waiting = asyncio.ensure_future(line.channel.request(5, timeout_seconds=60))
    await until(lambda: line.transport.writes)
    line.lose()
    with pytest.raises(ConnectionLost, match="ended before the answer"):
        await waiting
    with pytest.raises(ConnectionLost, match="is closed"):
        await line.channel.request(5, timeout_seconds=60)


@in_loop
async def test_requests_without_answer_are_limited() -> None:
    line = Line(max_pending_per_channel=1)
    waiting = asyncio.ensure_future(line.channel.request(5, timeout_seconds=60))
    await until(lambda: line.transport.writes)
    with pytest.raises(TooManyRequests, match="1 requests to"):
        await line.channel.request(5, timeout_seconds=60)
    line.feed(encode_reply(sent(line)))
    await waiting


@in_loop
async def test_a_caller_that_gives_up_leaves_nothing_behind() -> None:
    line = Line()
    waiting = asyncio.ensure_future(line.channel.request(5, timeout_seconds=60))
    await until(lambda: line.transport.writes)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert line.channel.pending_count == 0


@in_loop
async def test_one_way_requests_say_so() -> None:
    line = Line()
    line.channel.send_one_way(40, {"a": "b"}, b"body")
    command = sent(line)
    assert (command.code, command.is_one_way, command.fields(), command.body) == (40, True, {"a": "b"}, b"body")
