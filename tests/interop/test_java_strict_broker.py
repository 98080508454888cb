"""Apache's Java client and a broker that makes no topics and no groups by itself."""

from __future__ import annotations

import pytest

from tests.interop.java_cluster import Clients, Cluster, bodies
from tests.peers.java_client import JavaError

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

BROKER_PROPERTIES = {"autoCreateTopicEnable": "false", "autoCreateSubscriptionGroup": "false"}

NOT_FOUND_TOPIC = 10_005
"""Not the broker's word: the client finds no route."""


def test_no_topic_is_made_by_a_send(cluster: Cluster, clients: Clients) -> None:
    producer = clients.producer()
    with pytest.raises(JavaError) as refused:
        producer.send("Unasked", "message")
    assert (refused.value.type_name, refused.value.code) == ("MQClientException", NOT_FOUND_TOPIC)
    topics = cluster.ask("topicList").split()
    assert "Unasked" not in topics
    assert "TBW102" not in topics


def test_a_topic_that_an_administrator_made_serves(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Asked")
    cluster.create_group("Asked-readers")
    clients.producer().send("Asked", "message")
    assert bodies(clients.push("Asked-readers", {"Asked": "*"}).received(1)) == ["message"]


def test_a_group_that_nobody_made_may_not_consume(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Guarded")
    clients.producer().send("Guarded", "message")
    stranger = clients.push("Guarded-strangers", {"Guarded": "*"})
    cluster.create_group("Guarded-readers")
    assert bodies(clients.push("Guarded-readers", {"Guarded": "*"}).received(1)) == ["message"]
    assert stranger.received(0) == []
    assert "Guarded-strangers" not in cluster.ask("consumerProgress")
