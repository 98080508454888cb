"""A connection on which a thread waits for its answer itself."""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
import time
from contextlib import closing
from typing import Any

import pytest

from apogeemq.errors import ConfigError, ConnectFailed, ConnectionLost, RequestTimedOut
from apogeemq.protocol.codec import encode_frame, encode_ok, encode_request
from apogeemq.protocol.command import FLAG_RESPONSE, Command, CommandHead
from apogeemq.protocol.framing import MAX_FRAME_SIZE
from apogeemq.transport.direct.exchange import Exchange
from tests.unit.event_loop import in_loop
from tests.unit.transport.direct.scripted_peer import Script, peer, request, reset, until_closed
from tests.unit.transport.live import ECHO, PATIENCE_SECONDS, deaf_port

LATER = 3600.0  # so long after its last use a connection is not believed to be there
LARGE = bytes(8 << 20)


def connected(address: str, **options: Any) -> closing[Exchange]:
    return closing(Exchange(address, MAX_FRAME_SIZE, PATIENCE_SECONDS, **options))


def asked(exchange: Exchange, body: bytes = b"x", seconds: float = PATIENCE_SECONDS) -> Command:
    opaque = exchange.next_opaque()
    return exchange.ask(opaque, encode_request(ECHO, opaque, None, body), time.monotonic(), seconds)


def echo(connection: socket.socket) -> None:
    """Answers one request."""
    command = request(connection)
    connection.sendall(encode_ok(command, command.body))


# -- answers -------------------------------------------------------------------------------------------------


def test_one_request_after_the_other() -> None:
    def serve(connection: socket.socket) -> None:
        for _ in range(3):
            echo(connection)
        until_closed(connection)

    with peer(serve) as address, connected(address) as exchange:
        answers = [asked(exchange, b"%d" % number) for number in range(3)]
        assert [(answer.opaque, answer.body) for answer in answers] == [(1, b"0"), (2, b"1"), (3, b"2")]


@pytest.mark.parametrize("size", [1, 3, 50])
def test_an_answer_in_pieces(size: int) -> None:
    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        command = request(connection)
        answer = encode_ok(command, command.body)
        for start in range(0, len(answer), size):
            connection.sendall(answer[start : start + size])
        until_closed(connection)

    with peer(serve) as address, connected(address) as exchange:
        assert asked(exchange, b"in pieces").body == b"in pieces"


@pytest.mark.parametrize("is_one_piece", [True, False])
def test_what_is_not_the_answer_is_passed_over(is_one_piece: bool) -> None:
    def serve(connection: socket.socket) -> None:
        command = request(connection)
        frames = (
            encode_request(ECHO, command.opaque, None, b"a request that happens to have the number"),
            encode_frame(CommandHead(0, command.opaque + 1, FLAG_RESPONSE), None, b"the answer to another"),
            encode_ok(command, b"the answer"),
            encode_request(ECHO, command.opaque, None, b"one more"),
        )
        for piece in (b"".join(frames),) if is_one_piece else frames:
            connection.sendall(piece)
        echo(connection)
        until_closed(connection)

    with peer(serve) as address, connected(address) as exchange:
        assert asked(exchange).body == b"the answer"
        assert asked(exchange, b"the next").body == b"the next"


def test_an_answer_with_an_error_is_an_answer() -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(encode_frame(CommandHead(17, request(connection).opaque, FLAG_RESPONSE, "no")))
        until_closed(connection)

    with peer(serve) as address, connected(address) as exchange:
        answer = asked(exchange)
        assert (answer.code, answer.remark) == (17, "no")


# -- what goes wrong -----------------------------------------------------------------------------------------


def close_at_once(connection: socket.socket) -> None:
    request(connection)


def close_within_an_answer(connection: socket.socket) -> None:
    connection.sendall(encode_ok(request(connection), b"cut")[:-1])


def reset_at_once(connection: socket.socket) -> None:
    request(connection)
    reset(connection)


