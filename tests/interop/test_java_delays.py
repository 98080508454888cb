"""Delay levels, retries and dead letters, as Apache's Java client sees them on our broker."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.interop.java_cluster import DELAYS_S, Clients, Cluster, bodies, queue
from tests.peers.process import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


def test_delay_levels(cluster: Cluster, clients: Clients) -> None:
    """A message with level n is delivered n's time after it was born, to the topic and queue it was sent to."""
    cluster.create_topic("Delayed", 2)
    producer = clients.producer()
    consumer = clients.push("Delayed-readers", {"Delayed": "*"})
    levels = [1, 2, 3, 18, 99]  # what is beyond the last level is taken as the last
    forms = [{"body": f"level {level}", "delay": level, "tags": "T", "keys": f"k{level}"} for level in levels]
    producer.send("Delayed", *forms, how="queue", queue=queue("Delayed", 1))
    producer.send("Delayed", "at once")
    found = {message["body"]: message for message in consumer.received(len(levels) + 1)}
    for level in levels:
        message = found[f"level {level}"]
        delay_ms = DELAYS_S[min(level, 18) - 1] * 1_000
        assert message["stored"] - message["born"] >= delay_ms - 50  # the scheduled time is kept to the tick
        assert (message["topic"], message["queue"]) == ("Delayed", 1)
        assert (message["tags"], message["keys"]) == ("T", f"k{level}")
        kept = {"REAL_TOPIC": "Delayed", "REAL_QID": "1", "DELAY": str(min(level, 18))}
        assert message["properties"].items() >= kept.items()
    assert found["level 1"]["reconsumeTimes"] == 0


def test_refused_messages_come_again(cluster: Cluster, clients: Clients) -> None:
    """Through the group's retry topic, with the count of tries, and only those that were refused."""
    cluster.create_topic("Again", 2)
    sent = clients.producer().send("Again", "fine 1", "refused 1", "fine 2", {"body": "refused 2", "tags": "T"})
    consumer = clients.push("Again-readers", {"Again": "*"}, refuse="refused", refuseTimes=2)
    found = consumer.received(8, deliveries=True)
    assert Counter(bodies(found)) == {"fine 1": 1, "fine 2": 1, "refused 1": 3, "refused 2": 3}
    for body, original in (("refused 1", sent[1]), ("refused 2", sent[3])):
        tries = [message for message in found if message["body"] == body]
        assert [message["reconsumeTimes"] for message in tries] == [0, 1, 2]
        assert {message["topic"] for message in tries} == {"Again"}
        assert {message["msgId"] for message in tries} == {original["msgId"]}
        for message in tries[1:]:
            assert message["properties"]["RETRY_TOPIC"] == "Again"
            assert message["properties"]["ORIGIN_MESSAGE_ID"] == original["offsetMsgId"]
    assert "%RETRY%Again-readers" in cluster.ask("topicList").split()


def test_a_retry_goes_to_the_group_that_refused(clients: Clients) -> None:
    clients.producer().send("Alone", "refused")
    content = clients.push("Alone-content", {"Alone": "*"})
    refusing = clients.push("Alone-refusing", {"Alone": "*"}, refuse="refused", refuseTimes=1)
    assert len(refusing.received(2, deliveries=True)) == 2
    assert bodies(content.received(1)) == ["refused"]


def test_the_listener_chooses_the_delay(clients: Clients) -> None:
    clients.producer().send("Chosen", "refused")
    consumer = clients.push("Chosen-readers", {"Chosen": "*"}, refuse="refused", refuseTimes=1, delayLevel=1)
    first, second = consumer.received(2, deliveries=True)
    assert second["reconsumeTimes"] == 1
    assert second["stored"] - first["stored"] >= 950


@pytest.mark.parametrize("is_orderly", [False, True], ids=["concurrent", "orderly"])
def test_dead_letters(cluster: Cluster, clients: Clients, is_orderly: bool) -> None:
    """After the last try a message goes to the group's dead letter topic, where anybody may read it."""
    name = "Orderly-dead" if is_orderly else "Dead"
    group, topic = f"{name}-readers", name
    cluster.create_topic(topic, 1)
    (sent,) = clients.producer().send(topic, {"body": "refused", "tags": "T", "keys": "dead-key"})
    settings = {"maxReconsumeTimes": 2, "suspendCurrentQueueTimeMillis": 50}
    consumer = clients.push(group, {topic: "*"}, settings, refuse="refused", orderly=is_orderly)
    consumer.received(3, deliveries=True)
    dead = f"%DLQ%{group}"
    reader = clients.pull(f"{name}-inspectors")

    wait_for(lambda: dead in cluster.ask("topicList").split(), "there is a dead letter topic")
    wait_for(lambda: len(reader.call("drain", topic=dead)) == 1, "the dead letter is there")
    (letter,) = reader.call("pullFrom", queue=queue(dead), offset=0, expression="*")["messages"]
    assert (letter["body"], letter["tags"], letter["keys"]) == ("refused", "T", "dead-key")
    assert letter["msgId"] == sent["msgId"]
    assert letter["properties"]["RETRY_TOPIC"] == topic
    assert [message["reconsumeTimes"] for message in consumer.received(3, deliveries=True)] == [0, 1, 2]


def test_dead_letter_at_once(cluster: Cluster, clients: Clients) -> None:
    """Delay level -1: no more tries."""
    clients.producer().send("Hopeless", "refused")
    consumer = clients.push("Hopeless-readers", {"Hopeless": "*"}, refuse="refused", delayLevel=-1)
    consumer.received(1)
    wait_for(lambda: "%DLQ%Hopeless-readers" in cluster.ask("topicList").split(), "there is a dead letter topic")
    assert len(consumer.received(1, deliveries=True)) == 1
