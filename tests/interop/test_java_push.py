"""Apache's Java push consumers on our broker: sharing queues, broadcasting, tags, order, and where they begin."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.interop.java_cluster import Client, Clients, Cluster, bodies, queue, received
from tests.peers import apache
from tests.peers.process import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

QUEUES = 4


def texts(count: int, word: str = "message") -> list[str]:
    return [f"{word} {number}" for number in range(count)]


def wait_for_shares(topic: str, *shares: tuple[Client, int]) -> None:
    """Every queue has one owner, and each consumer as many as it should."""

    def is_shared() -> bool:
        owned = [consumer.assigned(topic) for consumer, _ in shares]
        assigned = sorted(queue_id for ids in owned for queue_id in ids)
        return assigned == list(range(QUEUES)) and [len(ids) for ids in owned] == [count for _, count in shares]

    wait_for(is_shared, f"the queues of {topic} are shared out as {[count for _, count in shares]}")


def test_consumers_of_a_group_share_the_queues(cluster: Cluster, clients: Clients) -> None:
    """Each message comes to one of them, once; the queues move when a consumer joins and when one leaves."""
    cluster.create_topic("Shared", QUEUES)
    producer = clients.producer()
    first = clients.push("Shared-readers", {"Shared": "*"})
    wait_for_shares("Shared", (first, 4))
    producer.send("Shared", *texts(100, "alone"))
    assert Counter(bodies(first.received(100))) == Counter(texts(100, "alone"))

    second = clients.push("Shared-readers", {"Shared": "*"})
    wait_for_shares("Shared", (first, 2), (second, 2))
    producer.send("Shared", *texts(100, "together"))
    both = received(200, first, second)
    assert Counter(bodies(both[0] + both[1])) == Counter(texts(100, "alone") + texts(100, "together"))
    assert len(both[1]) == 50

    first.stop()
    wait_for_shares("Shared", (second, 4))
    producer.send("Shared", *texts(100, "alone again"))
    rest = bodies(second.received(150))
    assert Counter(rest[50:]) == Counter(texts(100, "alone again"))


def test_groups_read_independently(clients: Clients) -> None:
    clients.producer().send("Independent", *texts(20))
    for group in ("Independent-1", "Independent-2"):
        consumer = clients.push(group, {"Independent": "*"})
        assert Counter(bodies(consumer.received(20))) == Counter(texts(20))


def test_broadcasting(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Broadcast")
    settings = {"messageModel": "BROADCASTING"}
    consumers = [clients.push("Broadcast-readers", {"Broadcast": "*"}, settings) for _ in range(2)]
    for consumer in consumers:
        wait_for_shares("Broadcast", (consumer, QUEUES))
    clients.producer().send("Broadcast", *texts(40))
    for consumer in consumers:
        assert Counter(bodies(consumer.received(40))) == Counter(texts(40))


def test_tags(clients: Clients) -> None:
    tags: list[str | None] = ["A", "B", "C", None]
    forms = [{"body": f"{tag} {n}"} | ({"tags": tag} if tag else {}) for n in range(10) for tag in tags]
    clients.producer().send("Tagged", *forms)
    expected: dict[str, list[str | None]] = {"A": ["A"], "A || B": ["A", "B"], "*": tags, "C||A": ["A", "C"]}
    for number, (expression, wanted) in enumerate(expected.items()):
        consumer = clients.push(f"Tagged-{number}", {"Tagged": expression})
        found = consumer.received(10 * len(wanted))
        assert Counter(bodies(found)) == Counter(f"{tag} {n}" for tag in wanted for n in range(10))


def test_tags_with_equal_hashes_are_told_apart(clients: Clients) -> None:
    """`Aa` and `BB` have the same hash code in Java: the broker lets both through, the client does not."""
    clients.producer().send(
        "Hashes", {"body": "1", "tags": "Aa"}, {"body": "2", "tags": "BB"}, {"body": "3", "tags": "Aa"}
    )
    consumer = clients.push("Hashes-readers", {"Hashes": "Aa"})
    assert sorted(bodies(consumer.received(2))) == ["1", "3"]


def test_one_consumer_of_several_topics(clients: Clients) -> None:
    producer = clients.producer()
    for topic in ("Several-1", "Several-2", "Several-3"):
        producer.send(topic, *texts(5, topic))
    consumer = clients.push("Several-readers", {"Several-1": "*", "Several-2": "*"})
    assert Counter(bodies(consumer.received(10))) == Counter(texts(5, "Several-1") + texts(5, "Several-2"))
    consumer.call("unsubscribe", topic="Several-1")
    wait_for(lambda: consumer.assigned("Several-1") == [], "it has given the queues of the first topic back")
    producer.send("Several-1", "nobody reads this")
    producer.send("Several-2", "one more")
    assert bodies(consumer.received(11))[10:] == ["one more"]


def test_messages_arrive_while_a_pull_is_held(cluster: Cluster, clients: Clients) -> None:
    """The consumer waits at an empty topic; what is sent then comes at once, again and again."""
    cluster.create_topic("Held", 1)
    consumer = clients.push("Held-readers", {"Held": "*"})
    wait_for(lambda: consumer.assigned("Held") == [0], "it has the queue")
    producer = clients.producer()
    for count in range(1, 11):
        producer.send("Held", f"message {count}")
        assert len(consumer.received(count, timeout_s=10)) == count


def test_where_a_new_group_begins(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Beginning", 1)
    producer = clients.producer()
    producer.send("Beginning", "old")
    wait_for(lambda: producer.call("offsets", queue=queue("Beginning"))["max"] == 1, "it is stored")
    first = clients.push("Beginning-first", {"Beginning": "*"}, {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"})
    assert bodies(first.received(1)) == ["old"]
    # The topic is young: the broker knows that nothing was deleted, and lets `last` begin at the first as well.
    last = clients.push("Beginning-last", {"Beginning": "*"}, {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"})
    assert bodies(last.received(1)) == ["old"]


def orders(count: int, steps: int) -> list[dict[str, Any]]:
    return [{"body": f"{order}/{step}", "order": order} for step in range(steps) for order in range(count)]


def steps_by_order(*inboxes: list[dict[str, Any]]) -> dict[str, list[int]]:
    seen = defaultdict(list)
    for inbox in inboxes:
        for message in inbox:
            order, step = message["body"].split("/")
            seen[order].append(int(step))
    return seen


def test_orderly_listener(cluster: Cluster, clients: Clients) -> None:
    """Two consumers; a queue is handled by one at a time, in order, also while the queues move."""
    cluster.create_topic("Orderly", QUEUES)
    producer = clients.producer()
    producer.send("Orderly", *orders(8, 25), how="ordered")
    first = clients.push("Orderly-readers", {"Orderly": "*"}, orderly=True, holdMs=5)
    first.received(20)
    second = clients.push("Orderly-readers", {"Orderly": "*"}, orderly=True, holdMs=5)
    wait_for_shares("Orderly", (first, 2), (second, 2))
    producer.send("Orderly", *({**form, "body": form["body"] + "5000"} for form in orders(8, 10)), how="ordered")
    both = received(8 * 35, first, second)
    assert {message["overlaps"] for message in both[0] + both[1]} == {None}
    for inbox in both:
        for queue_id in range(QUEUES):
            offsets = [message["offset"] for message in inbox if message["queue"] == queue_id]
            assert offsets == sorted(offsets)
    first.stop()
    wait_for_shares("Orderly", (second, 4))


def test_orderly_listener_retries_in_place(cluster: Cluster, clients: Clients) -> None:
    """What is refused holds its queue up, and comes again before anything after it."""
    cluster.create_topic("Obstinate", 1)
    clients.producer().send("Obstinate", "a", "refused", "b")
    settings = {"suspendCurrentQueueTimeMillis": 50}
    consumer = clients.push(
        "Obstinate-readers", {"Obstinate": "*"}, settings, orderly=True, refuse="refused", refuseTimes=3
    )
    assert bodies(consumer.received(3)) == ["a", "refused", "refused", "refused", "refused", "b"]


def test_batches_to_the_listener(clients: Clients) -> None:
    clients.producer().send("Gathered", *texts(20), how="batch")
    consumer = clients.push("Gathered-readers", {"Gathered": "*"}, {"consumeMessageBatchMaxSize": 10})
    found = consumer.received(20)
    assert Counter(bodies(found)) == Counter(texts(20))
    assert {message["together"] for message in found} == {10}


def test_many_messages(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Many", QUEUES)
    producer = clients.producer()
    for part in range(10):
        producer.send("Many", *texts(500, f"part {part}"), how="async")
    consumers = [clients.push("Many-readers", {"Many": "*"}) for _ in range(2)]
    both = received(5_000, *consumers)
    assert {body for inbox in both for body in bodies(inbox)} == {
        text for part in range(10) for text in texts(500, f"part {part}")
    }


def test_a_group_that_may_not_consume(cluster: Cluster, clients: Clients) -> None:
    cluster.create_group("Barred-readers", "-s false")
    producer = clients.producer()
    producer.send("Barred", "waits")
    consumer = clients.push("Barred-readers", {"Barred": "*"})
    wait_for(lambda: consumer.assigned("Barred"), "it has its queues")
    assert bodies(clients.push("Barred-others", {"Barred": "*"}).received(1)) == ["waits"]
    assert consumer.received(0) == []
    cluster.create_group("Barred-readers", "-s true")
    assert bodies(consumer.received(1)) == ["waits"]


def test_heartbeats_of_the_second_form(cluster: Cluster, clients: Clients) -> None:
    """They leave the subscriptions out while these do not change."""
    cluster.create_topic("Beating", QUEUES)
    settings = {"useHeartbeatV2": True, "heartbeatBrokerInterval": 200}
    consumers = [clients.push("Beating-readers", {"Beating": "*"}, settings) for _ in range(2)]
    wait_for_shares("Beating", (consumers[0], 2), (consumers[1], 2))
    clients.producer(useHeartbeatV2=True).send("Beating", *texts(20))
    both = received(20, *consumers)
    assert Counter(bodies(both[0] + both[1])) == Counter(texts(20))
    assert cluster.ask("consumerConnection -g Beating-readers").count("JAVA") == 2


def test_clients_of_the_line_before(cluster: Cluster, tmp_path: Path) -> None:
    """Producer and consumers of 4.9."""
    cluster.create_topic("Exchanged", QUEUES)
    with apache.run_program(
        apache.V4,
        "Exchange.java",
        cluster.name_server.address,
        "Exchanged",
        "100",
        work_dir=tmp_path,
        netns=cluster.tools.netns,
    ) as exchange:
        exchange.say("go on")
        exchange.wait_for_output("^received 100 of 100", timeout_s=120)
        assert exchange.wait() == 0
