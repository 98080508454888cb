"""The real Go client sends to, reads from and asks our broker.

With APOGEE_SERVERS=apache the servers are Apache's: what a test expects is then checked itself.
"""

from __future__ import annotations

import itertools
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.peers import apache, ours
from tests.peers.golang import GoClient, GoError, GoUnavailable, resolve
from tests.peers.netns import NetNamespace
from tests.peers.process import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

Message = dict[str, Any]

COMPRESSED = 1
SERVERS_ARE_APACHES = os.environ.get("APOGEE_SERVERS") == "apache"


@dataclass
class Cluster:
    """A name server, a broker, and the Go client between them; every test has topics and groups of its own."""

    broker: ours.Broker | apache.Broker
    go: GoClient
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def topic(self, queues: int = 4) -> str:
        """A new topic that the name server knows already."""
        name = f"go-topic-{next(self.numbers)}"
        self.go.ask("create_topic", topic=name, broker=self.broker.address, queues=queues)
        self.wait_for_route(name)
        return name

    def wait_for_route(self, topic: str) -> None:
        wait_for(lambda: topic in self.go.ask("topics"), f"the name server knows {topic}")

    def group(self) -> str:
        return f"go-group-{next(self.numbers)}"

    def producer(self, **arguments: Any) -> str:
        return self._start("producer", group=self.group(), **arguments)

    def push(self, topic: str, group: str, **arguments: Any) -> str:
        return self._start("push", topic=topic, group=group, **arguments)

    def pull(self, topic: str, group: str, **arguments: Any) -> str:
        return self._start("pull", topic=topic, group=group, **arguments)

    def _start(self, kind: str, **arguments: Any) -> str:
        client = f"{kind}-{next(self.numbers)}"
        self.go.ask(kind, client, **arguments)
        return client

    def send(self, producer: str, topic: str, *messages: Message, **arguments: Any) -> Any:
        return self.go.ask("send", producer, topic=topic, messages=messages, **arguments)

    def wait_for_messages(self, count: int, *consumers: str) -> list[Message]:
        """Once so many have come; more would show here, or in a later look."""
        wait_for(lambda: len(self.go.received(*consumers)) >= count, f"{count} messages at {consumers}")
        messages = self.go.received(*consumers)
        assert len(messages) == count
        return messages


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        resolve()
    except GoUnavailable as unavailable:
        pytest.skip(str(unavailable))
    folder = tmp_path_factory.mktemp("go")
    if not SERVERS_ARE_APACHES:
        with (
            ours.NameServer(work_dir=folder / "namesrv") as name_server,
            ours.Broker(name_server.address, work_dir=folder / "broker") as broker,
            GoClient(name_server.address, work_dir=folder / "go") as go,
        ):
            yield Cluster(broker, go)
    else:
        make_netns: Callable[[], NetNamespace] = request.getfixturevalue("make_netns")
        netns = make_netns()
        with (
            apache.NameServer(apache.V5, work_dir=folder / "namesrv", netns=netns) as theirs,
            apache.Broker(apache.V5, theirs.address, work_dir=folder / "broker", netns=netns) as their_broker,
            GoClient(theirs.address, work_dir=folder / "go", netns=netns) as go,
        ):
            yield Cluster(their_broker, go)


def numbered(count: int, **fields: Any) -> list[Message]:
    return [{"body": f"message {number}", **fields} for number in range(count)]


def bodies(messages: list[Message]) -> list[str]:
    return [message["body"] for message in messages]


def by_offset(messages: list[Message]) -> list[Message]:
    """As they lie in a topic of one queue; a listener that is not orderly is called from several threads."""
    return sorted(messages, key=lambda message: int(message["offset"]))


def settle(cluster: Cluster, producer: str, topic: str, *consumers: str) -> None:
    """Until each has queues of its own: a message may come twice while a queue changes hands."""

    def share() -> set[str]:
        before = len(cluster.go.received(*consumers))
        cluster.send(producer, topic, *[{"body": "settling"}] * 4)
        wait_for(lambda: len(cluster.go.received(*consumers)) >= before + 4, "the settling messages")
        return {message["consumer"] for message in cluster.go.received(*consumers)[before:]}

    wait_for(lambda: share() == set(consumers), "every consumer is given messages")


