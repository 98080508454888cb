"""One connection: reads in, joined writes out, limits, requests of our own."""

from __future__ import annotations

import logging

import pytest

from apogeemq.errors import RequestRefused, TooManyRequests
from apogeemq.protocol.codec import encode_ok, encode_request
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import BINARY, Command
from apogeemq.protocol.framing import FrameReader
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import BUSY_REMARK, Reply
from tests.unit.event_loop import in_loop
from tests.unit.transport.live import ECHO, FAIL, HOLD, Line, until


def request(opaque: int, code: int = ECHO, body: bytes = b"", *, one_way: bool = False) -> bytes:
    return encode_request(code, opaque, None, body, one_way=one_way)


@in_loop
async def test_all_frames_of_a_read_are_answered_with_one_write() -> None:
    line = Line()
    line.feed(*(request(number, body=b"%d" % number) for number in range(1, 101)))
    assert len(line.transport.writes) == 1
    answers = line.transport.answers()
    assert [(answer.opaque, answer.body) for answer in answers] == [(n, b"%d" % n) for n in range(1, 101)]
    assert all(answer.is_response for answer in answers)


@in_loop
async def test_a_frame_cut_by_reads_is_answered_when_it_is_whole() -> None:
    line = Line()
    frame = request(7, body=b"hello")
    line.feed(request(6), frame[:20])
    assert [answer.opaque for answer in line.transport.answers()] == [6]
    assert line.channel.is_mid_frame
    line.feed(frame[20:])
    assert [answer.body for answer in line.transport.answers()] == [b"hello"]


@in_loop
async def test_each_answer_is_in_the_codec_of_its_request() -> None:
    line = Line()
    line.feed(request(1), encode_request(ECHO, 2, {}, codec=BINARY), encode_request(4321, 3, {}, codec=BINARY))
    assert [(a.opaque, a.codec, a.code) for a in line.transport.answers()] == [(1, 0, 0), (2, 1, 0), (3, 1, 3)]


@in_loop
async def test_one_way_requests_are_never_answered_not_even_their_errors(caplog: pytest.LogCaptureFixture) -> None:
    line = Line()
    line.feed(*(request(code, code, one_way=True) for code in (ECHO, FAIL, HOLD, 4321)), request(9))
    assert [answer.opaque for answer in line.transport.answers()] == [9]
    line.holding.release()
    await until(lambda: line.channel.held_count == 0)
    assert line.transport.writes == []
    assert line.server.dispatcher.request_counts == {ECHO: 2, FAIL: 1, HOLD: 1}


@in_loop
async def test_large_answers_are_written_before_they_pile_up() -> None:
    line = Line(pause_reading_at=1000)
    line.feed(*(request(number, body=bytes(600)) for number in range(6)))
    assert [len(FrameReader().feed(write)) for write in line.transport.writes] == [2, 2, 2]


@in_loop
async def test_what_is_to_be_done_before_answers_is_done_once_for_a_read() -> None:
    line, writes_before = Line(), list[int]()
    line.server.dispatcher.before_answers = lambda: writes_before.append(len(line.transport.writes))
    line.feed(request(1)[:5])
    assert writes_before == []  # there was no request yet
    line.feed(request(1)[5:], request(2), request(3))
    assert (writes_before, len(line.transport.writes)) == ([0], 1)
    line.feed(request(4, one_way=True))
    assert (writes_before, len(line.transport.writes)) == ([0, 1], 1)


@in_loop
async def test_and_before_each_write_of_large_answers() -> None:
    line, writes_before = Line(pause_reading_at=1000), list[int]()
    line.server.dispatcher.before_answers = lambda: writes_before.append(len(line.transport.writes))
    line.feed(*(request(number, body=bytes(600)) for number in range(6)))
    assert (writes_before, len(line.transport.writes)) == ([0, 1, 2], 3)


# -- garbage -------------------------------------------------------------------------------------------------


@in_loop
async def test_what_came_before_garbage_is_answered_and_nothing_after(caplog: pytest.LogCaptureFixture) -> None:
    line = Line()
    line.feed(request(1), b"\x00\x00\x00\x06\x00\x00\x00\x02[]", request(2))
    assert [answer.opaque for answer in line.transport.answers()] == [1]
    assert line.transport.is_closed
    assert line.server.counters.closed_malformed == 1
    assert "closed 10.0.0.9:1234: header is not a JSON object" in caplog.text


@in_loop
async def test_bytes_that_are_no_frame_close_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    line = Line()
    line.feed(request(1), b"GET / HTTP/1.1\r\n\r\n")
    assert len(line.transport.answers()) == 1
    assert line.transport.is_closed
    assert "frame length 1195725856" in caplog.text


