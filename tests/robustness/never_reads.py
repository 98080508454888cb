"""A peer that asks without end for the longest list there is, and reads no answer."""

from __future__ import annotations

import socket
from typing import Self

from apogeemq.protocol.codes import RequestCode
from tests.robustness.attacked import Attacked, broker_addresses, route_request
from tests.robustness.raw_peer import TIMEOUT_S, request

_SMALL_BUFFER = 64 * 1024  # of the kernel, so that it is stuck soon
_BLOCK = 100  # requests made at a time
_ODD_SIZE = 997  # bytes sent at a time, so that reads do not end where requests do
FIRST_OPAQUE = 1_000_000  # all requests are equally long
_TURNS = 5  # answers to somebody else by which the server would have read more if it wanted to


class NeverReads:
    def __init__(self, attacked: Attacked) -> None:
        self._attacked = attacked
        self._rest = b""
        self._made = 0
        self.peer = attacked.peer(receive_buffer=_SMALL_BUFFER)
        self.peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SMALL_BUFFER)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.peer.socket.close()

    @property
    def sent(self) -> int:
        """Whole requests."""
        return self._made - -(-len(self._rest) // len(_question(0)))

    def send_until_stuck(self) -> None:
        """Until the server takes no more, though it serves others. Then half a request is under way, as a rule."""
        self.peer.socket.setblocking(False)
        with self._attacked.peer() as other:
            while self._send_until_blocked():
                for _ in range(_TURNS):
                    assert list(broker_addresses(other.ask(route_request()))) == ["steady-broker"]
        self.peer.socket.settimeout(TIMEOUT_S)

    def _send_until_blocked(self) -> bool:
        """Says whether anything could be sent."""
        is_any_sent = False
        while True:
            if not self._rest:
                self._rest = b"".join(_question(self._made + number) for number in range(_BLOCK))
                self._made += _BLOCK
            try:
                self._rest = self._rest[self.peer.socket.send(self._rest[:_ODD_SIZE]) :]
            except BlockingIOError:
                return is_any_sent
            is_any_sent = True


def _question(number: int) -> bytes:
    return request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, opaque=FIRST_OPAQUE + number)
