"""Pulls of one queue by a thread that reads the answers itself, on a connection of its own: for those who want many
messages and have nothing else to do meanwhile."""

from __future__ import annotations

import os
import time
from typing import NamedTuple, Self

from apogeemq.client.broker_calls import PullAnswer, pull_answer
from apogeemq.errors import ConnectionLost
from apogeemq.protocol.headers.broker import PullMessage
from apogeemq.protocol.pull_requests import encode_pull
from apogeemq.transport.direct.bulk_exchange import BulkExchange


class RunTarget(NamedTuple):
    """Where to pull, and what of a request is always the same."""

    address: str
    header: PullMessage
    max_frame_size: int
    connect_seconds: float
    unacknowledged_ms: int
    timeout_seconds: float


class RunAnswer(NamedTuple):
    """To the pull of so many messages from an offset on; its records, of so many bytes, are not read yet."""

    offset: int
    messages: int
    answer: PullAnswer
    size: int


_idle: dict[str, BulkExchange] = {}  # by address: one for the next run


def _leave_to_parent() -> None:
    """A forked child must not read from its parent's connections."""
    for exchange in _idle.values():
        exchange.close()
    _idle.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


class PullRun:
    """Use as `with PullRun(target) as run:`. Whatever is raised, or left unread, ends its connection."""

    def __init__(self, target: RunTarget) -> None:
        self._target = target
        self._asked: dict[int, tuple[int, int]] = {}
        self._unread = 0
        self._exchange: BulkExchange | None = None

    def __enter__(self) -> Self:
        """Raises ConnectFailed."""
        target = self._target
        kept = _idle.pop(target.address, None)
        if kept is not None and not kept.is_usable(time.monotonic()):
            kept.close()
            kept = None
        self._exchange = kept or BulkExchange(
            target.address, target.max_frame_size, target.connect_seconds, target.unacknowledged_ms
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        if kind is None and not self._asked and not self._unread and self._target.address not in _idle:
            _idle[self._target.address] = exchange
        else:
            exchange.close()

    @property
    def waiting(self) -> int:
        """Pulls that have no answer yet."""
        return len(self._asked)

    def ask(self, offset: int, messages: int) -> None:
        target, exchange = self._target, self._open()
        opaque = exchange.next_opaque()
        target.header.queue_offset, target.header.max_messages = offset, messages
        exchange.send(encode_pull(target.header, opaque), target.timeout_seconds)
        self._asked[opaque] = offset, messages

    def head(self) -> RunAnswer:
        """Of the answer that comes next, which need not be that to the first pull. Then `body` must be called. Raises
        ConnectionLost, RequestTimedOut, RemoteRefused."""
        while True:
            command, self._unread = self._open().head(self._target.timeout_seconds)
            asked = self._asked.pop(command.opaque, None) if command.is_response else None
            if asked is not None:
                return RunAnswer(*asked, pull_answer(command, self._target.address), self._unread)
            self.body(memoryview(bytearray(self._unread)))  # something for nobody

    def body(self, room: memoryview) -> None:
        self._open().body(room, self._target.timeout_seconds)
        self._unread = 0

    def _open(self) -> BulkExchange:
        if self._exchange is None:
            raise ConnectionLost("the run of pulls has ended")
        return self._exchange
