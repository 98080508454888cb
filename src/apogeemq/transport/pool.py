"""Connections to servers, shared by everyone in this process who talks to the same address."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from apogeemq.errors import ConnectFailed, ConnectionLost, ProtocolError, RequestTimedOut
from apogeemq.protocol.codec import encode_request
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import JSON, Command
from apogeemq.transport.addresses import parse_address
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher
from apogeemq.transport.flow import Limits
from apogeemq.transport.forking import release_in_children
from apogeemq.transport.pooled_channel import Encode, PooledChannel

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_SECONDS = 3.0
REQUEST_TIMEOUT_SECONDS = 3.0

# Sees code, fields and body of a request about to be sent and gives the fields to send: a signature, a zone.
SendHook: TypeAlias = Callable[[int, Mapping[str, str], bytes], Mapping[str, str]]


class ConnectionPool:
    """One connection per address, made when first needed and again after it was lost.

    Requests that a server sends to us are answered by `dispatcher`. The owner calls `tick` once a second and
    `close` at the end. Everything runs on one event loop.
    """

    def __init__(
        self,
        dispatcher: Dispatcher | None = None,
        limits: Limits | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
        unacknowledged_seconds: float = 0.0,
        may_be_late: Callable[[str], bool] = lambda address: False,
        suspect_after_seconds: float = 1.0,
        before_send: Sequence[SendHook] = (),
        on_opened: Callable[[str], None] = lambda address: None,
        on_closed: Callable[[str], None] = lambda address: None,
    ) -> None:
        self.dispatcher = dispatcher or Dispatcher()
        self.limits = limits or Limits()
        self.held_count = 0
        self.before_send = list(before_send)
        self._tls = tls
        self._connect_timeout_seconds = connect_timeout_seconds
        self._unacknowledged_ms = round(unacknowledged_seconds * 1000)
        self._may_be_late = may_be_late  # what is sent to an address, whatever `unacknowledged_seconds` says
        self.suspect_after_seconds = suspect_after_seconds
        self._on_opened = on_opened
        self._on_closed = on_closed
        self.channels: dict[str, PooledChannel] = {}  # by address; those that new requests go to
        self._connecting: dict[str, asyncio.Task[PooledChannel]] = {}
        self._open: set[PooledChannel] = set()  # these and those that finish their requests after a GO_AWAY
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self._is_closed = False
        release_in_children(self)

    @property
    def is_encrypted(self) -> bool:
        return self._tls is not None

    # -- requests --------------------------------------------------------------------------------------------

    async def request(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
        codec: int = JSON,
    ) -> Command:
        """The peer's answer, whatever its code. Connecting counts towards the time.

        Raises ConnectFailed, ConnectionLost, RequestTimedOut or TooManyRequests. A server that is going away is
        asked once more over a new connection, where its successor may be listening.
        """
        sent = self.hooked(code, fields, body)
        return await self.ask(
            address, code, lambda opaque: encode_request(code, opaque, sent, body, codec=codec), timeout_seconds
        )

    async def ask(self, address: str, code: int, encode: Encode, timeout_seconds: float) -> Command:
        """The same for whoever makes the frame; `hooked` must have seen its fields."""
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        begun = self.begin(address, code, encode, timeout_seconds)
        if begun is not None:
            response = await begun
            if response.code != ResponseCode.GO_AWAY:
                return response
        response = await self._ask(address, code, encode, deadline)
        if response.code == ResponseCode.GO_AWAY and begun is None:
            response = await self._ask(address, code, encode, deadline)
        return response

    def begin(self, address: str, code: int, encode: Encode, timeout_seconds: float) -> asyncio.Future[Command] | None:
        """Ask at once; None when there is no connection yet, or it takes nothing at the moment."""
        channel = self.channels.get(address)
        if channel is None or channel.is_closing or channel.is_write_paused:
            return None
        return channel.ask(code, encode, timeout_seconds)

    async def one_way(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> None:
        """Send and expect nothing; the time is for connecting and for a peer that takes nothing at the moment."""
        sent = self.hooked(code, fields, body)
        await self.tell(address, lambda opaque: encode_request(code, opaque, sent, body, one_way=True), timeout_seconds)

    async def tell(self, address: str, encode: Encode, timeout_seconds: float) -> None:
        """The same for whoever makes the frame."""
        channel = self._live(address) or await self._connected(address, timeout_seconds)
        if channel.is_write_paused:
            await _until_writable(channel, timeout_seconds)
        channel.tell(encode)

    def hooked(self, code: int, fields: Mapping[str, str] | None, body: bytes) -> Mapping[str, str] | None:
        for hook in self.before_send:
            fields = hook(code, fields or {}, body)
        return fields

    async def _ask(self, address: str, code: int, encode: Encode, deadline: float) -> Command:
        channel = self._live(address) or await self._connected(address, _seconds_until(deadline))
        if channel.is_write_paused:
            await _until_writable(channel, _seconds_until(deadline))
        return await channel.ask(code, encode, _seconds_until(deadline))

    # -- connections -----------------------------------------------------------------------------------------

    def _live(self, address: str) -> PooledChannel | None:
        channel = self.channels.get(address)
        return None if channel is None or channel.is_closing else channel

    async def _connected(self, address: str, timeout_seconds: float) -> PooledChannel:
        if self._is_closed:
            raise ConnectionLost(f"no request to {address}: the connection pool is closed")
        connecting = self._connecting.get(address)
        if connecting is None:
            connecting = asyncio.get_running_loop().create_task(self._connect(address))
            self._connecting[address] = connecting
            connecting.add_done_callback(lambda task: self._connect_ended(address, task))
        try:
            async with asyncio.timeout(timeout_seconds):
                # Others may wait for the same connection: a caller that gives up does not stop the attempt.
                return await asyncio.shield(connecting)
        except TimeoutError:
            raise ConnectFailed(
                f"cannot connect to {address}: no connection in {round(timeout_seconds, 2):g} s"
            ) from None
        except asyncio.CancelledError:
            if connecting.cancelled():  # by `close`, not by whoever runs this caller
                raise ConnectionLost(f"no request to {address}: the connection pool was closed") from None
            raise

    def _connect_ended(self, address: str, task: asyncio.Task[PooledChannel]) -> None:
        self._connecting.pop(address, None)
        if not task.cancelled():
            task.exception()  # whoever waited has it; if no one is left, it need not be reported

    async def _connect(self, address: str) -> PooledChannel:
        host, port = parse_address(address)
        loop = asyncio.get_running_loop()
        channel = PooledChannel(self, loop, address)
        try:
            async with asyncio.timeout(self._connect_timeout_seconds):
                await loop.create_connection(lambda: cast(asyncio.Protocol, channel), host, port, ssl=self._tls)
        except TimeoutError:
            raise ConnectFailed(
                f"cannot connect to {address}: no answer in {self._connect_timeout_seconds:g} s"
            ) from None
        except OSError as error:
            raise ConnectFailed(f"cannot connect to {address}: {_reason(error)}") from error
        return channel

    def retire(self, channel: PooledChannel) -> None:
        """Send nothing more over it, but let it finish what it was asked."""
        if self.channels.get(channel.target) is channel:
            del self.channels[channel.target]
        if not channel.pending_count:
            channel.close()

    def tick(self) -> None:
        """One second has passed: close what nobody has used for long, and what has finished after a GO_AWAY."""
        for channel in tuple(self._open):
            channel.idle_seconds += 1
            if channel.pending_count or channel.held_count:
                continue
            is_retired = self.channels.get(channel.target) is not channel
            if is_retired or channel.idle_seconds > self.limits.idle_seconds:
                channel.close()

    async def close(self, grace_seconds: float = 1.0) -> None:
        """Close every connection; requests still waiting fail with ConnectionLost. Cancelled, it does not wait."""
        self._is_closed = True
        connecting = tuple(self._connecting.values())
        for task in connecting:
            task.cancel()
        try:
            await asyncio.gather(*connecting, return_exceptions=True)
            # A TLS peer that does not say goodbye, or one that does not take what is queued, is not waited for.
            for leave in (PooledChannel.close, PooledChannel.abort):
                for channel in tuple(self._open):
                    leave(channel)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(grace_seconds):
                        await self._all_closed.wait()
        finally:
            for channel in tuple(self._open):
                channel.close()  # a farewell may be queued
                channel.abort()

    def descriptors(self) -> list[int]:
        """Those of the sockets that are open."""
        transports = [channel._transport for channel in self._open if channel._transport is not None]
        return [transport.get_extra_info("socket").fileno() for transport in transports]

    # -- channel owner ---------------------------------------------------------------------------------------

    def channel_opened(self, channel: Channel) -> None:
        assert isinstance(channel, PooledChannel)
        self._open.add(channel)
        self._all_closed.clear()
        if self._is_closed:
            channel.abort()
            return
        if self._unacknowledged_ms and not self._may_be_late(channel.target):
            channel.hurry(self._unacknowledged_ms)
        self.channels[channel.target] = channel
        self._on_opened(channel.target)

    def channel_closed(self, channel: Channel, error: Exception | None) -> None:
        assert isinstance(channel, PooledChannel)
        self._open.discard(channel)
        if not self._open:
            self._all_closed.set()
        if self.channels.get(channel.target) is channel:
            del self.channels[channel.target]
        self._on_closed(channel.target)

    def channel_misbehaved(self, channel: Channel, error: ProtocolError) -> None:
        log.warning("closed the connection to %s: %s", channel.peer, error)


def _reason(error: OSError) -> str:
    if error.errno and not isinstance(error, socket.gaierror | ssl.SSLError):
        return os.strerror(error.errno)  # asyncio puts the address there, which is said already
    return error.strerror or str(error) or type(error).__name__


def _seconds_until(deadline: float) -> float:
    return max(deadline - asyncio.get_running_loop().time(), 0.0)


async def _until_writable(channel: PooledChannel, timeout_seconds: float) -> None:
    try:
        async with asyncio.timeout(timeout_seconds):
            await channel.writable.wait()
    except TimeoutError:
        raise RequestTimedOut(f"{channel.target} took no more requests for {round(timeout_seconds, 2):g} s") from None
