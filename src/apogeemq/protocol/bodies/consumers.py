"""What a consumer tells of itself when a broker asks: how it is doing, how far it is, what became of one message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from apogeemq.errors import ProtocolError
from apogeemq.model.queues import MessageQueue
from apogeemq.model.subscriptions import SubscriptionData
from apogeemq.protocol import javajson

MAX_RESET_SIZE: Final = 1024 * 1024  # of the offsets a broker sets; read by a slow parser

# ConsumerRunningInfo: names of properties that tools look for.
NAME_SERVERS: Final = "PROP_NAMESERVER_ADDR"
HANDLERS_AT_ONCE: Final = "PROP_THREADPOOL_CORE_SIZE"
IS_ORDERED: Final = "PROP_CONSUMEORDERLY"
CONSUME_TYPE: Final = "PROP_CONSUME_TYPE"
CLIENT_VERSION: Final = "PROP_CLIENT_VERSION"
START_TIME: Final = "PROP_CONSUMER_START_TIMESTAMP"

# ConsumeMessageDirectlyResult: what became of the message.
CONSUMED: Final = "CR_SUCCESS"
LATER: Final = "CR_LATER"
RAISED: Final = "CR_THROW_EXCEPTION"
NO_RESULT: Final = "CR_RETURN_NULL"


class ProcessQueueInfo(msgspec.Struct, kw_only=True, rename="camel"):
    """One queue of a consumer. Times are of the wall clock; sizes, as Apache gives them, in whole MiB."""

    cached_msg_count: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_size: int = msgspec.field(default=0, name="cachedMsgSizeInMiB")
    commit_offset: int = 0
    droped: bool = False
    last_consume_timestamp: int = 0
    last_lock_timestamp: int = 0
    last_pull_timestamp: int = 0
    locked: bool = False
    transaction_msg_count: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_min_offset: int = 0
    try_unlock_times: int = 0


class ConsumeStatus(msgspec.Struct, kw_only=True):
    """Of one topic: averages in ms and rates per second over the last minute, failures of the last hour."""

    consumeFailedMsgs: int = 0
    consumeFailedTPS: float = 0.0
    consumeOKTPS: float = 0.0
    consumeRT: float = 0.0
    pullRT: float = 0.0
    pullTPS: float = 0.0


class ConsumerRunningInfo(msgspec.Struct, kw_only=True):
    properties: dict[str, str]
    subscriptions: list[SubscriptionData]
    queues: dict[MessageQueue, ProcessQueueInfo]
    statuses: dict[str, ConsumeStatus]
    stacks: str | None = None


def encode_running_info(info: ConsumerRunningInfo) -> bytes:
    """Sorted as Apache's trees are."""
    queues = sorted(info.queues.items(), key=lambda entry: _order_of(entry[0]))
    body: dict[str, Any] = {
        **({"jstack": info.stacks} if info.stacks is not None else {}),
        "mqPopTable": {},
        "mqTable": javajson.Pairs(queues),
        "properties": info.properties,
        "statusTable": {topic: info.statuses[topic] for topic in sorted(info.statuses)},
        "subscriptionSet": sorted(map(_plain, info.subscriptions), key=lambda one: (one["topic"], one["subString"])),
        "userConsumerInfo": {},
    }
    return javajson.dumps(body)


def encode_directly_result(result: str, *, is_ordered: bool, spent_ms: int, remark: str | None = None) -> bytes:
    body: dict[str, Any] = {"autoCommit": True, "consumeResult": result, "order": is_ordered}
    if remark is not None:
        body["remark"] = remark
    return msgspec.json.encode({**body, "spentTimeMills": spent_ms})


def encode_consumer_status(offsets: Mapping[MessageQueue, int]) -> bytes:
    """GetConsumerStatusBody: the queue itself is the key."""
    return javajson.dumps({"consumerTable": {}, "messageQueueTable": javajson.Pairs(offsets.items())})


def decode_reset_offsets(body: bytes) -> dict[MessageQueue, int]:
    """ResetOffsetBody in either of its forms: a map with queues as keys, or a list of queues with an offset each."""
    if len(body) > MAX_RESET_SIZE:
        raise ProtocolError(f"body: {len(body)} bytes of offsets are more than {MAX_RESET_SIZE}")
    if not body:
        return {}
    entries = javajson.parse(body)
    table = entries.get("offsetTable") if isinstance(entries, dict) else None
    try:
        if isinstance(table, javajson.Pairs):
            return {msgspec.convert(queue, MessageQueue): int(offset) for queue, offset in table}
        if isinstance(table, list):
            return {msgspec.convert(row, MessageQueue): int(row["offset"]) for row in table}
    except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        raise ProtocolError(f"body: no offsets to set: {error}") from None
    if not table:
        return {}
    raise ProtocolError("body: no offsets to set")


def _order_of(queue: MessageQueue) -> tuple[str, str, int]:
    return queue.topic, queue.broker_name, queue.queue_id


def _plain(subscription: SubscriptionData) -> dict[str, Any]:
    """Sets in one order, so that equal answers are equal bytes."""
    plain: dict[str, Any] = msgspec.to_builtins(subscription)
    return plain | {"codeSet": sorted(plain["codeSet"]), "tagsSet": sorted(plain["tagsSet"])}
