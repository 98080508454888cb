"""The short way of a send to a connection that takes it at once, and of its answer back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from apogeemq.errors import ProtocolError, RemoteRefused, RequestRefused
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.broker import SendMessage, read_send_result
from apogeemq.protocol.send_requests import encode_send, send_code
from apogeemq.transport.pool import ConnectionPool
from apogeemq.transport.pooled_channel import PooledChannel

_STORED_CODES: Final = frozenset(
    (
        int(ResponseCode.SUCCESS),
        int(ResponseCode.FLUSH_DISK_TIMEOUT),
        int(ResponseCode.SLAVE_NOT_AVAILABLE),
        int(ResponseCode.FLUSH_SLAVE_TIMEOUT),
    )
)


class SendAnswer:
    """Where messages went, and how well they are kept there."""

    __slots__ = ("code", "offset_ids", "queue_id", "queue_offset", "transaction_id")

    def __init__(
        self, code: int, offset_ids: str, queue_id: int, queue_offset: int, transaction_id: str | None
    ) -> None:
        self.code = code
        self.offset_ids = offset_ids
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.transaction_id = transaction_id


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


def send_answer(answer: Command, address: str) -> SendAnswer:
    """Raises RemoteRefused."""
    code = answer.code
    if code and code not in _STORED_CODES:
        raise RemoteRefused(code, answer.remark, address)
    try:
        stored = read_send_result.read(answer)
    except RequestRefused as error:
        raise ProtocolError(f"{address} answered a send without saying where it went: {error}") from None
    return SendAnswer(code, stored.msgId, stored.queueId, stored.queueOffset, stored.transactionId)
