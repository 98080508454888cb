"""Where Apache's Java consumers go on: after their own restart, the broker's, and an administrator's reset."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.interop.java_cluster import CLUSTER, Client, Clients, Cluster, bodies, queue
from tests.peers.process import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


def texts(count: int, word: str = "message") -> list[str]:
    return [f"{word} {number}" for number in range(count)]


def consumed(cluster: Cluster, group: str, topic: str) -> int:
    """How many messages the group has behind it, as the broker knows it."""
    rows = re.findall(rf"^{topic} +\S+ +\d+ +\d+ +(\d+) ", cluster.ask(f"consumerProgress -g {group}"), re.M)
    return sum(map(int, rows))


def wait_for_consumed(cluster: Cluster, consumer: Client, group: str, topic: str, count: int) -> None:
    def is_known() -> bool:
        consumer.call("persist")
        return consumed(cluster, group, topic) == count

    wait_for(is_known, f"the broker knows that {count} messages were consumed")


def test_a_restarted_consumer_goes_on(cluster: Cluster, clients: Clients) -> None:
    producer = clients.producer()
    producer.send("GoesOn", *texts(40, "early"))
    consumer = clients.push("GoesOn-readers", {"GoesOn": "*"})
    assert Counter(bodies(consumer.received(40))) == Counter(texts(40, "early"))
    consumer.stop()  # tells the broker how far it has come
    producer.send("GoesOn", *texts(40, "late"))
    successor = clients.push("GoesOn-readers", {"GoesOn": "*"})
    assert Counter(bodies(successor.received(40))) == Counter(texts(40, "late"))


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_offsets_survive_the_broker(cluster: Cluster, clients: Clients, kill: bool) -> None:
    """Producer and consumer stay, the broker goes and comes back: nothing is lost, nothing comes twice."""
    topic = "Killed" if kill else "Stopped"
    group = f"{topic}-readers"
    cluster.create_topic(topic)
    producer = clients.producer(retryTimesWhenSendFailed=10)
    consumer = clients.push(group, {topic: "*"})
    producer.send(topic, *texts(40, "before"))
    consumer.received(40)
    wait_for_consumed(cluster, consumer, group, topic, 40)
    offsets = cluster.broker.work_dir / "store" / "config" / "consumerOffset.json"
    key = f'"{topic}@{group}"'

    def is_on_disk() -> bool:
        found = re.search(rf"{key}:{{([^}}]*)}}", offsets.read_text()) if offsets.exists() else None
        return found is not None and sum(map(int, re.findall(r":\s*(\d+)", found[1]))) == 40

    if kill:
        wait_for(is_on_disk, "the offsets are on disk")  # every few seconds
    cluster.restart_broker(kill=kill)

    wait_for(lambda: sends(producer, topic), "the broker is back")
    producer.send(topic, *texts(40, "after"))
    expected = Counter([*texts(40, "before"), "probe", *texts(40, "after")])
    assert Counter(bodies(consumer.received(81))) == expected


def sends(producer: Client, topic: str) -> bool:
    try:
        return bool(producer.send(topic, "probe")[0]["status"] == "SEND_OK")
    except Exception as failed:  # it is just coming up
        assert "probe" not in str(failed)
        return False


def test_reset_by_time_while_the_consumer_runs(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Reset", 2)
    producer = clients.producer()
    consumer = clients.push("Reset-readers", {"Reset": "*"})
    producer.send("Reset", *texts(20))
    consumer.received(20)
    wait_for_consumed(cluster, consumer, "Reset-readers", "Reset", 20)
    answer = cluster.ask("resetOffsetByTime -g Reset-readers -t Reset -s 0")
    assert re.findall(r"^broker-a +(\d+) +(\d+)", answer, re.M) == [("0", "0"), ("1", "0")], answer
    found = consumer.received(40, deliveries=True)
    assert Counter(bodies(found)) == Counter(texts(20) * 2)


def test_reset_by_time_while_nobody_reads(cluster: Cluster, clients: Clients) -> None:
    """Only what was stored after that time comes again."""
    cluster.create_topic("Back", 1)
    producer = clients.producer()
    producer.send("Back", *texts(10, "old"))
    consumer = clients.push("Back-readers", {"Back": "*"})
    old = consumer.received(10)
    between = max(message["stored"] for message in old) + 1
    wait_for_clock(producer, between)
    producer.send("Back", *texts(10, "new"))
    consumer.received(20)
    consumer.stop()
    cluster.ask(f"resetOffsetByTime -g Back-readers -t Back -s {between}")
    assert consumed(cluster, "Back-readers", "Back") == 10
    again = clients.push("Back-readers", {"Back": "*"})
    assert Counter(bodies(again.received(10))) == Counter(texts(10, "new"))


def wait_for_clock(producer: Client, past_ms: int) -> None:
    """Return when the broker stores messages with a later time."""

    def is_past() -> bool:
        (result,) = producer.send("Clock", "tick")
        return bool(producer.call("view", topic="Clock", message=result["offsetMsgId"])["stored"] > past_ms)

    wait_for(is_past, "the broker's clock has gone on")


def test_skip_what_has_gathered(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Skipped", 2)
    producer = clients.producer()
    producer.send("Skipped", *texts(20, "old"))
    consumer = clients.push("Skipped-readers", {"Skipped": "*"})
    consumer.received(20)
    consumer.stop()
    producer.send("Skipped", *texts(20, "skipped"))
    cluster.ask("skipAccumulatedMessage -g Skipped-readers -t Skipped")
    assert consumed(cluster, "Skipped-readers", "Skipped") == 40
    producer.send("Skipped", *texts(20, "new"))
    successor = clients.push("Skipped-readers", {"Skipped": "*"})
    assert Counter(bodies(successor.received(20))) == Counter(texts(20, "new"))


def test_offsets_by_time_and_limits(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Timed", 1)
    producer = clients.producer()
    empty = producer.call("offsets", queue=queue("Timed"), time=0)
    assert (empty["min"], empty["max"], empty["search"]) == (0, 0, 0)
    results = []
    for text in texts(5):
        results += producer.send("Timed", text)
        stored = producer.call("view", topic="Timed", message=results[-1]["offsetMsgId"])["stored"]
        wait_for_clock(producer, stored)
    times = [producer.call("view", topic="Timed", message=result["offsetMsgId"])["stored"] for result in results]
    for number, time in enumerate(times):
        found = producer.call("offsets", queue=queue("Timed"), time=time)
        assert (found["min"], found["max"], found["search"]) == (0, 5, number)
        assert found["earliest"] == times[0]
    assert producer.call("offsets", queue=queue("Timed"), time=times[-1] + 1_000_000)["search"] == 5
    assert producer.call("offsets", queue=queue("Timed"), time=times[0] - 1)["search"] == 0


def test_a_deleted_group_begins_anew(cluster: Cluster, clients: Clients) -> None:
    cluster.create_topic("Anew", 1)
    clients.producer().send("Anew", *texts(5))
    consumer = clients.push("Anew-readers", {"Anew": "*"})
    consumer.received(5)
    consumer.stop()
    assert "success" in cluster.ask(f"deleteSubGroup -c {CLUSTER} -g Anew-readers -r true")
    successor = clients.push("Anew-readers", {"Anew": "*"})
    assert Counter(bodies(successor.received(5))) == Counter(texts(5))