@pytest.mark.parametrize("script", [close_at_once, close_within_an_answer, reset_at_once])
def test_a_connection_that_ends(script: Script) -> None:
    with peer(script) as address, connected(address) as exchange:
        with pytest.raises(ConnectionLost, match=f"connection to {address} ended before the answer") as lost:
            asked(exchange)
        assert lost.value.retriable
        assert not exchange.is_usable(time.monotonic() + LATER)


def test_a_connection_that_was_reset_before() -> None:
    is_time, is_reset = threading.Event(), threading.Event()

    def serve(connection: socket.socket) -> None:
        is_time.wait()
        reset(connection)
        is_reset.set()

    with peer(serve) as address, connected(address) as exchange:
        is_time.set()
        is_reset.wait()
        with pytest.raises(ConnectionLost, match=f"connection to {address} ended before the answer: "):
            asked(exchange)


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400 Bad Request\r\n", bytes(100), b"\0\0\0\7\0\0\0\3{x}"])
def test_what_is_not_the_protocol(garbage: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        request(connection)
        connection.sendall(garbage)
        until_closed(connection)

    with (
        peer(serve) as address,
        connected(address) as exchange,
        pytest.raises(ConnectionLost, match=f"what {address} sent is no answer"),
    ):
        asked(exchange)


def test_a_peer_that_says_nothing() -> None:
    with (
        peer(until_closed) as address,
        connected(address) as exchange,
        pytest.raises(RequestTimedOut, match=rf"{address} did not answer in 0\.05 s"),
    ):
        asked(exchange, seconds=0.05)


def test_a_peer_that_talks_of_other_things() -> None:
    def serve(connection: socket.socket) -> None:
        while True:  # until the other end has closed
            connection.sendall(encode_request(ECHO, 1))

    with peer(serve) as address, connected(address) as exchange, pytest.raises(RequestTimedOut):
        asked(exchange, seconds=0.05)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_the_time_may_be_over_before(seconds: float) -> None:
    with peer(until_closed) as address, connected(address) as exchange, pytest.raises(RequestTimedOut):
        asked(exchange, seconds=seconds)


# -- large requests ------------------------------------------------------------------------------------------


class Watched(socket.socket):
    """Says when the kernel has no room for more."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(fileno=descriptor)
        self.is_full = threading.Event()

    def send(self, data: Any, flags: int = 0, /) -> int:
        try:
            return super().send(data, flags)
        except BlockingIOError:
            self.is_full.set()
            raise


def test_a_request_larger_than_the_buffers_for_a_peer_that_reads_late() -> None:
    is_time = threading.Event()
    body = os.urandom(1 << 20) * 8

    def serve(connection: socket.socket) -> None:
        is_time.wait()
        command = request(connection)
        connection.sendall(encode_ok(command, b"whole" if command.body == body else b"spoilt"))
        until_closed(connection)

    with peer(serve) as address, connected(address) as exchange:
        watched = Watched(exchange._socket.detach())
        watched.is_full = is_time
        exchange._socket = watched
        assert asked(exchange, body).body == b"whole"


class Crowded(socket.socket):
    """At first there is no room for a single byte."""

    was_full = False

    def send(self, data: Any, flags: int = 0, /) -> int:
        if not self.was_full:
            self.was_full = True
            raise BlockingIOError
        return super().send(data, flags)


def test_no_room_at_first_is_no_time_out() -> None:
    def serve(connection: socket.socket) -> None:
        echo(connection)
        until_closed(connection)

    with peer(serve) as address, connected(address) as exchange:
        exchange._socket = Crowded(fileno=exchange._socket.detach())
        assert asked(exchange, b"in the end").body == b"in the end"


def test_a_peer_that_never_reads() -> None:
    is_over = threading.Event()

    def serve(connection: socket.socket) -> None:
        is_over.wait()

    with peer(serve) as address:
        with connected(address) as exchange, pytest.raises(RequestTimedOut):
            asked(exchange, LARGE, 0.05)
        is_over.set()


def test_a_peer_that_takes_a_little_now_and_then() -> None:
    def serve(connection: socket.socket) -> None:
        while connection.recv(1 << 12):
            time.sleep(0.001)  # at this pace all of it takes seconds

    with peer(serve) as address, connected(address) as exchange, pytest.raises(RequestTimedOut):
        asked(exchange, LARGE, 0.2)


# -- between requests ----------------------------------------------------------------------------------------


def test_a_quiet_connection_stays_usable() -> None:
    def serve(connection: socket.socket) -> None:
        echo(connection)
        until_closed(connection)

    with peer(serve) as address, connected(address) as exchange:
        asked(exchange)
        assert exchange.is_usable(time.monotonic() + LATER)


@pytest.mark.parametrize("leave", [socket.socket.close, reset])
def test_a_peer_that_has_left_is_noticed(leave: Script) -> None:
    has_left = threading.Event()

    def serve(connection: socket.socket) -> None:
        echo(connection)
        leave(connection)
        has_left.set()

    with peer(serve) as address, connected(address) as exchange:
        started, opaque = time.monotonic(), exchange.next_opaque()
        exchange.ask(opaque, encode_request(ECHO, opaque), started, PATIENCE_SECONDS)
        has_left.wait()
        assert exchange.is_usable(started)  # used a moment ago: nobody looks
        assert not exchange.is_usable(started + LATER)


def test_a_word_nobody_asked_for_makes_it_unusable() -> None:
    has_spoken = threading.Event()

    def serve(connection: socket.socket) -> None:
        echo(connection)
        asked_for.wait()
        connection.sendall(encode_request(ECHO, 7))
        has_spoken.set()
        until_closed(connection)

    asked_for = threading.Event()
    with peer(serve) as address, connected(address) as exchange:
        asked(exchange)
        asked_for.set()
        has_spoken.wait()
        assert not exchange.is_usable(time.monotonic() + LATER)


def test_garbage_behind_an_answer_makes_it_unusable() -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(encode_ok(request(connection), b"well") + bytes(4))
        until_closed(connection)

    with peer(serve) as address, connected(address) as exchange:
        started, opaque = time.monotonic(), exchange.next_opaque()
        answer = exchange.ask(opaque, encode_request(ECHO, opaque), started, PATIENCE_SECONDS)
        assert answer.body == b"well"
        assert not exchange.is_usable(started if exchange._reader.error is not None else started + LATER)


# -- connecting ----------------------------------------------------------------------------------------------


def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ConnectFailed, match=f"cannot connect to {address}: .*refused") as failed:
            connected(address)
        assert failed.value.retriable


@in_loop
async def test_nobody_lets_it_in() -> None:
    async with deaf_port() as address:
        with pytest.raises(ConnectFailed, match=rf"cannot connect to {address}: no answer in 0\.05 s"):
            Exchange(address, MAX_FRAME_SIZE, 0.05)


def test_an_address_that_is_none() -> None:
    with pytest.raises(ConfigError, match="is not of the form host:port"):
        connected("nonsense")


def test_what_the_kernel_is_told() -> None:
    with peer(until_closed) as address, connected(address, unacknowledged_ms=2500) as exchange:
        with socket.socket(fileno=os.dup(exchange.descriptor())) as own:
            assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 2500
            assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            assert own.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == struct.pack("ii", 1, 0)
        exchange.close()
        assert exchange.descriptor() == -1


def test_a_signal_that_did_not_wake_the_thread_is_heeded() -> None:
    """Another thread took it; compiled code would not look for it by itself."""
    is_asked = threading.Event()

    def take_signal() -> None:
        is_asked.wait()
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    def serve(connection: socket.socket) -> None:
        request(connection)
        is_asked.set()
        until_closed(connection)

    thread = threading.Thread(target=take_signal)
    thread.start()
    with peer(serve) as address, connected(address) as exchange, pytest.raises(KeyboardInterrupt):
        asked(exchange, seconds=PATIENCE_SECONDS)
    thread.join()
