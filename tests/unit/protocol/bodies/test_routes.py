"""The name server's answers, in both JSON dialects."""

from __future__ import annotations

import pytest

from apogeemq.errors import ProtocolError
from apogeemq.model.routes import BrokerGroup, QueueMapping, QueueSettings, TopicRoute
from apogeemq.protocol.bodies.routes import (
    broker_group,
    cluster_info,
    decode_route,
    encode,
    topic_list,
    topic_route,
)

ROUTE = TopicRoute(
    queues={"broker-b": QueueSettings(4, 8, 6, 0), "broker-a": QueueSettings(1, 1, 2, 1)},
    brokers=[
        BrokerGroup("c", "broker-a", {1: "10.0.0.2:10911", 0: "10.0.0.1:10911"}),
        BrokerGroup("c", "broker-b", {0: "10.0.0.3:10911"}, "zone", True),
    ],
    filter_servers={},
    order_conf="broker-a:4",
)
BARE = (
    b'{"brokerDatas":['
    b'{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"c",'
    b'"enableActingMaster":false},'
    b'{"brokerAddrs":{0:"10.0.0.3:10911"},"brokerName":"broker-b","cluster":"c","enableActingMaster":true,'
    b'"zoneName":"zone"}],'
    b'"filterServerTable":{},"orderTopicConf":"broker-a:4","queueDatas":['
    b'{"brokerName":"broker-a","perm":2,"readQueueNums":1,"topicSysFlag":1,"writeQueueNums":1},'
    b'{"brokerName":"broker-b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":8}]}'
)


def test_a_route_in_fastjsons_dialect() -> None:
    assert encode(topic_route(ROUTE), standard=False) == BARE


def test_a_route_in_standard_json_differs_in_the_quotes_only() -> None:
    quoted = BARE.replace(b"{0:", b'{"0":').replace(b",1:", b',"1":')
    assert encode(topic_route(ROUTE), standard=True) == quoted


@pytest.mark.parametrize("standard", [True, False])
def test_either_dialect_is_read_back(standard: bool) -> None:
    mapping = QueueMapping("broker-a", {0: 1}, False, 3, "__global__", "T", 8)
    for route in (ROUTE, TopicRoute({}, [], {"h:1": ["f:1"]}, {"broker-a": mapping})):
        assert decode_route(encode(topic_route(route), standard)) == route


def test_parts_may_be_missing() -> None:
    assert decode_route(b"{}") == TopicRoute({}, [], {})
    assert decode_route(b'{"filterServerTable":{"h:1":null}}').filter_servers == {"h:1": []}


@pytest.mark.parametrize("body", [b"", b"[]", b'{"queueDatas":[{}]}', b'{"brokerDatas":5}', BARE[:-1]])
def test_what_is_no_route_is_a_protocol_error(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_route(body)


def test_clusters_and_topic_lists() -> None:
    group = BrokerGroup("c", "b", {0: "h:1"})
    assert cluster_info({"b": group}, {"c": {"b"}}) == {
        "brokerAddrTable": {"b": broker_group(group)},
        "clusterAddrTable": {"c": ["b"]},
    }
    assert topic_list(iter(["T1", "T2"])) == {"topicList": ["T1", "T2"]}
    assert topic_list([], "h:1") == {"brokerAddr": "h:1", "topicList": []}
