"""The short way of a send to a connection that takes it at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.broker import SendMessage
from apogeemq.protocol.send_requests import encode_send, send_code
from apogeemq.transport.pool import ConnectionPool
from apogeemq.transport.pooled_channel import PooledChannel


class Connections:
    """`address_map` has the addresses to connect to for some of those that routes name; it may change at any time."""

    def __init__(self, pool: ConnectionPool, address_map: Mapping[str, str]) -> None:
        self._pool = pool
        self._channels: dict[str, PooledChannel] = pool.channels
        self._address_map = address_map

    def begin_send(
        self, address: str, header: SendMessage, body: bytes, timeout_seconds: float
    ) -> asyncio.Future[Command] | None:
        """For an answer that `send_answer` reads; None when nothing can be sent at once. The header is one of a
        producer's own message, and nobody has anything to add to it. Raises ConnectionLost, TooManyRequests."""
        channel = self._channels.get(self._address_map.get(address, address))
        if channel is None or channel.is_closing or channel.is_write_paused or self._pool.before_send:
            return None
        opaque = channel.next_asked()
        return channel.ask_frame(opaque, send_code(header), encode_send(header, body, opaque), timeout_seconds)
