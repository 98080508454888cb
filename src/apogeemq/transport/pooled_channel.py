"""A connection of a pool: many requests on their way at once, one timer and one write for many of them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from apogeemq.errors import ConnectionLost, RequestTimedOut, TooManyRequests
from apogeemq.protocol.codec import encode_request
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import JSON, Command
from apogeemq.transport.channel import Channel, ChannelOwner
from apogeemq.transport.flow import hurry, let_leave

# From the number a request gets to its frame.
Encode = Callable[[int], bytes]

_GO_AWAY: Final = int(ResponseCode.GO_AWAY)
_SWEEP_SECONDS: Final = 0.01  # the least time between two looks for requests that wait too long


class PoolOwner(ChannelOwner, Protocol):
    suspect_after_seconds: float

    def retire(self, channel: PooledChannel) -> None: ...


class PooledChannel(Channel):
    """A connection that knows the address it was made for and how many answers it has brought.

    Unlike a server's, it goes on reading while the peer takes nothing: if both ends waited for the other to read
    first, neither would.
    """

    __slots__ = (
        "_asked",
        "_hurried",
        "_pool",
        "_sweep_at",
        "_sweeper",
        "answer_count",
        "target",
        "writable",
    )

    def __init__(self, pool: PoolOwner, loop: asyncio.AbstractEventLoop, target: str) -> None:
        super().__init__(pool, loop)
        self.target = target
        self.answer_count = 0
        self.writable = asyncio.Event()
        self.writable.set()
        self._pool = pool
        self._hurried: socket.socket | None = None
        # By number: who waits, the code, the deadline, the seconds it had, the answers that had come before.
        self._asked: dict[int, tuple[asyncio.Future[Command], int, float, float, int]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweep_at = float("inf")

    def hurry(self, unacknowledged_ms: int) -> None:
        """What is sent is to arrive soon or not at all. Before any request: one that has timed out or was cancelled
        ends the connection, with all that has not left yet."""
        assert self._transport is not None
        self._hurried = self._transport.get_extra_info("socket")
        hurry(self._hurried, unacknowledged_ms)

    def close(self) -> None:
        connection, transport = self._hurried, self._transport
        if connection is not None and transport is not None and not self._asked and not transport.is_closing():
            with contextlib.suppress(OSError):  # it has ended already
                let_leave(connection)
        super().close()

    # -- asyncio.Protocol ------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self.is_write_paused = True
        self.writable.clear()

    def resume_writing(self) -> None:
        self.is_write_paused = False
        self.writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.writable.set()
        if self._sweeper is not None:
            self._sweeper.cancel()
        asked, self._asked = self._asked, {}
        for answer, *_ in asked.values():
            if not answer.done():
                answer.set_exception(ConnectionLost(f"connection to {self.peer} ended before the answer"))
        super().connection_lost(error)

    # -- requests --------------------------------------------------------------------------------------------

    def ask(self, code: int, encode: Encode, timeout_seconds: float) -> asyncio.Future[Command]:
        """Send a request; its answer, whatever its code. A peer that brought no answer at all in the time of a
        request may be gone without a word: then no other request is entrusted to this connection."""
        opaque = self.next_asked()
        return self.ask_frame(opaque, code, encode(opaque), timeout_seconds)

    def next_asked(self) -> int:
        """The number of a request that `ask_frame` sends next. Raises ConnectionLost, TooManyRequests."""
        if self.is_closing:
            raise ConnectionLost(f"connection to {self.peer} is closed")
        if len(self._asked) >= self._limits.max_pending_per_channel:
            self._forget_cancelled()
        return self._next_opaque()

    def ask_frame(self, opaque: int, code: int, frame: bytes, timeout_seconds: float) -> asyncio.Future[Command]:
        """As `ask`, by who has made the frame."""
        answer: asyncio.Future[Command] = self._loop.create_future()
        deadline = self._loop.time() + timeout_seconds
        if self._asked or self._unwritten:
            self.write_soon(frame)
        else:
            self.write(frame)
        self._asked[opaque] = (answer, code, deadline, timeout_seconds, self.answer_count)
        if deadline < self._sweep_at:
            self._sweep_later(deadline)
        if self._hurried is not None:
            answer.add_done_callback(self._abort_if_cancelled)
        return answer

    async def request(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_seconds: float,
        codec: int = JSON,
    ) -> Command:
        return await self.ask(
            code, lambda opaque: encode_request(code, opaque, fields, body, codec=codec), timeout_seconds
        )

    def tell(self, encode: Encode) -> None:
        """Send a one-way request. Raises TooManyRequests when the peer takes nothing any more."""
        if self.is_write_paused and self.must_refuse:
            raise TooManyRequests(f"{self.queued_size} bytes to {self.peer} are not taken")
        self.write_soon(encode(self._next_opaque()))

    @property
    def pending_count(self) -> int:
        return len(self._asked)

    def settle(self, response: Command) -> None:
        self.answer_count += 1
        asked = self._asked.pop(response.opaque, None)
        if asked is not None and not asked[0].done():
            asked[0].set_result(response)
        if response.code == _GO_AWAY:
            self._pool.retire(self)

    # -- deadlines -------------------------------------------------------------------------------------------

    def _sweep_later(self, when: float) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweep_at = when
        self._sweeper = self._loop.call_at(when, self._sweep)

    def _sweep(self) -> None:
        now, next_deadline, is_suspect = self._loop.time(), float("inf"), False
        self._sweeper, self._sweep_at = None, float("inf")
        for opaque, (answer, code, deadline, seconds, answers_before) in tuple(self._asked.items()):
            if not answer.done() and deadline > now:
                next_deadline = min(next_deadline, deadline)
                continue
            del self._asked[opaque]
            if not answer.done():
                answer.set_exception(
                    RequestTimedOut(f"{self.peer} did not answer code {code} in {round(seconds, 2):g} s")
                )
                is_silent = self.answer_count == answers_before and seconds >= self._pool.suspect_after_seconds
                is_suspect |= is_silent or self._hurried is not None
        if self._asked:
            self._sweep_later(max(next_deadline, now + _SWEEP_SECONDS))
        if is_suspect:
            self.abort()

    def _abort_if_cancelled(self, answer: asyncio.Future[Command]) -> None:
        if answer.cancelled():
            self.abort()

    def _forget_cancelled(self) -> None:
        """Nobody waits for these; only their answers would take them out of the table."""
        for opaque in [opaque for opaque, asked in self._asked.items() if asked[0].done()]:
            del self._asked[opaque]
        if len(self._asked) >= self._limits.max_pending_per_channel:
            raise TooManyRequests(f"{len(self._asked)} requests to {self.peer} wait for an answer")
