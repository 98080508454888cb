"""A listening socket and its connections.

Connections are accepted by hand: the first byte is peeked at, so that TLS and plain text share one port, and
only then is the socket given to the event loop. A tick each second closes what is idle or stalled.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import cast

from apogeemq.errors import ConfigError, ProtocolError
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher
from apogeemq.transport.flow import Limits
from apogeemq.transport.tls import TlsMode, TlsServerContexts

log = logging.getLogger(__name__)

_TLS_HANDSHAKE_BYTE = 0x16
_ACCEPTS_PER_WAKE = 256
_REMEMBERED_PEERS = 1000  # addresses already logged for misbehaving; the set starts anew beyond this


class ServerCounters:
    """What has happened so far; read by metrics."""

    def __init__(self) -> None:
        self.accepted = 0
        self.refused = 0
        self.closed_idle = 0
        self.closed_stalled = 0
        self.closed_malformed = 0
        self.tls_failed = 0


class Server:
    """Owns the port and the channels. Everything runs on the loop it was started on."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: Limits,
        *,
        tls: TlsServerContexts | None = None,
        on_closed: Callable[[Channel], None] = lambda channel: None,
    ) -> None:
        self.dispatcher = dispatcher
        self.limits = limits
        self.held_count = 0
        self.counters = ServerCounters()
        self.channels: set[Channel] = set()
        self._tls = tls or TlsServerContexts.disabled()
        self._on_closed = on_closed
        self._listener: socket.socket | None = None
        self._silent: dict[socket.socket, int] = {}  # accepted, no byte yet -> seconds waited
        self._logged_peers: set[str] = set()
        self._handovers: set[asyncio.Task[bool]] = set()
        self._opening_count = 0  # handed over, not open yet
        self._loop: asyncio.AbstractEventLoop | None = None
        self._accept_retry: asyncio.TimerHandle | None = None

    # -- life ------------------------------------------------------------------------------------------------

    def start(self, host: str, port: int, backlog: int = 1024) -> tuple[str, int]:
        """Bind and accept; gives the address that was bound."""
        self._loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(backlog)
        except OSError as error:
            listener.close()
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        listener.setblocking(False)
        self._listener = listener
        self._loop.add_reader(listener.fileno(), self._accept)
        bound = listener.getsockname()
        return str(bound[0]), int(bound[1])

    def stop_accepting(self) -> None:
        if self._listener is not None and self._loop is not None:
            if self._accept_retry is not None:
                self._accept_retry.cancel()
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None
            for waiting in tuple(self._silent):
                self._drop_silent(waiting)

    async def stop(self, grace_seconds: float = 5.0) -> None:
        """Take no more, finish what was taken, close."""
        self.stop_accepting()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                while self.held_count or self._handovers:
                    await asyncio.sleep(0.01)
        handovers = tuple(self._handovers)
        for task in handovers:
            task.cancel()
        await asyncio.gather(*handovers, return_exceptions=True)
        # Those that do not take what is queued for them are not waited for.
        for leave in (Channel.close, Channel.abort):
            for channel in tuple(self.channels):
                leave(channel)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_seconds):
                    while self.channels:
                        await asyncio.sleep(0.005)

    def tick(self) -> None:
        """One second has passed: close the idle and the stalled."""
        limits = self.limits
        self._shed_partial_frames()
        for channel in tuple(self.channels):
            channel.idle_seconds += 1
            if channel.idle_seconds > limits.idle_seconds:
                self.counters.closed_idle += 1
                channel.abort()
            elif channel.is_mid_frame and not channel.is_write_paused:
                channel.partial_seconds += 1
                extra_seconds = channel.partial_size // limits.slowest_bytes_per_second
                if channel.partial_seconds > limits.partial_frame_seconds + extra_seconds:
                    self.counters.closed_stalled += 1
                    self._log_once(channel.address[0], f"closed {channel.peer}: half a frame, then nothing")
                    channel.abort()
        for waiting in tuple(self._silent):
            self._silent[waiting] += 1
            if self._silent[waiting] > limits.first_byte_seconds:
                self.counters.closed_idle += 1
                self._drop_silent(waiting)

    def _shed_partial_frames(self) -> None:
        """Many peers that each send a large frame slowly would take all memory together."""
        partial = [channel for channel in self.channels if channel.is_mid_frame]
        total = sum(channel.partial_size for channel in partial)
        if total <= self.limits.max_partial_size:
            return
        for channel in sorted(partial, key=lambda channel: channel.partial_size, reverse=True):
            if total <= self.limits.max_partial_size:
                return
            total -= channel.partial_size
            self.counters.closed_stalled += 1
            self._log_once(channel.address[0], f"closed {channel.peer}: too many unfinished frames at once")
            channel.abort()

    @property
    def connection_count(self) -> int:
        return len(self.channels) + len(self._silent) + self._opening_count

    # -- channel owner ---------------------------------------------------------------------------------------

    def channel_opened(self, channel: Channel) -> None:
        self._opening_count -= 1
        self.channels.add(channel)

    def channel_closed(self, channel: Channel, error: Exception | None) -> None:
        self.channels.discard(channel)
        self._on_closed(channel)

    def channel_misbehaved(self, channel: Channel, error: ProtocolError) -> None:
        self.counters.closed_malformed += 1
        self._log_once(channel.address[0], f"closed {channel.peer}: {error}")

    def _log_once(self, host: str, message: str) -> None:
        if host in self._logged_peers:
            return
        if len(self._logged_peers) >= _REMEMBERED_PEERS:
            self._logged_peers.clear()
        self._logged_peers.add(host)
        log.warning("%s (said once for this address)", message)

    # -- accepting -------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        assert self._listener is not None
        assert self._loop is not None
        for _ in range(_ACCEPTS_PER_WAKE):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # No descriptor left: accepting again at once would spin.
                log.error("cannot accept: %s", error)
                self._loop.remove_reader(self._listener.fileno())
                self._accept_retry = self._loop.call_later(1.0, self._resume_accepting)
                return
            self.counters.accepted += 1
            if self.connection_count >= self.limits.max_connections:
                self.counters.refused += 1
                self._log_once("", f"refused a connection: {self.limits.max_connections} are open already")
                connection.close()
                continue
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._await_first_byte(connection)

    def _resume_accepting(self) -> None:
        if self._listener is not None and self._loop is not None:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _await_first_byte(self, connection: socket.socket) -> None:
        assert self._loop is not None
        if self._tls.mode is TlsMode.DISABLED:
            self._hand_over(connection, None)
            return
        self._silent[connection] = 0
        self._loop.add_reader(connection.fileno(), self._first_byte_came, connection)

    def _first_byte_came(self, connection: socket.socket) -> None:
        try:
            first = connection.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self._drop_silent(connection)
            return
        assert self._loop is not None
        self._loop.remove_reader(connection.fileno())
        del self._silent[connection]
        is_tls = first[0] == _TLS_HANDSHAKE_BYTE
        context = self._tls.context() if is_tls else None
        if (is_tls and context is None) or (not is_tls and self._tls.mode is TlsMode.ENFORCING):
            self.counters.tls_failed += 1
            reason = "speaks plain text, but TLS is enforced" if not is_tls else "asks for TLS, which is not set up"
            self._log_peer(_peer_of(connection), reason)
            connection.close()
            return
        self._hand_over(connection, context)

    def _log_peer(self, peer: tuple[str, int], reason: str) -> None:
        self._log_once(peer[0], f"closed {peer[0]}:{peer[1]}: it {reason}")

    def _drop_silent(self, connection: socket.socket) -> None:
        assert self._loop is not None
        self._loop.remove_reader(connection.fileno())
        self._silent.pop(connection, None)
        connection.close()

    def _hand_over(self, connection: socket.socket, context: ssl.SSLContext | None) -> None:
        assert self._loop is not None
        self._opening_count += 1
        task = self._loop.create_task(self._connect(connection, context))
        self._handovers.add(task)
        task.add_done_callback(lambda ended: self._handover_ended(ended, connection))

    def _handover_ended(self, task: asyncio.Task[bool], connection: socket.socket) -> None:
        self._handovers.discard(task)
        if task.cancelled() or not task.result():
            self._opening_count -= 1
            connection.close()

    async def _connect(self, connection: socket.socket, context: ssl.SSLContext | None) -> bool:
        """Says whether a channel came of it."""
        loop = asyncio.get_running_loop()
        peer = _peer_of(connection)  # now: after a failure the socket no longer knows
        try:
            await loop.connect_accepted_socket(
                lambda: cast(asyncio.Protocol, Channel(self, loop)),
                connection,
                ssl=context,
                ssl_handshake_timeout=self.limits.tls_handshake_seconds if context is not None else None,
            )
        except OSError as error:
            if context is not None:
                self.counters.tls_failed += 1
                self._log_peer(peer, f"failed the TLS handshake: {error}")
            return False
        return True


def _peer_of(connection: socket.socket) -> tuple[str, int]:
    try:
        host, port = connection.getpeername()[:2]
    except OSError:
        return "a peer already gone", 0
    return str(host), int(port)
