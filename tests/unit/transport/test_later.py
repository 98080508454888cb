"""Answers that come later without a future: held, written, refused, forgotten."""

from __future__ import annotations

import asyncio

from apogeemq.protocol.codec import encode_ok, encode_request
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Reply
from apogeemq.transport.later import Later
from tests.unit.event_loop import in_loop
from tests.unit.transport.live import ECHO, Line, until

PROMISE = 7001


class Promising:
    """A handler that promises every answer."""

    def __init__(self) -> None:
        self.promised: list[tuple[Command, Later]] = []

    def __call__(self, channel: Channel, command: Command) -> Reply:
        later = Later()
        self.promised.append((command, later))
        return later

    def keep(self) -> None:
        for command, later in self.promised:
            later.settle(encode_ok(command, b"kept"))
        self.promised.clear()


def promising_line(**limits: int) -> tuple[Line, Promising]:
    line, promising = Line(**limits), Promising()
    line.server.dispatcher.register(PROMISE, promising)
    return line, promising


def request(opaque: int, code: int = PROMISE, *, one_way: bool = False) -> bytes:
    return encode_request(code, opaque, one_way=one_way)


@in_loop
async def test_answers_that_come_together_are_written_together() -> None:
    line, promising = promising_line()
    line.feed(request(1), request(2), request(3, ECHO), request(4, one_way=True))
    assert [answer.opaque for answer in line.transport.answers()] == [3]
    assert (line.channel.held_count, line.server.held_count) == (3, 3)
    promising.keep()
    await until(lambda: line.transport.writes)
    assert len(line.transport.writes) == 1
    assert [(answer.opaque, answer.body) for answer in line.transport.answers()] == [(1, b"kept"), (2, b"kept")]
    assert (line.channel.held_count, line.server.held_count) == (0, 0)


@in_loop
async def test_what_is_there_already_is_written_with_the_other_answers() -> None:
    line = Line()

    def at_once(channel: Channel, command: Command) -> Reply:
        later = Later()
        later.settle(encode_ok(command, b"at once"))
        return later

    line.server.dispatcher.register(PROMISE, at_once)
    line.feed(request(1), request(2, one_way=True), request(3, ECHO))
    assert len(line.transport.writes) == 1
    assert [(answer.opaque, answer.body) for answer in line.transport.answers()] == [(1, b"at once"), (3, b"")]
    assert line.channel.held_count == 0


@in_loop
async def test_more_than_may_be_held_are_answered_busy() -> None:
    line, promising = promising_line(max_held_per_channel=2)
    line.feed(*(request(number) for number in (1, 2, 3)), request(4, one_way=True))
    assert [(a.opaque, a.code) for a in line.transport.answers()] == [(3, ResponseCode.SYSTEM_BUSY)]
    promising.keep()
    await until(lambda: line.transport.writes)
    assert [(a.opaque, a.code) for a in line.transport.answers()] == [(1, 0), (2, 0)]
    assert line.server.held_count == 0


@in_loop
async def test_a_connection_that_is_gone_gets_nothing_and_counts_no_longer() -> None:
    line, promising = promising_line()
    line.feed(request(1))
    line.lose()
    promising.keep()
    assert line.server.held_count == 0
    await asyncio.sleep(0)
    assert line.transport.writes == []


@in_loop
async def test_as_a_future_it_may_be_settled_before_and_after() -> None:
    loop = asyncio.get_running_loop()
    before, after, given_up = Later(), Later(), Later()
    before.settle(b"1")
    futures = [later.as_future(loop) for later in (before, after, given_up)]
    after.settle(b"2")
    futures[2].cancel()
    given_up.settle(b"3")
    assert [future.result() for future in futures[:2]] == [b"1", b"2"]