@in_loop
async def test_fields_that_cannot_be_read_cost_one_request_only() -> None:
    def needs_fields(channel: Channel, command: Command) -> Reply:
        return encode_ok(command, str(command.fields()).encode())

    line = Line()
    line.server.dispatcher.register(5, needs_fields)
    header = b'{"code":5,"opaque":1,"extFields":[1]}'
    line.feed((4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header, request(2))
    refused, served = line.transport.answers()
    assert (refused.opaque, refused.code, refused.remark) == (1, 1, "extFields is not an object")
    assert served.opaque == 2
    assert not line.transport.is_closed


# -- peers that do not read ----------------------------------------------------------------------------------


@in_loop
async def test_reading_stops_while_the_peer_does_not_take_its_answers() -> None:
    line = Line()
    line.channel.pause_writing()
    assert line.transport.is_reading_paused
    line.channel.resume_writing()
    assert not line.transport.is_reading_paused


@in_loop
async def test_requests_read_beyond_the_limit_are_answered_busy() -> None:
    line = Line(refuse_at=5000)
    line.channel.pause_writing()
    line.transport.queued_size = 5000
    line.feed(request(1))
    line.transport.queued_size = 5001
    line.feed(request(2), request(3, one_way=True))
    line.channel.resume_writing()
    line.transport.queued_size = 0
    line.feed(request(4))
    answers = [(answer.opaque, answer.code, answer.remark) for answer in line.transport.answers()]
    assert answers == [(1, 0, None), (2, ResponseCode.SYSTEM_BUSY, BUSY_REMARK), (4, 0, None)]


@in_loop
async def test_our_own_one_way_requests_do_not_pile_up_either() -> None:
    line = Line(refuse_at=5000)
    line.channel.pause_writing()
    line.transport.queued_size = 5001
    with pytest.raises(TooManyRequests, match=r"5001 bytes to 10\.0\.0\.9:1234 are not taken"):
        line.channel.send_one_way(5)
    line.transport.queued_size = 4999
    line.channel.send_one_way(5)
    assert [answer.code for answer in line.transport.answers()] == [5]


# -- requests that are held ----------------------------------------------------------------------------------


@in_loop
async def test_a_held_request_is_answered_when_its_time_comes() -> None:
    line = Line()
    line.feed(request(1, HOLD), request(2))
    assert [answer.opaque for answer in line.transport.answers()] == [2]
    assert (line.channel.held_count, line.server.held_count) == (1, 1)
    line.holding.release()
    await until(lambda: line.transport.writes)
    assert [(answer.opaque, answer.body) for answer in line.transport.answers()] == [(1, b"released")]
    assert (line.channel.held_count, line.server.held_count) == (0, 0)


@in_loop
async def test_a_held_request_that_fails_is_answered_so() -> None:
    line = Line()
    line.feed(request(1, HOLD), request(2, HOLD), request(3, HOLD))
    (_, _, refused), (_, _, broken), (_, _, dropped) = line.holding.held
    refused.set_exception(RequestRefused(17, "no such topic"))
    broken.set_exception(ValueError("odd"))
    dropped.cancel()
    await until(lambda: line.channel.held_count == 0)
    answers = [(answer.opaque, answer.code, answer.remark) for answer in line.transport.answers()]
    assert answers == [(1, 17, "no such topic"), (2, 1, "ValueError: odd")]


@in_loop
async def test_more_held_requests_than_one_connection_may_have_are_answered_busy() -> None:
    line = Line(max_held_per_channel=2)
    line.feed(*(request(number, HOLD) for number in (1, 2, 3)), request(4, HOLD, one_way=True), request(5))
    assert [(a.opaque, a.code) for a in line.transport.answers()] == [(3, ResponseCode.SYSTEM_BUSY), (5, 0)]
    assert [answer.cancelled() for _, _, answer in line.holding.held] == [False, False, True, True]
    line.holding.release()
    await until(lambda: line.channel.held_count == 0)
    line.feed(request(6, HOLD))
    assert line.channel.held_count == 1


@in_loop
async def test_more_held_requests_than_the_server_may_have_are_answered_busy() -> None:
    line = Line(max_held=3)
    line.server.held_count = 3  # on other connections
    line.feed(request(1, HOLD))
    assert [a.code for a in line.transport.answers()] == [ResponseCode.SYSTEM_BUSY]


@in_loop
async def test_a_lost_connection_drops_what_it_held() -> None:
    line = Line()
    line.feed(request(1, HOLD))
    line.lose()
    await until(lambda: line.server.held_count == 0)
    assert line.holding.held[0][2].cancelled()
    assert line.transport.writes == []


@in_loop
async def test_of_two_connections_the_newer_has_the_higher_number() -> None:
    assert Line().channel.number < Line().channel.number


@in_loop
async def test_nothing_is_written_once_it_is_closing() -> None:
    line = Line()
    line.feed(request(1, HOLD))
    line.channel.close()
    line.holding.release()
    await until(lambda: line.channel.held_count == 0)
    assert line.transport.writes == []


@in_loop
async def test_a_handler_that_breaks_is_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    line = Line()
    with caplog.at_level(logging.ERROR):
        line.feed(request(1, FAIL), request(2))
    broken, served = line.transport.answers()
    assert (broken.opaque, broken.code, broken.remark) == (1, 1, "RuntimeError: the handler broke")
    assert served.code == 0
    assert "request code 1002 failed" in caplog.text
