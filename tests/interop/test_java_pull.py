"""Apache's Java lite pull consumer and its old pull consumer on our broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.interop.java_cluster import BROKER, Client, Clients, Cluster, bodies, queue
from tests.peers.java_client import JavaError
from tests.peers.process import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


def texts(count: int) -> list[str]:
    return [f"message {number}" for number in range(count)]


def poll(consumer: Client, count: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = consumer.call("poll", count=count, timeoutMs=30_000)
    assert len(messages) >= count, bodies(messages)
    return messages


def test_lite_pull_subscribes(clients: Clients) -> None:
    clients.producer().send("Lite", *({"body": text, "tags": f"T{n % 2}"} for n, text in enumerate(texts(40))))
    consumer = clients.lite("Lite-readers", {"Lite": "*"})
    assert Counter(bodies(poll(consumer, 40))) == Counter(texts(40))
    odd = clients.lite("Lite-odd-readers", {"Lite": "T1"})
    assert Counter(bodies(poll(odd, 20))) == Counter(texts(40)[1::2])


def test_lite_pull_consumers_share_the_queues(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("LiteShared", 4)
    first, second = (clients.lite("LiteShared-readers", {"LiteShared": "*"}) for _ in range(2))

    def is_shared() -> bool:
        owned = first.assigned("LiteShared"), second.assigned("LiteShared")
        return sorted(owned[0] + owned[1]) == [0, 1, 2, 3] and len(owned[0]) == len(owned[1]) == 2

    wait_for(is_shared, "each has two queues")
    clients.producer().send("LiteShared", *texts(40))
    assert Counter(bodies(poll(first, 20) + poll(second, 20))) == Counter(texts(40))


def test_lite_pull_assigns_and_seeks(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Assigned", 2)
    producer = clients.producer()
    producer.send("Assigned", *texts(20), how="queue", queue=queue("Assigned", 1))
    consumer = clients.lite("Assigned-readers", assign=[queue("Assigned", 1)])
    assert bodies(poll(consumer, 20)) == texts(20)
    consumer.call("seek", queue=queue("Assigned", 1), to=15)
    assert bodies(poll(consumer, 5)) == texts(20)[15:]
    consumer.call("seek", queue=queue("Assigned", 1), to="begin")
    assert bodies(poll(consumer, 20)) == texts(20)
    consumer.call("seek", queue=queue("Assigned", 1), to=0)
    consumer.call("seek", queue=queue("Assigned", 1), to="end")
    producer.send("Assigned", "newest", how="queue", queue=queue("Assigned", 1))
    assert bodies(poll(consumer, 1)) == ["newest"]


def test_lite_pull_commits_by_hand(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("ByHand", 1)
    clients.producer().send("ByHand", *texts(10))
    settings = {"autoCommit": False}
    consumer = clients.lite("ByHand-readers", assign=[queue("ByHand")], settings=settings)
    assert consumer.call("committed", queue=queue("ByHand")) in (-1, 0)
    assert bodies(poll(consumer, 10)) == texts(10)
    consumer.call("commit", queues=[queue("ByHand")])
    assert wait_for(lambda: consumer.call("committed", queue=queue("ByHand")) == 10, "the broker has the offset")
    consumer.stop()
    clients.producer().send("ByHand", "later")
    successor = clients.lite("ByHand-readers", assign=[queue("ByHand")], settings=settings)
    assert bodies(poll(successor, 1)) == ["later"]


def test_lite_pull_finds_the_queues_of_a_topic(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Listed", 3)
    consumer = clients.lite("Listed-readers", {"Listed": "*"})
    assert consumer.call("queues", topic="Listed") == [["Listed", BROKER, n] for n in range(3)]


def pull(consumer: Client, topic: str, offset: int, expression: str = "*", **args: object) -> Mapping[str, Any]:
    result: Mapping[str, Any] = consumer.call(
        "pullFrom", queue=queue(topic), offset=offset, expression=expression, **args
    )
    return result


def test_old_pull_consumer(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Old", 1)
    clients.producer().send("Old", *({"body": text, "tags": f"T{n % 2}"} for n, text in enumerate(texts(50))))
    consumer = clients.pull("Old-readers")
    assert consumer.call("queues", topic="Old") == [["Old", BROKER, 0]]

    first = pull(consumer, "Old", 0)
    assert (first["status"], first["next"], first["min"], first["max"]) == ("FOUND", 32, 0, 50)
    assert bodies(first["messages"]) == texts(50)[:32]
    rest = pull(consumer, "Old", 32)
    assert (rest["status"], rest["next"]) == ("FOUND", 50)
    assert bodies(rest["messages"]) == texts(50)[32:]

    odd = pull(consumer, "Old", 40, "T1")
    assert bodies(odd["messages"]) == texts(50)[41::2]
    nothing = pull(consumer, "Old", 45, "Absent")
    assert (nothing["status"], nothing["next"], nothing["messages"]) == ("NO_MATCHED_MSG", 50, [])
    end = pull(consumer, "Old", 50)
    assert (end["status"], end["next"], end["min"], end["max"]) == ("NO_NEW_MSG", 50, 0, 50)
    for beyond in (51, 1_000):
        corrected = pull(consumer, "Old", beyond)
        assert (corrected["status"], corrected["next"]) == ("OFFSET_ILLEGAL", 50)


def test_old_pull_consumer_waits(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Waits", 1)
    producer, consumer = clients.producer(), clients.pull("Waits-readers")
    shell = cluster.tools.clients
    held = shell.ask("pullFrom", name=consumer.name, queue=queue("Waits"), offset=0, expression="*", wait=True)
    producer.send("Waits", "at last")
    # Whether the pull came first or the message, it is answered with the message.
    assert bodies(shell.answer(held)["messages"]) == ["at last"]


def test_old_pull_consumer_keeps_its_offsets_in_the_broker(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Kept", 1)
    clients.producer().send("Kept", *texts(10))
    consumer = clients.pull("Kept-readers")
    assert pull(consumer, "Kept", 0)["status"] == "FOUND"  # this makes the group known to the broker
    consumer.call("commit", queue=queue("Kept"), offset=7)
    wait_for(lambda: consumer.call("committed", queue=queue("Kept")) == 7, "the broker has it")
    assert clients.pull("Kept-readers").call("committed", queue=queue("Kept")) == 7


def test_pull_of_an_unknown_topic(cluster: Cluster, clients: Clients) -> None:
    consumer = clients.pull("Lost-readers")
    with pytest.raises(JavaError) as unknown:
        consumer.call("queues", topic="NoSuchTopic")
    assert unknown.value.type_name == "MQClientException"
