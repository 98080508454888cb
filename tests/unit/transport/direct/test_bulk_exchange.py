"""Answers that are read to where the thread wants them, a head at a time and then its body."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from apogeemq.errors import ConnectionLost, RequestTimedOut
from apogeemq.protocol.codec import encode_ok, encode_request
from apogeemq.protocol.framing import MAX_FRAME_SIZE
from apogeemq.transport.direct.bulk_exchange import BulkExchange
from tests.unit.transport.direct.scripted_peer import Script, peer, request, until_closed
from tests.unit.transport.live import ECHO, PATIENCE_SECONDS

LARGE = bytes(range(256)) * (8 << 12)


def connected(address: str, max_frame_size: int = MAX_FRAME_SIZE) -> closing[BulkExchange]:
    return closing(BulkExchange(address, max_frame_size, PATIENCE_SECONDS))


def ask(exchange: BulkExchange, body: bytes) -> int:
    opaque = exchange.next_opaque()
    exchange.send(encode_request(ECHO, opaque, None, body), PATIENCE_SECONDS)
    return opaque


def echo_all(connection: socket.socket, count: int) -> None:
    for _ in range(count):
        command = request(connection)
        connection.sendall(encode_ok(command, command.body))
    until_closed(connection)


def test_bodies_lie_side_by_side() -> None:
    room = bytearray(len(LARGE) + 5)
    with peer(lambda connection: echo_all(connection, 3)) as address, connected(address) as exchange:
        at = 0
        for body in (b"abcd", LARGE, b"e"):
            opaque = ask(exchange, body)
            head, size = exchange.head(PATIENCE_SECONDS)
            assert (head.opaque, head.body, size) == (opaque, b"", len(body))
            exchange.body(memoryview(room)[at : at + size], PATIENCE_SECONDS)
            at += size
    assert bytes(room) == b"abcd" + LARGE + b"e"


def cut_off(connection: socket.socket) -> None:
    command = request(connection)
    connection.sendall(encode_ok(command, b"whole")[:-1])


def silent(connection: socket.socket) -> None:
    command = request(connection)
    connection.sendall(encode_ok(command, b"whole")[:-1])
    until_closed(connection)


@pytest.mark.parametrize(("script", "raised"), [(cut_off, ConnectionLost), (silent, RequestTimedOut)])
def test_a_body_that_does_not_come_whole(script: Script, raised: type[Exception]) -> None:
    with peer(script) as address, connected(address) as exchange:
        ask(exchange, b"")
        _, size = exchange.head(PATIENCE_SECONDS)
        with pytest.raises(raised):
            exchange.body(memoryview(bytearray(size)), 0.3)


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xf0\0\0\0\2{}",  # larger than any frame may be
        b"\0\0\0\6\0\1\0\1{}",  # a header longer than the frame
        b"\0\0\0\6\0\0\0\2[]",  # no header
        b"\0\0\0\6",
        b"",
    ],
)
def test_what_is_no_answer_ends_the_connection(sent: bytes) -> None:
    with (
        peer(lambda connection: connection.sendall(sent)) as address,
        connected(address) as exchange,
        pytest.raises(ConnectionLost),
    ):
        exchange.head(PATIENCE_SECONDS)


def test_nobody_answers() -> None:
    with peer(until_closed) as address, connected(address) as exchange:
        ask(exchange, b"")
        with pytest.raises(RequestTimedOut):
            exchange.head(0.3)
