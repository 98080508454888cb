"""The load generator counts answers right however the bytes come, and refuses what is no success."""

from __future__ import annotations

import socket

import pytest

from benchmarks.broker.windows import FramedWindow

FRAMES = [b"one", b"two", b"three"]
TYPICAL = 200


def window(sock: socket.socket, in_flight: int = 2) -> FramedWindow:
    return FramedWindow(sock, FRAMES, in_flight, TYPICAL)


def answer(size: int = TYPICAL) -> bytes:
    return (size - 4).to_bytes(4, "big") + b"a" * (size - 4)


@pytest.mark.parametrize("step", [1, 3, 4, 7, 199, 200, 201, 1_000])
def test_answers_are_counted_in_any_pieces(step: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        receiving = window(ours)
        receiving.send(2)
        receiving.send(2)
        assert theirs.recv(100) == b"onetwothreeone"
        sent = b"".join(answer(size) for size in (200, 199, 230, 170))
        counted = 0
        for start in range(0, len(sent), step):
            theirs.sendall(sent[start : start + step])
            counted += receiving.receive()
        assert (counted, receiving.waiting, receiving.answered) == (4, 0, 4)
        receiving.check_drained()
        assert sum(count for _, count in receiving.latencies) == 4


def test_an_answer_of_another_length_is_an_error() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        receiving = window(ours)
        receiving.start()
        theirs.sendall(answer() + answer(TYPICAL + 100))
        with pytest.raises(RuntimeError, match="unexpected answer"):
            receiving.receive()


def test_half_an_answer_is_not_drained() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        receiving = window(ours)
        receiving.start()
        theirs.sendall(answer() + answer()[:50])
        assert receiving.receive() == 1
        with pytest.raises(RuntimeError):
            receiving.check_drained()


def test_a_closed_connection_is_an_error() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        receiving = window(ours)
        receiving.start()
        theirs.close()
        with pytest.raises(ConnectionError):
            receiving.receive()
