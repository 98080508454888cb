"""What brokers answer to sends."""

from __future__ import annotations

from typing import Final

from apogeemq.errors import ProtocolError, RemoteRefused, RequestRefused
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.broker import read_send_result

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
