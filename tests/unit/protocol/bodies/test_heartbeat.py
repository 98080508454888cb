"""Heartbeats of clients of all languages, and what is not one."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from apogeemq.errors import ProtocolError
from apogeemq.model.subscriptions import SubscriptionData
from apogeemq.protocol.bodies.heartbeat import ConsumerData, decode_check, decode_heartbeat

# As the Java client writes it.
FROM_JAVA = (
    b'{"clientID":"10.0.0.1@4711#123456789","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
    b'"consumeType":"CONSUME_PASSIVELY","groupName":"G","messageModel":"CLUSTERING","subscriptionDataSet":['
    b'{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA",'
    b'"subVersion":1700000000000,"tagsSet":["TagA"],"topic":"T1"},'
    b'{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":1700000000001,'
    b'"tagsSet":[],"topic":"%RETRY%G"}],"unitMode":false}],"heartbeatFingerprint":0,'
    b'"producerDataSet":[{"groupName":"P"},{"groupName":"CLIENT_INNER_PRODUCER"}],"withoutSub":false}'
)


def consumer(**data: Any) -> bytes:
    return json.dumps({"clientID": "c", "consumerDataSet": [{"groupName": "G", **data}]}).encode()


def test_heartbeat_of_a_java_client() -> None:
    heartbeat = decode_heartbeat(FROM_JAVA)
    assert heartbeat.client_id == "10.0.0.1@4711#123456789"
    assert heartbeat.producer_groups == ["P", "CLIENT_INNER_PRODUCER"]
    assert heartbeat.fingerprint == 0
    assert not heartbeat.without_sub
    tagged = SubscriptionData(
        topic="T1",
        sub_string="TagA",
        tags_set=frozenset(["TagA"]),
        code_set=frozenset([2598919]),
        sub_version=1700000000000,
    )
    retry = SubscriptionData(topic="%RETRY%G", sub_string="*", sub_version=1700000000001)
    assert heartbeat.consumers == [
        ConsumerData("G", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", [tagged, retry], False)
    ]


def test_second_version() -> None:
    heartbeat = decode_heartbeat(b'{"clientID":"c","heartbeatFingerprint":-7,"withoutSub":true}')
    assert (heartbeat.fingerprint, heartbeat.without_sub) == (-7, True)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"clientID":null,"producerDataSet":null,"consumerDataSet":null,"heartbeatFingerprint":null,"withoutSub":null}',
        b'{"clientID":"","producerDataSet":[null],"consumerDataSet":[null],"somethingNew":{"a":[1]}}',
    ],
)
def test_nothing_said(body: bytes) -> None:
    heartbeat = decode_heartbeat(body)
    assert (heartbeat.client_id, heartbeat.producer_groups, heartbeat.consumers) == ("", [], [])


def test_nothing_said_of_a_consumer() -> None:
    [data] = decode_heartbeat(consumer(subscriptionDataSet=None, unitMode=None)).consumers
    assert data == ConsumerData("G", None, None, None, [], False)


def test_nothing_said_of_a_subscription() -> None:
    nothing = dict.fromkeys(("subString", "subVersion", "expressionType", "tagsSet", "codeSet", "classFilterMode"))
    [data] = decode_heartbeat(consumer(subscriptionDataSet=[{"topic": "T", **nothing}, None])).consumers
    assert data.subscriptions == [SubscriptionData(topic="T")]


def test_numbers_as_text_and_nulls_in_sets() -> None:
    said = {"topic": "T", "subString": "A", "subVersion": "12", "codeSet": ["65", None], "tagsSet": ["A", None]}
    [data] = decode_heartbeat(consumer(subscriptionDataSet=[said])).consumers
    assert data.subscriptions[0].code_set == {65}
    assert data.subscriptions[0].tags_set == {"A"}
    assert data.subscriptions[0].sub_version == 12


def test_words_by_position_as_cpp_clients_send_them() -> None:
    [data] = decode_heartbeat(consumer(consumeType=1, messageModel=0, consumeFromWhere=4)).consumers
    assert (data.consume_type, data.message_model) == ("CONSUME_PASSIVELY", "BROADCASTING")
    assert data.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"


def test_unknown_words_are_nothing() -> None:
    [data] = decode_heartbeat(consumer(consumeType="SOMEHOW", messageModel=9, consumeFromWhere=-1)).consumers
    assert (data.consume_type, data.message_model, data.consume_from_where) == (None, None, None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"zz",
        b'{"clientID":',
        b"[]",
        b'{"producerDataSet":[{"groupName":"P"}]}',
        b'{"consumerDataSet":[{"groupName":"G"}]}',
        b'{"clientID":"c","producerDataSet":[{}]}',
        b'{"clientID":"c","consumerDataSet":[{}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"G","subscriptionDataSet":[{"subString":"*"}]}]}',
        b'{"clientID":"c","consumerDataSet":[{"groupName":"G","subscriptionDataSet":[{"topic":"T","codeSet":[5000000000]}]}]}',
        b'{"clientID":"c","consumerDataSet":' + b"[" * 5000,
    ],
)
def test_no_heartbeat(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_heartbeat(body)


def test_subscription_is_written_as_apache_writes_it() -> None:
    subscription = decode_heartbeat(FROM_JAVA).consumers[0].subscriptions[0]
    assert msgspec.json.encode(subscription) == (
        b'{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA",'
        b'"subVersion":1700000000000,"tagsSet":["TagA"],"topic":"T1"}'
    )


def test_subscription_to_be_checked() -> None:
    checked = decode_check(b'{"clientId":"c","group":"G","subscriptionData":{"topic":"T","expressionType":"SQL92"}}')
    assert (checked.clientId, checked.group, checked.namespace) == ("c", "G", None)
    assert checked.subscription is not None
    assert checked.subscription.expression_type == "SQL92"
    assert decode_check(b"").subscription is None
    assert decode_check(b"{}").subscription is None