def of_test(cluster: Cluster, *consumers: str) -> list[Message]:
    return [message for message in cluster.go.received(*consumers) if message["body"] != "settling"]


def test_a_message_arrives_whole_on_a_topic_that_the_send_created(cluster: Cluster) -> None:
    topic, producer = "go-自动创建", cluster.producer()
    with pytest.raises(GoError):
        cluster.send(producer, topic, {"body": "not a legal name"})
    topic = "go-created-by-send"
    message = {
        "body": "Grüße, 世界 🚀",
        "tag": "标签",
        "keys": ["order-1", "order-2"],
        "properties": {"colour": "grün", "空": "x y"},
    }
    (sent,) = cluster.send(producer, topic, message)
    assert sent["status"] == "SEND_OK"
    cluster.wait_for_route(topic)
    (got,) = cluster.wait_for_messages(1, cluster.push(topic, cluster.group()))
    assert got["body"] == message["body"]
    assert got["tag"] == "标签"
    assert got["properties"]["KEYS"] == "order-1 order-2"
    assert got["properties"]["colour"] == "grün" and got["properties"]["空"] == "x y"
    assert (got["message_id"], got["offset_id"]) == (sent["message_id"], sent["offset_id"])
    assert (got["queue"], got["offset"]) == (sent["queue"], sent["offset"])
    assert got["store_host"] == cluster.broker.address
    assert len(cluster.go.ask("write_queues", topic=topic)) == 4


@pytest.mark.parametrize("how", ["sync", "async", "oneway"])
def test_two_consumers_of_a_group_share_the_messages(cluster: Cluster, how: str) -> None:
    topic, group, producer = cluster.topic(), cluster.group(), cluster.producer()
    consumers = [cluster.push(topic, group) for _ in range(2)]
    settle(cluster, producer, topic, *consumers)
    results = cluster.send(producer, topic, *numbered(100), how=how)
    if how != "oneway":
        assert {result["status"] for result in results} == {"SEND_OK"}
        assert sorted(Counter(result["queue"] for result in results).values()) == [25] * 4
    wait_for(lambda: len(of_test(cluster, *consumers)) >= 100, "100 messages")
    assert sorted(bodies(of_test(cluster, *consumers))) == sorted(bodies(numbered(100)))


def test_a_batch_is_stored_as_its_messages(cluster: Cluster) -> None:
    topic = cluster.topic(queues=1)
    batch = [{"body": f"in batch {number} ü", "tag": "t", "keys": [f"k{number}"]} for number in range(10)]
    (sent,) = cluster.send(cluster.producer(), topic, *batch, batch=True)
    assert (sent["status"], sent["offset"]) == ("SEND_OK", 0)
    assert len(sent["offset_id"].split(",")) == 10
    got = by_offset(cluster.wait_for_messages(10, cluster.push(topic, cluster.group())))
    assert bodies(got) == bodies(batch)
    assert [message["offset"] for message in got] == list(range(10))
    assert [message["offset_id"] for message in got] == sent["offset_id"].split(",")
    assert [message["properties"]["KEYS"] for message in got] == [f"k{number}" for number in range(10)]


