"""From a request's code to its handler, with hooks around."""

from __future__ import annotations

import pytest

from apogeemq.errors import ConfigError, RequestRefused
from apogeemq.protocol.codec import decode_frame, encode_ok, encode_request
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.broker import SendCommand, decode_send
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import GO_AWAY_SINCE_VERSION, Reply
from tests.unit.event_loop import in_loop
from tests.unit.transport.live import ECHO, FAIL, Line, dispatcher


def ask(line: Line, code: int = ECHO) -> Command:
    line.feed(encode_request(code, 1, None, b"body"))
    (answer,) = line.transport.answers()
    return answer


@in_loop
async def test_an_unknown_code_is_answered_so_and_the_connection_kept() -> None:
    line = Line()
    answer = ask(line, 4321)
    assert (answer.code, answer.remark) == (3, " request type 4321 not supported")
    assert ask(line).body == b"body"


@in_loop
async def test_a_refusal_is_the_handlers_own_code_and_remark() -> None:
    def refuse(channel: Channel, command: Command) -> Reply:
        raise RequestRefused(17, "no such topic")

    line = Line()
    line.server.dispatcher.register(5, refuse)
    answer = ask(line, 5)
    assert (answer.code, answer.remark) == (17, "no such topic")
    assert line.server.dispatcher.failure_count == 0


@in_loop
async def test_an_error_of_ours_is_told_without_its_class(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(channel: Channel, command: Command) -> Reply:
        raise ConfigError("the key is wrong")

    line = Line()
    line.server.dispatcher.register(5, refuse)
    answer = ask(line, 5)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "the key is wrong")
    assert line.server.dispatcher.failure_count == 1
    assert caplog.text == ""


@in_loop
async def test_requests_are_counted_by_code() -> None:
    line = Line()
    for code in (ECHO, ECHO, FAIL, 4321):
        ask(line, code)
    counts = line.server.dispatcher.request_counts
    assert (counts[ECHO], counts[FAIL], 4321 in counts) == (2, 1, False)
    assert line.server.dispatcher.failure_count == 1


@in_loop
async def test_hooks_run_around_the_handler_in_order() -> None:
    line = Line()
    seen: list[str] = []

    def after(channel: Channel, command: Command, reply: Reply) -> None:
        assert isinstance(reply, bytes)
        seen.append(decode_frame(reply[4:]).body.decode())

    line.server.dispatcher.before += [
        lambda channel, command: seen.append(f"first {command.code}"),
        lambda channel, command: seen.append("second"),
    ]
    line.server.dispatcher.after.append(after)
    ask(line)
    assert seen == ["first 1000", "second", "body"]


@in_loop
async def test_hooks_see_the_fields_of_requests_that_are_otherwise_read_with_their_header() -> None:
    taken: list[type[Command]] = []
    seen: list[dict[str, str]] = []

    def handler(channel: Channel, command: Command) -> Reply:
        taken.append(type(command))
        return encode_ok(command, b"")

    fields = {"b": "T", "e": "0", "f": "0", "g": "0", "h": "0"}
    line = Line()
    dispatch = line.server.dispatcher
    dispatch.register(310, handler, decode_send)
    line.feed(encode_request(310, 1, fields))
    dispatch.before.append(lambda channel, command: seen.append(command.fields()))
    line.feed(encode_request(310, 2, fields))
    assert taken == [SendCommand, Command]
    assert seen == [fields]


@in_loop
async def test_a_hook_before_may_refuse_and_the_handler_is_not_asked() -> None:
    called = []

    def handler(channel: Channel, command: Command) -> Reply:
        called.append(command)
        return encode_ok(command, b"")

    def deny(channel: Channel, command: Command) -> None:
        raise RequestRefused(ResponseCode.NO_PERMISSION, f"not you, {channel.address[0]}")

    line = Line()
    line.server.dispatcher.register(5, handler)
    line.server.dispatcher.before.append(deny)
    answer = ask(line, 5)
    assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "not you, 10.0.0.9")
    assert called == []


@in_loop
async def test_a_hook_after_that_breaks_costs_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    def broken(channel: Channel, command: Command, reply: Reply) -> None:
        raise ValueError("odd")

    seen: list[int] = []
    line = Line()
    line.server.dispatcher.after += [broken, lambda channel, command, reply: seen.append(command.code)]
    assert ask(line).body == b"body"
    assert seen == [ECHO]
    assert "a hook after request code 1000 failed" in caplog.text


@pytest.mark.parametrize(
    ("version", "code"),
    [(GO_AWAY_SINCE_VERSION, ResponseCode.GO_AWAY), (GO_AWAY_SINCE_VERSION - 1, ResponseCode.SUCCESS)],
)
@in_loop
async def test_clients_that_know_the_word_are_told_to_go_away(version: int, code: int) -> None:
    line = Line()
    line.server.dispatcher.is_going_away = True
    reply = line.server.dispatcher.dispatch(line.channel, Command(code=ECHO, version=version))
    assert isinstance(reply, bytes)
    assert decode_frame(reply[4:]).code == code


def test_registering_a_code_starts_its_count() -> None:
    assert dispatcher().request_counts == {ECHO: 0, FAIL: 0}
