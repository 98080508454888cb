"""Apache's Java client asks our broker for single messages: by key, unique key, offset message id and place."""

from __future__ import annotations

import time
from functools import partial

import pytest

from tests.interop.java_cluster import Clients, Cluster, bodies, queue
from tests.peers.java_client import JavaError
from tests.peers.process import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

BROKER_PROPERTIES = {"traceTopicEnable": "true"}

FOREVER = 2**62


def test_by_offset_message_id(clients: Clients) -> None:
    producer = clients.producer()
    form = {"body": "here", "tags": "T", "keys": "k1 k2", "properties": {"a": "b"}}
    (sent,) = producer.send("ById", form)
    found = producer.call("view", topic="ById", message=sent["offsetMsgId"])
    assert (found["body"], found["tags"], found["keys"]) == ("here", "T", "k1 k2")
    assert (found["topic"], found["queue"], found["offset"]) == ("ById", sent["queue"], sent["offset"])
    assert found["properties"]["a"] == "b"


def test_by_offset_message_id_of_nothing(clients: Clients) -> None:
    producer = clients.producer()
    (sent,) = producer.send("ById", "here")
    elsewhere = sent["offsetMsgId"][:16] + f"{2**40:016X}"
    with pytest.raises(JavaError):
        producer.call("view", topic="ById", message=elsewhere)


def test_by_unique_key(clients: Clients) -> None:
    producer = clients.producer()
    sent = producer.send("ByUniqueKey", *(f"message {n}" for n in range(10)))
    for number, result in enumerate(sent):
        found = wait_for(
            partial(producer.call, "view", topic="ByUniqueKey", message=result["msgId"]), "the message is indexed"
        )
        assert found["body"] == f"message {number}"


def test_by_key(clients: Clients) -> None:
    """A message is found by each of its keys, newest first; no more than asked for; only in its topic and time."""
    producer = clients.producer()
    producer.send("ByKey", *({"body": f"message {n}", "keys": f"all one-{n} Größe"} for n in range(20)))
    producer.send("ByKey-other", {"body": "elsewhere", "keys": "all"})

    def query(key: str, most: int = 64, begin: int = 0, end: int = FOREVER) -> list[str]:
        try:
            found = producer.call("query", topic="ByKey", key=key, max=most, begin=begin, end=end)
        except JavaError as error:
            assert error.type_name == "MQClientException", error
            return []
        return bodies(found)

    wait_for(lambda: len(query("all")) == 20, "all are indexed")
    assert sorted(query("all")) == sorted(f"message {n}" for n in range(20))
    assert query("one-7") == ["message 7"]
    assert len(query("Größe")) == 20
    assert sorted(query("all", most=5)) == sorted(f"message {n}" for n in range(15, 20))
    assert query("absent") == []
    assert query("all", begin=int(time.time() * 1_000) + 3_600_000) == []
    assert query("all", end=1_000_000) == []


def test_keys_of_a_batch(clients: Clients) -> None:
    producer = clients.producer()
    producer.send("ByBatchKey", *({"body": f"message {n}", "keys": f"batch-{n}"} for n in range(10)), how="batch")

    def query() -> list[str]:
        try:
            return bodies(producer.call("query", topic="ByBatchKey", key="batch-7", max=10, begin=0, end=FOREVER))
        except JavaError:
            return []

    assert wait_for(query, "it is indexed") == ["message 7"]


def test_by_place(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("ByPlace", 2)
    clients.producer().send("ByPlace", *(f"message {n}" for n in range(5)), how="queue", queue=queue("ByPlace", 1))
    consumer = clients.pull("ByPlace-readers")
    found = consumer.call("pullFrom", queue=queue("ByPlace", 1), offset=3, expression="*")
    assert bodies(found["messages"]) == ["message 3", "message 4"]


def test_compressed_messages_are_found_whole(clients: Clients) -> None:
    producer = clients.producer()
    (sent,) = producer.send("ByCompressed", {"body": "x", "times": 50_000})
    found = producer.call("view", topic="ByCompressed", message=sent["offsetMsgId"])
    assert found["body"].startswith("50000 bytes")


def test_traces(cluster: Cluster, clients: Clients) -> None:
    """Producers and consumers that trace leave in the trace topic what became of a message."""
    producer = clients.producer(enableTrace=True)
    (sent,) = producer.send("Traced", {"body": "traced", "keys": "traced-key"})
    consumer = clients.push("Traced-readers", {"Traced": "*"}, {"enableTrace": True})
    assert bodies(consumer.received(1)) == ["traced"]

    def is_traced() -> bool:
        trace = cluster.ask(f"queryMsgTraceById -i {sent['msgId']}")
        return "Pub" in trace and "Traced-readers" in trace

    wait_for(is_traced, "the message has been traced from sender to reader")
