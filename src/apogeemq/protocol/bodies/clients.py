"""Who is connected, as a broker tells it: consumer ids, connections, and what consumers say of their offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from apogeemq.errors import ProtocolError
from apogeemq.model.queues import MessageQueue
from apogeemq.model.subscriptions import SubscriptionData
from apogeemq.protocol import javajson

MAX_STATUS_SIZE = 256 * 1024  # of one consumer's answer; read by a slow parser

# Sets are written in one order, so that equal answers are equal bytes.
_encode = msgspec.json.Encoder(order="deterministic").encode


class Connection(msgspec.Struct):
    clientAddr: str
    clientId: str
    language: str
    version: int


class ProducerConnection(msgspec.Struct):
    connectionSet: list[Connection]


class ConsumerConnection(msgspec.Struct, omit_defaults=True, kw_only=True):
    connectionSet: list[Connection]
    consumeFromWhere: str | None = None
    consumeType: str | None = None
    messageModel: str | None = None
    subscriptionTable: dict[str, SubscriptionData]


class ProducerInfo(msgspec.Struct):
    clientId: str
    language: str
    lastUpdateTimestamp: int
    remoteIP: str
    version: int


class ProducerTable(msgspec.Struct):
    data: dict[str, list[ProducerInfo]]


class ConsumerIds(msgspec.Struct):
    consumerIdList: list[str]


def encode(body: msgspec.Struct) -> bytes:
    return _encode(body)


def decode_consumer_status(body: bytes) -> javajson.Pairs:
    """The offsets a consumer gave: queue object → offset."""
    if len(body) > MAX_STATUS_SIZE:
        raise ProtocolError(f"body: a consumer's status of {len(body)} bytes is longer than {MAX_STATUS_SIZE}")
    status = javajson.parse(body)
    table = status.get("messageQueueTable") if isinstance(status, dict) else None
    return table if isinstance(table, javajson.Pairs) else javajson.Pairs()


def encode_consumer_statuses(statuses: Mapping[str, javajson.Pairs]) -> bytes:
    return javajson.dumps({"consumerTable": dict(statuses), "messageQueueTable": {}})


def encode_reset_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """ResetOffsetBody: the queue itself is the key."""
    return javajson.dumps({"offsetTable": javajson.Pairs(offsets.items())})


def encode_reset_offset_list(offsets: Mapping[MessageQueue, int]) -> bytes:
    """The same for clients in C++, whose JSON has no such keys."""
    rows: list[dict[str, Any]] = [
        {"brokerName": queue.broker_name, "offset": offset, "queueId": queue.queue_id, "topic": queue.topic}
        for queue, offset in offsets.items()
    ]
    return _encode({"offsetTable": rows})
