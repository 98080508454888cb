"""Limits on what one connection and one server may cost, and on how long what is sent may be on its way."""

from __future__ import annotations

import socket
from struct import pack
from typing import Final

import msgspec

from apogeemq.protocol.framing import MAX_FRAME_SIZE

# What the kernel does with bytes that have not left when a socket is closed.
_DROP: Final = pack("ii", 1, 0)
_SEND: Final = pack("ii", 0, 0)


class Limits(msgspec.Struct, frozen=True):
    """Each limit has a reason; beyond it the peer is slowed, refused or closed, never served at others' cost."""

    max_frame_size: int = MAX_FRAME_SIZE
    # Requests one connection may have waiting for a later answer; more are answered SYSTEM_BUSY.
    max_held_per_channel: int = 1024
    # The same for the whole server.
    max_held: int = 65_536
    # Our own requests to one peer that it has not answered: Apache's client limit.
    max_pending_per_channel: int = 65_535
    # Answer bytes queued for a peer that does not read: reading stops at the first mark until it catches up,
    # and requests already read beyond the second are answered SYSTEM_BUSY.
    pause_reading_at: int = 1024 * 1024
    refuse_at: int = 16 * 1024 * 1024
    # Connections at once; more are closed when accepted.
    max_connections: int = 65_536
    # A connection without a byte either way.
    idle_seconds: int = 120
    # A frame that began but does not end: a stalled or hostile peer. A long frame over a slow line has the time
    # that this many bytes a second give it on top.
    partial_frame_seconds: int = 30
    slowest_bytes_per_second: int = 64 * 1024
    # Bytes of frames that are not whole yet, on all connections; beyond, those that hold most are closed.
    max_partial_size: int = 512 * 1024 * 1024
    # A connection that says nothing at all, and a TLS handshake that does not finish.
    first_byte_seconds: int = 120
    tls_handshake_seconds: int = 10


def hurry(connection: socket.socket, unacknowledged_ms: int) -> None:
    """Give up when nothing is acknowledged for so long, and drop what has not left when it or the process ends."""
    if (option := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:
        connection.setsockopt(socket.IPPROTO_TCP, option, unacknowledged_ms)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP)


def let_leave(connection: socket.socket) -> None:
    """Send what has not left, also after it is closed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _SEND)
