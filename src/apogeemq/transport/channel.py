"""One connection, either side: frames in, answers and requests out.

All complete frames of a read are handled in one pass and answered with one write. Requests travel both ways; a
response is matched by its opaque number against this connection's own table only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Protocol, cast

from apogeemq.errors import ConnectionLost, ProtocolError, RequestTimedOut, TooManyRequests
from apogeemq.protocol.codec import encode_reply, encode_request
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import JSON, Command
from apogeemq.transport.dispatch import BUSY_REMARK, Dispatcher
from apogeemq.transport.flow import Limits
from apogeemq.transport.intake import Intake
from apogeemq.transport.later import Later

if TYPE_CHECKING:
    from asyncio import Future

_MAX_OPAQUE = 2**31 - 1
_MAX_UNWRITTEN = 64 * 1024  # bytes that wait for the end of the loop's turn

_channel_numbers = count(1)


class ChannelOwner(Protocol):
    """Who made the channel and keeps account of it."""

    limits: Limits
    dispatcher: Dispatcher
    held_count: int

    def channel_opened(self, channel: Channel) -> None: ...

    def channel_closed(self, channel: Channel, error: Exception | None) -> None: ...

    def channel_misbehaved(self, channel: Channel, error: ProtocolError) -> None: ...


class Channel:
    """A connection that speaks commands: what asyncio calls a protocol, in all but name, so that it can be compiled.

    `number` grows with every connection of this process, so that of two connections the newer one is known.
    """

    __slots__ = (
        "_held",
        "_intake",
        "_later_count",
        "_limits",
        "_loop",
        "_opaques",
        "_owner",
        "_pending",
        "_transport",
        "_unwritten",
        "_unwritten_size",
        "address",
        "idle_seconds",
        "is_closing",
        "is_write_paused",
        "number",
        "partial_seconds",
    )

    def __init__(self, owner: ChannelOwner, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._limits = owner.limits
        self._loop = loop
        self._intake = Intake(owner.dispatcher, owner.limits.max_frame_size, owner.limits.pause_reading_at)
        self._transport: asyncio.Transport | None = None
        self._held: set[Future[bytes]] = set()
        self._later_count = 0
        self._pending: dict[int, Future[Command]] = {}
        self._opaques = count(1)
        self._unwritten: list[bytes] = []
        self._unwritten_size = 0
        self.is_write_paused = False  # the peer does not take its answers; then nothing more is taken from it
        self.number = next(_channel_numbers)
        self.address: tuple[str, int] = ("", 0)
        self.idle_seconds = 0
        self.partial_seconds = 0
        self.is_closing = False

    # -- asyncio.Protocol ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        transport.set_write_buffer_limits(high=self._limits.pause_reading_at)
        peer = transport.get_extra_info("peername")
        if peer:
            self.address = (peer[0], peer[1])
        self._owner.channel_opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closing = True
        for held in tuple(self._held):
            held.cancel()
        for pending in self._pending.values():
            if not pending.done():
                pending.set_exception(ConnectionLost(f"connection to {self.peer} ended before the answer"))
        self._pending.clear()
        self._owner.channel_closed(self, error)

    def pause_writing(self) -> None:
        self.is_write_paused = True
        if self._transport is not None and not self.is_closing:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self.is_write_paused = False
        if self._transport is not None and not self.is_closing:
            self._transport.resume_reading()

    def eof_received(self) -> None:
        """The peer sends no more; then nobody reads what we would send."""

    def data_received(self, data: bytes) -> None:
        self.idle_seconds = 0
        if self._intake.take(self, data):
            self.partial_seconds = 0  # a busy peer may be in the middle of some frame at the end of every read
        error = self._intake.reader.error
        if error is not None:
            self._owner.channel_misbehaved(self, error)
            self.close()

    # -- answers ---------------------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def is_mid_frame(self) -> bool:
        return self._intake.reader.is_mid_frame

    @property
    def partial_size(self) -> int:
        return self._intake.reader.partial_size

    @property
    def held_count(self) -> int:
        return len(self._held) + self._later_count

    @property
    def pending_count(self) -> int:
        """Requests of ours the peer has not answered yet."""
        return len(self._pending)

    @property
    def queued_size(self) -> int:
        """Answer bytes the peer has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self.is_closing:
            self.idle_seconds = 0
            self._transport.write(data)

    def write_soon(self, frame: bytes) -> None:
        """With the others of this turn of the loop: one write costs as much as many small frames."""
        if not self._unwritten:
            self._loop.call_soon(self._write_waiting)
        self._unwritten.append(frame)
        self._unwritten_size += len(frame)
        if self._unwritten_size >= _MAX_UNWRITTEN:
            self._write_waiting()

    def _write_waiting(self) -> None:
        if self._unwritten:
            frames, self._unwritten, self._unwritten_size = self._unwritten, [], 0
            self.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def close(self) -> None:
        """Send what is queued, then close."""
        self._write_waiting()
        self.is_closing = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; what is queued is lost."""
        self.is_closing = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def must_refuse(self) -> bool:
        """More answers are queued than a peer may leave untaken."""
        return self.queued_size > self._limits.refuse_at

    def hold(self, command: Command, answer: Future[bytes]) -> None:
        """Write the answer when it is there."""
        if self._may_not_hold():
            answer.cancel()
            if not command.is_one_way:
                self.write(encode_reply(command, ResponseCode.SYSTEM_BUSY, BUSY_REMARK))
            return
        self._held.add(answer)
        self._owner.held_count += 1
        answer.add_done_callback(partial(self._release_held, command))

    def _release_held(self, command: Command, done: Future[bytes]) -> None:
        self._held.discard(done)
        self._owner.held_count -= 1
        if not done.cancelled():
            error = done.exception()
            self._answer_held(
                command, self._owner.dispatcher.failure_reply(command, error) if error is not None else done.result()
            )

    def hold_later(self, command: Command, answer: Later) -> bytes | None:
        """As `hold`; gives the answer when it is to be written now."""
        is_refused = self._may_not_hold()
        reply = (
            encode_reply(command, ResponseCode.SYSTEM_BUSY, BUSY_REMARK) if is_refused else answer.hold(self, command)
        )
        if reply is None:
            self._later_count += 1
            self._owner.held_count += 1
        return None if command.is_one_way else reply

    def release(self, command: Command, reply: bytes) -> None:
        """The answer of a request that `hold_later` has taken. The connection may have gone since."""
        self._later_count -= 1
        self._owner.held_count -= 1
        if not self.is_closing:
            self._answer_held(command, reply)

    def _may_not_hold(self) -> bool:
        limits = self._limits
        return self.held_count >= limits.max_held_per_channel or self._owner.held_count >= limits.max_held

    def _answer_held(self, command: Command, reply: bytes) -> None:
        if self.is_write_paused and self.must_refuse:
            reply = encode_reply(command, ResponseCode.SYSTEM_BUSY, BUSY_REMARK)
        if not command.is_one_way:
            self.write_soon(reply)  # what was waited for often comes for many at once

    # -- requests of our own ---------------------------------------------------------------------------------

    def send_one_way(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        """Raises TooManyRequests when the peer takes nothing any more."""
        if self.is_write_paused and self.must_refuse:
            raise TooManyRequests(f"{self.queued_size} bytes to {self.peer} are not taken")
        self.write(encode_request(code, self._next_opaque(), fields, body, one_way=True))

    async def request(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_seconds: float,
        codec: int = JSON,
    ) -> Command:
        """Ask the peer; gives its answer whatever its code."""
        if self.is_closing:
            raise ConnectionLost(f"connection to {self.peer} is closed")
        if len(self._pending) >= self._limits.max_pending_per_channel:
            raise TooManyRequests(f"{len(self._pending)} requests to {self.peer} wait for an answer")
        opaque = self._next_opaque()
        pending: Future[Command] = self._loop.create_future()
        self._pending[opaque] = pending
        self.write(encode_request(code, opaque, fields, body, codec=codec))
        try:
            async with asyncio.timeout(timeout_seconds):
                return await pending
        except TimeoutError:
            raise RequestTimedOut(
                f"{self.peer} did not answer code {code} in {round(timeout_seconds, 2):g} s"
            ) from None
        finally:
            self._pending.pop(opaque, None)

    def _next_opaque(self) -> int:
        return next(self._opaques) & _MAX_OPAQUE

    def settle(self, response: Command) -> None:
        """An answer to a request of ours."""
        pending = self._pending.pop(response.opaque, None)
        if pending is not None and not pending.done():
            pending.set_result(response)
