"""Bodies that tell who is connected, byte by byte as Apache writes them."""

from __future__ import annotations

import pytest

from apogeemq.errors import ProtocolError
from apogeemq.model.queues import MessageQueue
from apogeemq.model.subscriptions import SubscriptionData
from apogeemq.protocol.bodies import clients
from apogeemq.protocol.javajson import Pairs

CONNECTION = clients.Connection("127.0.0.1:54570", "c1", "PYTHON", 513)


def test_consumer_connections() -> None:
    body = clients.ConsumerConnection(
        connectionSet=[CONNECTION],
        consumeFromWhere="CONSUME_FROM_LAST_OFFSET",
        messageModel="CLUSTERING",
        subscriptionTable={"T": SubscriptionData(topic="T", sub_version=1)},
    )
    assert clients.encode(body) == (
        b'{"connectionSet":[{"clientAddr":"127.0.0.1:54570","clientId":"c1","language":"PYTHON","version":513}],'
        b'"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","messageModel":"CLUSTERING","subscriptionTable":{"T":'
        b'{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":1,"tagsSet":[],'
        b'"topic":"T"}}}'
    )


def test_empty_subscription_table_is_written() -> None:
    body = clients.ConsumerConnection(connectionSet=[], subscriptionTable={})
    assert clients.encode(body) == b'{"connectionSet":[],"subscriptionTable":{}}'


def test_producers() -> None:
    assert clients.encode(clients.ProducerConnection([CONNECTION])) == (
        b'{"connectionSet":[{"clientAddr":"127.0.0.1:54570","clientId":"c1","language":"PYTHON","version":513}]}'
    )
    info = clients.ProducerInfo("c1", "PYTHON", 1794787431709, "/127.0.0.1:54570", 513)
    assert clients.encode(clients.ProducerTable({"P": [info]})) == (
        b'{"data":{"P":[{"clientId":"c1","language":"PYTHON","lastUpdateTimestamp":1794787431709,'
        b'"remoteIP":"/127.0.0.1:54570","version":513}]}}'
    )


def test_statuses_of_consumers() -> None:
    said = b'{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5}}'
    status = clients.decode_consumer_status(said)
    assert status == [({"brokerName": "broker-a", "queueId": 0, "topic": "T"}, 5)]
    assert clients.encode_consumer_statuses({"c2": status}) == (
        b'{"consumerTable":{"c2":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5}},"messageQueueTable":{}}'
    )


@pytest.mark.parametrize("said", [b"{}", b"[]", b'{"messageQueueTable":null}', b'{"messageQueueTable":{}}'])
def test_consumer_without_status(said: bytes) -> None:
    assert clients.decode_consumer_status(said) == Pairs()


@pytest.mark.parametrize("said", [b"", b"{", b'"' + b"x" * clients.MAX_STATUS_SIZE + b'"'])
def test_no_status(said: bytes) -> None:
    with pytest.raises(ProtocolError):
        clients.decode_consumer_status(said)


def test_reset_offsets_in_both_forms() -> None:
    offsets = {MessageQueue("b", 1, "T"): 7}
    assert clients.encode_reset_offsets(offsets) == b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:7}}'
    assert clients.encode_reset_offset_list(offsets) == (
        b'{"offsetTable":[{"brokerName":"b","offset":7,"queueId":1,"topic":"T"}]}'
    )
