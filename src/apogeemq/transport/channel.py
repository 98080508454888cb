"""One connection, either side: frames in, answers and requests out.

All complete frames of a read are handled in one pass and answered with one write. Requests travel both ways; a
response is matched by its opaque number against this connection's own table only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Protocol, cast

from apogeemq.errors import ConnectionLost, ProtocolError, RequestTimedOut, TooManyRequests
from apogeemq.protocol.codec import decode_frame, encode_reply, encode_request
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import FLAG_ONE_WAY, FLAG_RESPONSE, JSON, Command
from apogeemq.protocol.framing import FrameReader
from apogeemq.transport.dispatch import BUSY_REMARK, Dispatcher, Reply
from apogeemq.transport.flow import Limits

if TYPE_CHECKING:
    from asyncio import Future

_MAX_OPAQUE = 2**31 - 1

_channel_numbers = count(1)


class ChannelOwner(Protocol):
    """Who made the channel and keeps account of it."""

    limits: Limits
    dispatcher: Dispatcher
    held_count: int

    def channel_opened(self, channel: Channel) -> None: ...

    def channel_closed(self, channel: Channel, error: Exception | None) -> None: ...

    def channel_misbehaved(self, channel: Channel, error: ProtocolError) -> None: ...


class Channel(asyncio.Protocol):
    """A connection that speaks commands.

    `number` grows with every connection of this process, so that of two connections the newer one is known.
    """

    __slots__ = (
        "_dispatcher",
        "_held",
        "_is_write_paused",
        "_limits",
        "_loop",
        "_opaques",
        "_owner",
        "_pending",
        "_reader",
        "_transport",
        "address",
        "idle_seconds",
        "is_closing",
        "number",
        "partial_seconds",
    )

    def __init__(self, owner: ChannelOwner, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._limits = owner.limits
        self._dispatcher = owner.dispatcher
        self._loop = loop
        self._reader = FrameReader(owner.limits.max_frame_size)
        self._transport: asyncio.Transport | None = None
        self._held: set[Future[bytes]] = set()
        self._pending: dict[int, Future[Command]] = {}
        self._opaques = count(1)
        self._is_write_paused = False
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
        self._is_write_paused = True
        if self._transport is not None and not self.is_closing:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        if self._transport is not None and not self.is_closing:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self.idle_seconds = 0
        answers: list[bytes] = []
        size = 0
        reader, shortcuts = self._reader, self._dispatcher.usable_shortcuts()
        frames = reader.feed(data)
        for frame in frames:
            if size > self._limits.pause_reading_at:
                self.write(b"".join(answers))
                answers, size = [], 0
            reply = shortcuts.answer(frame) if shortcuts is not None and not self._is_write_paused else None
            if reply is None:
                try:
                    reply = self._handle(frame)
                except ProtocolError as error:
                    reader.error = error
                    break
            if reply is not None:
                answers.append(reply)
                size += len(reply)
        if answers:
            self.write(answers[0] if len(answers) == 1 else b"".join(answers))
        if frames:
            self.partial_seconds = 0  # a busy peer may be in the middle of some frame at the end of every read
        if reader.error is not None:
            self._owner.channel_misbehaved(self, reader.error)
            self.close()

    def _handle(self, frame: bytes) -> bytes | None:
        """The answer to write now, if there is one."""
        command = decode_frame(frame)
        if command.flag & FLAG_RESPONSE:
            self._settle(command)
            return None
        if self._is_write_paused and self._must_refuse():
            answer: Reply = encode_reply(command, ResponseCode.SYSTEM_BUSY, BUSY_REMARK)
        else:
            answer = self._dispatcher.dispatch(self, command)
        if not isinstance(answer, bytes):
            if answer is not None:
                self._hold(command, answer)
            return None
        if command.flag & FLAG_ONE_WAY:
            return None
        if command.shortcut is not None:
            self._dispatcher.shortcuts.learn(frame, command, command.shortcut)
        return answer

    # -- answers ---------------------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def is_mid_frame(self) -> bool:
        return self._reader.is_mid_frame

    @property
    def is_read(self) -> bool:
        """False while the peer does not take its answers: then nothing more is taken from it."""
        return not self._is_write_paused

    @property
    def partial_size(self) -> int:
        return self._reader.partial_size

    @property
    def held_count(self) -> int:
        return len(self._held)

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

    def close(self) -> None:
        """Send what is queued, then close."""
        self.is_closing = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; what is queued is lost."""
        self.is_closing = True
        if self._transport is not None:
            self._transport.abort()

    def _must_refuse(self) -> bool:
        return self.queued_size > self._limits.refuse_at

    def _hold(self, command: Command, answer: Future[bytes]) -> None:
        owner = self._owner
        if len(self._held) >= self._limits.max_held_per_channel or owner.held_count >= self._limits.max_held:
            answer.cancel()
            if not command.is_one_way:
                self.write(encode_reply(command, ResponseCode.SYSTEM_BUSY, BUSY_REMARK))
            return
        self._held.add(answer)
        owner.held_count += 1

        def release(done: Future[bytes]) -> None:
            self._held.discard(done)
            owner.held_count -= 1
            if done.cancelled():
                return
            error = done.exception()
            reply = owner.dispatcher.failure_reply(command, error) if error is not None else done.result()
            if self._is_write_paused and self._must_refuse():
                reply = encode_reply(command, ResponseCode.SYSTEM_BUSY, BUSY_REMARK)
            if not command.is_one_way:
                self.write(reply)

        answer.add_done_callback(release)

    # -- requests of our own ---------------------------------------------------------------------------------

    def send_one_way(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        """Raises TooManyRequests when the peer takes nothing any more."""
        if self._is_write_paused and self._must_refuse():
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

    def _settle(self, response: Command) -> None:
        pending = self._pending.pop(response.opaque, None)
        if pending is not None and not pending.done():
            pending.set_result(response)
