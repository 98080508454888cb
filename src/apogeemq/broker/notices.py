"""What a broker tells its clients unasked. A client that takes nothing loses its notice, not the others'."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from apogeemq.broker.tables.clients import ClientInfo, IdsChanged
from apogeemq.errors import TooManyRequests
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol.bodies.clients import encode_reset_offset_list, encode_reset_offsets
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers.clients import ConsumerGroupOnly, ResetOffset
from apogeemq.transport.channel import Channel

log = logging.getLogger(__name__)

_CPP = "CPP"


def notify_ids_changed(changes: Iterable[IdsChanged[Channel]]) -> None:
    """Let the members of these groups share their queues anew, now rather than in 20 s."""
    for change in changes:
        fields = write_fields(ConsumerGroupOnly(change.group))
        for channel in change.channels:
            _send(channel, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields)


def notify_offsets_reset(
    clients: Iterable[ClientInfo[Channel]], header: ResetOffset, offsets: Mapping[MessageQueue, int]
) -> None:
    """Let consumers go on from these offsets."""
    fields, body, body_for_cpp = write_fields(header), encode_reset_offsets(offsets), encode_reset_offset_list(offsets)
    for client in clients:
        is_cpp = client.language == _CPP
        _send(client.channel, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body_for_cpp if is_cpp else body)


def _send(channel: Channel, code: RequestCode, fields: Mapping[str, str], body: bytes = b"") -> None:
    try:
        channel.send_one_way(code, fields, body)
    except TooManyRequests as error:
        log.warning("a client was not told %s: %s", code.name, error)
