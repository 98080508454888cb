"""What clients say of themselves: the heartbeat, and the question whether a subscription can be served.

Clients of many languages write these bodies, so they are read leniently: unknown keys are ignored, null is nothing,
a word of an enum may be its position, an unknown word is nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from apogeemq.errors import ProtocolError
from apogeemq.model import subscriptions as words
from apogeemq.model.subscriptions import SubscriptionData
from apogeemq.protocol import javajson
from apogeemq.protocol.command import Int32, Int64


class ConsumerData(msgspec.Struct):
    """A consumer group as one of its clients describes it."""

    group: str
    consume_type: str | None
    message_model: str | None
    consume_from_where: str | None
    subscriptions: list[SubscriptionData]
    unit_mode: bool


class Heartbeat(msgspec.Struct):
    """`fingerprint` is not 0 in a heartbeat of the second version, which may leave its subscriptions out."""

    client_id: str
    producer_groups: list[str]
    consumers: list[ConsumerData]
    fingerprint: int = 0
    without_sub: bool = False


class CheckedSubscription(msgspec.Struct):
    """CHECK_CLIENT_CONFIG."""

    clientId: str | None = None
    group: str | None = None
    namespace: str | None = None
    subscription: SubscriptionData | None = None


class _WireSubscription(msgspec.Struct):
    topic: str | None = None
    subString: str | None = None
    subVersion: Int64 | None = None
    expressionType: str | None = None
    tagsSet: list[str | None] | None = None
    codeSet: list[Int32 | None] | None = None
    classFilterMode: bool | None = None


class _WireConsumer(msgspec.Struct):
    groupName: str | None = None
    consumeType: str | int | None = None
    messageModel: str | int | None = None
    consumeFromWhere: str | int | None = None
    subscriptionDataSet: list[_WireSubscription | None] | None = None
    unitMode: bool | None = None


class _WireProducer(msgspec.Struct):
    groupName: str | None = None


class _WireHeartbeat(msgspec.Struct):
    clientID: str | None = None
    producerDataSet: list[_WireProducer | None] | None = None
    consumerDataSet: list[_WireConsumer | None] | None = None
    heartbeatFingerprint: Int32 | None = None
    withoutSub: bool | None = None


class _WireCheck(msgspec.Struct):
    clientId: str | None = None
    group: str | None = None
    namespace: str | None = None
    subscriptionData: _WireSubscription | None = None


def decode_heartbeat(body: bytes) -> Heartbeat:
    """ProtocolError when it does not say who speaks, for which group, or about which topic."""
    wire = javajson.loads(body, _WireHeartbeat)
    producers = [_named(data.groupName, "a producer group") for data in wire.producerDataSet or () if data is not None]
    consumers = [_consumer(data) for data in wire.consumerDataSet or () if data is not None]
    if producers or consumers:
        _named(wire.clientID, "the client")
    return Heartbeat(
        wire.clientID or "", producers, consumers, wire.heartbeatFingerprint or 0, wire.withoutSub or False
    )


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """As a client of 5.x writes it; keys in the order fastjson gives them."""
    consumers = [
        {
            "consumeFromWhere": data.consume_from_where,
            "consumeType": data.consume_type,
            "groupName": data.group,
            "messageModel": data.message_model,
            "subscriptionDataSet": data.subscriptions,
            "unitMode": data.unit_mode,
        }
        for data in heartbeat.consumers
    ]
    return msgspec.json.encode(
        {
            "clientID": heartbeat.client_id,
            "consumerDataSet": consumers,
            "heartbeatFingerprint": heartbeat.fingerprint,
            "producerDataSet": [{"groupName": group} for group in heartbeat.producer_groups],
            "withoutSub": heartbeat.without_sub,
        }
    )


def decode_check(body: bytes) -> CheckedSubscription:
    wire = javajson.loads(body, _WireCheck) if body else _WireCheck()
    checked = None if wire.subscriptionData is None else _subscription(wire.subscriptionData)
    return CheckedSubscription(wire.clientId, wire.group, wire.namespace, checked)


def _consumer(wire: _WireConsumer) -> ConsumerData:
    subscriptions = [_subscription(data) for data in wire.subscriptionDataSet or () if data is not None]
    for subscription in subscriptions:
        _named(subscription.topic, "a topic")
    return ConsumerData(
        # Blank names, and those with characters no group has, are left to whoever knows the groups.
        group=wire.groupName if wire.groupName is not None else _named(None, "a consumer group"),
        consume_type=_word(wire.consumeType, words.CONSUME_TYPES),
        message_model=_word(wire.messageModel, words.MESSAGE_MODELS),
        consume_from_where=_word(wire.consumeFromWhere, words.CONSUME_FROM_WHERE),
        subscriptions=subscriptions,
        unit_mode=wire.unitMode or False,
    )


def _subscription(wire: _WireSubscription) -> SubscriptionData:
    return SubscriptionData(
        class_filter_mode=wire.classFilterMode or False,
        code_set=frozenset(code for code in wire.codeSet or () if code is not None),
        expression_type=wire.expressionType or words.TAG,
        sub_string=wire.subString if wire.subString is not None else words.EVERY_TAG,
        sub_version=wire.subVersion or 0,
        tags_set=frozenset(tag for tag in wire.tagsSet or () if tag is not None),
        topic=wire.topic or "",
    )


def _named(name: str | None, what: str) -> str:
    if not name:
        raise ProtocolError(f"body: {what} has no name")
    return name


def _word(value: str | int | None, choices: Sequence[str]) -> str | None:
    if isinstance(value, int):
        return choices[value] if 0 <= value < len(choices) else None
    return value if value in choices else None
