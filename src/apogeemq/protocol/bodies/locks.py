"""Bodies of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

from __future__ import annotations

import msgspec

from apogeemq.errors import ProtocolError
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol import javajson
from apogeemq.protocol.command import Int32

MAX_QUEUES = 100_000


class LockRequest(msgspec.Struct):
    group: str
    client_id: str
    queues: list[MessageQueue]


class LockedQueues(msgspec.Struct):
    lockOKMQSet: list[MessageQueue]


class _WireQueue(msgspec.Struct):
    brokerName: str | None = None
    queueId: Int32 = 0
    topic: str | None = None


class _WireLockRequest(msgspec.Struct):
    clientId: str | None = None
    consumerGroup: str | None = None
    mqSet: list[_WireQueue] | None = None


def decode_lock_request(body: bytes) -> LockRequest:
    """ProtocolError when it does not say whose lock it is. A queue named twice counts once."""
    wire = javajson.loads(body, _WireLockRequest)
    if not wire.clientId or not wire.consumerGroup:
        raise ProtocolError("body: clientId and consumerGroup are needed for a lock")
    if len(wire.mqSet or ()) > MAX_QUEUES:
        raise ProtocolError(f"body: more than {MAX_QUEUES} queues at once")
    queues = dict.fromkeys(MessageQueue(q.brokerName or "", q.queueId, q.topic or "") for q in wire.mqSet or ())
    return LockRequest(wire.consumerGroup, wire.clientId, list(queues))