def test_a_compressed_body_stays_compressed_in_the_store(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.send(cluster.producer(), topic, {"body": "compress me ü ", "repeat": 20_000})
    (got,) = cluster.wait_for_messages(1, cluster.push(topic, cluster.group()))
    body = "compress me ü ".encode() * 20_000
    assert (got["size"], got["crc"]) == (len(body), zlib.crc32(body))
    assert got["system_flag"] & COMPRESSED


def test_a_body_beyond_the_limit_is_refused(cluster: Cluster) -> None:
    topic, producer = cluster.topic(queues=1), cluster.producer()
    # Compressed on the way: what counts is what reaches the broker, so this one is small enough.
    cluster.send(producer, topic, {"body": "x", "repeat": 5 << 20})
    with pytest.raises(GoError, match=r"(?i)size|large|exceed|illegal|13"):
        cluster.send(producer, topic, *numbered(5, repeat=100_000), batch=True)
    cluster.send(producer, topic, {"body": "after"})
    got = by_offset(cluster.wait_for_messages(2, cluster.push(topic, cluster.group())))
    assert [message["size"] for message in got] == [5 << 20, 5]


def test_a_delayed_message_comes_after_its_delay(cluster: Cluster) -> None:
    topic, producer = cluster.topic(queues=1), cluster.producer()
    consumer = cluster.push(topic, cluster.group())
    cluster.send(producer, topic, {"body": "later", "delay_level": 1}, {"body": "now"})
    now, later = by_offset(cluster.wait_for_messages(2, consumer))
    assert (now["body"], later["body"]) == ("now", "later")
    assert later["stored_ms"] - later["born_ms"] >= 1_000
    assert later["topic"] == topic and later["properties"]["REAL_TOPIC"] == topic


def test_tags_are_filtered_by_the_broker(cluster: Cluster) -> None:
    topic, producer = cluster.topic(queues=1), cluster.producer()
    messages = [{"body": f"{tag}{number}", "tag": tag} for number in range(5) for tag in ("a", "b", "c", "d")]
    cluster.send(producer, topic, *messages)
    consumer = cluster.push(topic, cluster.group(), expression="a || d")
    got = by_offset(cluster.wait_for_messages(10, consumer))
    assert bodies(got) == [message["body"] for message in messages if message["tag"] in ("a", "d")]
    pull = cluster.pull(topic, cluster.group(), expression="no-such-tag")
    queue: Any = {"topic": topic, "broker": cluster.broker.broker_name, "queue": 0}
    answer = cluster.go.ask("pull_from", pull, **queue, offset=0, count=32)
    assert (answer["status"], answer["next"]) == ("NO_MATCHED_MSG", 20)


def test_an_orderly_consumer_sees_every_key_in_order(cluster: Cluster) -> None:
    topic, producer = cluster.topic(), cluster.producer(selector="hash")
    messages = [
        {"body": f"{key} {number}", "sharding_key": key}
        for number in range(10)
        for key in ("ann", "bob", "cleo", "dan", "eve")
    ]
    cluster.send(producer, topic, *messages)
    consumer = cluster.push(topic, cluster.group(), orderly=True)
    got = cluster.wait_for_messages(50, consumer)
    for key in ("ann", "bob", "cleo", "dan", "eve"):
        of_key = [message for message in got if message["body"].startswith(key)]
        assert bodies(of_key) == [f"{key} {number}" for number in range(10)]
        assert len({message["queue"] for message in of_key}) == 1


def test_a_broadcast_reaches_every_consumer(cluster: Cluster) -> None:
    topic, group, producer = cluster.topic(), cluster.group(), cluster.producer()
    consumers = [cluster.push(topic, group, broadcast=True) for _ in range(2)]
    cluster.send(producer, topic, *numbered(20))
    for consumer in consumers:
        got = cluster.wait_for_messages(20, consumer)
        assert sorted(bodies(got)) == sorted(bodies(numbered(20)))


def test_a_refused_message_comes_again_and_ends_as_a_dead_letter(cluster: Cluster) -> None:
    topic, group, producer = cluster.topic(queues=1), cluster.group(), cluster.producer()
    # The client learns of the group's retry topic only when it starts: let the group be known before.
    cluster.go.ask("shutdown", cluster.push(topic, group))
    cluster.wait_for_route(f"%RETRY%{group}")
    consumer = cluster.push(topic, group, fail_times=9, retry_level=1, max_attempts=1)
    cluster.send(producer, topic, {"body": "refused", "tag": "t", "keys": ["k"]})
    first, again = cluster.wait_for_messages(2, consumer)
    assert [first["reconsume_times"], again["reconsume_times"]] == [0, 1]
    assert again["body"] == "refused" and again["tag"] == "t"
    assert again["properties"]["RETRY_TOPIC"] == topic
    assert again["properties"]["ORIGIN_MESSAGE_ID"] == first["offset_id"]
    cluster.wait_for_route(f"%DLQ%{group}")
    dead = cluster.pull(f"%DLQ%{group}", cluster.group())
    queue: Any = {"topic": f"%DLQ%{group}", "broker": cluster.broker.broker_name, "queue": 0}
    answer = wait_for(
        lambda: (found := cluster.go.ask("pull_from", dead, **queue, offset=0, count=32))["messages"] and found,
        "the message is a dead letter",
    )
    (letter,) = answer["messages"]
    assert letter["body"] == "refused" and letter["properties"]["KEYS"] == "k"


def test_pulls_by_offset_and_kept_offsets(cluster: Cluster) -> None:
    topic, group, producer = cluster.topic(queues=2), cluster.group(), cluster.producer(selector="manual")
    broker = cluster.broker.broker_name
    cluster.send(producer, topic, *numbered(40, broker=broker, queue=1))
    queue: Any = {"topic": topic, "broker": broker, "queue": 1}
    pull = cluster.pull(topic, group)
    answer = cluster.go.ask("pull_from", pull, **queue, offset=10, count=16)
    assert (answer["status"], answer["next"], answer["min"], answer["max"]) == ("FOUND", 26, 0, 40)
    assert bodies(answer["messages"]) == [f"message {number}" for number in range(10, 26)]
    beyond = cluster.go.ask("pull_from", pull, **queue, offset=1_000, count=16)
    assert (beyond["status"], beyond["next"]) == ("OFFSET_ILLEGAL", 40)

    polled: list[Message] = []
    while len(polled) < 40:
        polled += cluster.go.ask("poll", pull, timeout_ms=10_000)
    assert bodies(polled) == bodies(numbered(40))
    cluster.go.ask("commit", pull, **queue, offset=17)
    other = cluster.pull(topic, group)
    assert cluster.go.ask("offset", other, **queue) == 17
    assert cluster.go.ask("offset", cluster.pull(topic, cluster.group()), **queue) == 0


def test_a_group_goes_on_where_it_stopped(cluster: Cluster) -> None:
    topic, group, producer = cluster.topic(), cluster.group(), cluster.producer()
    first = cluster.push(topic, group)
    cluster.send(producer, topic, *numbered(20))
    cluster.wait_for_messages(20, first)
    cluster.go.ask("shutdown", first)
    cluster.send(producer, topic, {"body": "while nobody was there"})
    assert bodies(cluster.wait_for_messages(1, cluster.push(topic, group))) == ["while nobody was there"]


@pytest.mark.parametrize("begin", ["last", "20990101000000"])
def test_a_new_group_reads_a_young_topic_from_its_first_message(cluster: Cluster, begin: str) -> None:
    """Whatever it asked for: nothing of the topic has expired yet, so the broker says offset 0 instead of "none"."""
    topic = cluster.topic(queues=1)
    cluster.send(cluster.producer(), topic, *numbered(5))
    cluster.wait_for_messages(5, cluster.push(topic, cluster.group(), begin=begin))


def test_queues_move_when_consumers_join_and_leave(cluster: Cluster) -> None:
    topic, group, producer = cluster.topic(), cluster.group(), cluster.producer()
    first = cluster.push(topic, group)
    settle(cluster, producer, topic, first)
    second = cluster.push(topic, group)
    settle(cluster, producer, topic, first, second)
    cluster.go.ask("shutdown", first)
    before = len(cluster.go.received(first))
    cluster.send(producer, topic, *numbered(40))
    wait_for(lambda: {*bodies(cluster.go.received(second))} >= {*bodies(numbered(40))}, "the one that stayed has all")
    assert len(cluster.go.received(first)) == before


def test_a_namespace_keeps_topics_and_groups_apart(cluster: Cluster) -> None:
    group, producer = cluster.group(), cluster.producer(namespace="space")
    cluster.send(producer, "go-inner", {"body": "inside"})
    cluster.wait_for_route("space%go-inner")
    (got,) = cluster.wait_for_messages(1, cluster.push("go-inner", group, namespace="space"))
    assert got["body"] == "inside"
    assert f"space%{group}" in cluster.go.ask("groups", broker=cluster.broker.address)


def test_a_deleted_topic_is_gone(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.go.ask("delete_topic", topic=topic, broker=cluster.broker.address)
    wait_for(lambda: topic not in cluster.go.ask("topics"), "the topic is gone from the name server")
