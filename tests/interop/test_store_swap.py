"""One store folder, served by Apache's broker and by ours in turn: all that one has kept, the next one has.

Each broker takes over from the one before, after a clean stop and after `kill -9`, and serves what was sent to all
before it: messages, offsets, keys, topics, groups, how far consumers have come, and what is still delayed.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.interop.java_cluster import BROKER, Clients, Cluster, Tools, bodies
from tests.peers import apache, ours
from tests.peers.java_client import ClientShell
from tests.peers.netns import NetNamespace
from tests.peers.process import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

MESSAGES = 10_000 if os.environ.get("APOGEE_SOAK") else 1_000
"""Over the whole chain."""
TOPICS = [f"Swap-{number}" for number in range(20)]
READ_TOPICS = TOPICS[:3]
GROUP = "Swap-readers"
DELAYED_TOPIC = "Swap-delayed"
DELAY_LEVEL = 2

PROPERTIES = {
    "mappedFileSizeCommitLog": 256 << 10,  # so that there are several
    "flushConsumerOffsetInterval": 1_000,
    "messageDelayLevel": "1s 12s",  # longer than a broker needs to take over
}


@dataclass(frozen=True)
class Turn:
    """Who serves, and how its service ends."""

    is_apaches: bool
    is_killed: bool


CHAIN = (
    Turn(is_apaches=True, is_killed=False),
    Turn(is_apaches=False, is_killed=False),
    Turn(is_apaches=True, is_killed=True),
    Turn(is_apaches=False, is_killed=True),
    Turn(is_apaches=True, is_killed=True),
)


@dataclass(frozen=True, order=True)
class Kept:
    """What a message is, and where it is."""

    body: str
    queue_id: int
    offset: int
    keys: str
    unique_id: str


@dataclass
class Swap:
    version: str
    folder: Path
    netns: NetNamespace
    tools: Tools
    name_server: ours.NameServer
    port: int
    kept: dict[str, list[Kept]] = field(default_factory=lambda: defaultdict(list))
    offset_ids: dict[str, str] = field(default_factory=dict)
    delayed: list[str] = field(default_factory=list)
    described: str = ""

    def broker(self, turn: Turn) -> apache.Broker | ours.Broker:
        place, address = self.folder / "broker", self.name_server.address
        if turn.is_apaches:
            return apache.Broker(
                self.version,
                address,
                work_dir=place,
                listen_port=self.port,
                netns=self.netns,
                properties=PROPERTIES,
                jvm_args=apache.QUICK_START,
            )
        return ours.Broker(address, work_dir=place, listen_port=self.port, netns=self.netns, properties=PROPERTIES)

    @property
    def store(self) -> Path:
        return self.folder / "broker" / "store"

    def consumed(self) -> int:
        """How many messages the group has consumed."""
        return sum(len(self.kept[topic]) for topic in READ_TOPICS)

    def committed_on_disk(self) -> int:
        """The sum of the offsets of the group in the broker's file."""
        path = self.store / "config" / "consumerOffset.json"
        try:
            tables = json.loads(quoted_keys(path.read_text()))["offsetTable"]
        except (FileNotFoundError, ValueError):  # it is just being written
            return -1
        return sum(sum(tables.get(f"{topic}@{GROUP}", {}).values()) for topic in READ_TOPICS)


def quoted_keys(text: str) -> str:
    """Apache's JSON has numbers as keys."""
    return re.sub(r"([{,]\s*)(\d+)\s*:", r'\1"\2":', text)


def form_of(number: int) -> dict[str, object]:
    form: dict[str, object] = {
        "body": f"message {number}",
        "keys": f"k{number} all-{number % 10}",
        "tags": f"T{number % 3}",
    }
    if number % 10 == 0:
        form |= {"body": f"{number} ", "times": 2_000}  # long enough to be compressed
    if number % 10 == 1:
        form["properties"] = {"имя": "值 🚀"}
    return form


def body_of(number: int) -> str:
    """As the shell shows it."""
    if number % 10:
        return f"message {number}"
    body = f"{number} ".encode() * 2_000
    return f"{len(body)} bytes, sha1 {hashlib.sha1(body, usedforsecurity=False).hexdigest()}"


@pytest.fixture(scope="module")
def swap_tools(make_netns: Callable[[], NetNamespace], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    netns = make_netns()
    with contextlib.ExitStack() as stack:
        clients = ClientShell(apache.V5, work_dir=tmp_path_factory.mktemp("clients"), netns=netns)
        mqadmin = apache.AdminShell(apache.V5, work_dir=tmp_path_factory.mktemp("mqadmin"), netns=netns)
        for shell in (mqadmin, clients):
            stack.callback(shell.kill)
            shell.launch()
        for shell in (mqadmin, clients):
            shell.wait_until_ready()
        yield Tools(clients, mqadmin, netns)


@pytest.mark.parametrize("version", apache.VERSIONS)
def test_brokers_take_over_from_each_other(swap_tools: Tools, tmp_path: Path, version: str) -> None:
    netns = swap_tools.netns
    assert netns is not None
    port = netns.free_port()
    with ours.NameServer(work_dir=tmp_path / "namesrv", port=netns.free_port(), netns=netns) as name_server:
        swap = Swap(version, tmp_path, netns, swap_tools, name_server, port)
        for number, turn in enumerate(CHAIN):
            with swap.broker(turn) as broker:
                cluster = Cluster(swap_tools, name_server, broker)
                cluster.wait_for_route(BROKER)
                clients = Clients(cluster)
                serve(swap, cluster, clients, number)
                clients.stop_all()
                if turn.is_killed:
                    wait_for(lambda: swap.committed_on_disk() == swap.consumed(), "the offsets are on disk")
                    broker.kill()
                else:
                    broker.stop()
                    assert swap.committed_on_disk() == swap.consumed()
            assert (swap.store / "abort").exists() is turn.is_killed


def serve(swap: Swap, cluster: Cluster, clients: Clients, turn: int) -> None:
    """What was there before is there; then more is sent and consumed."""
    if turn == 0:
        cluster.create_topic(DELAYED_TOPIC, 1)
        cluster.create_topic("Swap-special", 3, "-p 4 -o true")
        cluster.create_group("Swap-special-group", "-q 3 -r 5 -d true")
    else:
        check_settings(swap, cluster)
    reader = clients.pull("Swap-inspectors")
    check_messages(swap, clients)
    if swap.delayed:
        wait_for(
            lambda: {row[0] for row in reader.call("drain", topic=DELAYED_TOPIC)} >= set(swap.delayed),
            "what was delayed under the broker before has been delivered",
        )
    send(swap, clients, turn)
    check_messages(swap, clients)
    check_consuming(swap, clients)
    check_settings(swap, cluster)


def send(swap: Swap, clients: Clients, turn: int) -> None:
    producer = clients.producer()  # its first sends make the topics
    share = MESSAGES // len(CHAIN)
    numbers = range(turn * share, (turn + 1) * share)
    for place, topic in enumerate(TOPICS):
        mine = numbers[place :: len(TOPICS)]
        for number, result in zip(mine, producer.send(topic, *map(form_of, mine)), strict=True):
            assert result["status"] == "SEND_OK"
            form = form_of(number)
            swap.kept[topic].append(
                Kept(body_of(number), result["queue"], result["offset"], str(form["keys"]), result["msgId"])
            )
            swap.offset_ids[result["msgId"]] = result["offsetMsgId"]
    producer.send(DELAYED_TOPIC, {"body": f"delayed {turn}", "delay": DELAY_LEVEL})
    swap.delayed.append(f"delayed {turn}")


def check_messages(swap: Swap, clients: Clients) -> None:
    """All that was ever sent, at its place; and some by key, unique key and id."""
    reader, producer = clients.pull("Swap-inspectors"), clients.producer()
    for topic, kept in swap.kept.items():
        wait_for(  # Apache's broker puts messages into their queues some time after it has answered
            lambda topic=topic, kept=kept: (  # type: ignore[misc]
                sorted(itertools.starmap(Kept, reader.call("drain", topic=topic))) == sorted(kept)
            ),
            f"every message of {topic} is where it was",
        )
    for topic in TOPICS[:: len(TOPICS) // 3]:
        for one in swap.kept[topic][:1] + swap.kept[topic][-1:]:
            key = one.keys.split()[0]
            by_key = producer.call("query", topic=topic, key=key, max=10, begin=0, end=2**62)
            by_unique_key = producer.call("view", topic=topic, message=one.unique_id)
            by_id = producer.call("view", topic=topic, message=swap.offset_ids[one.unique_id])
            assert {*bodies(by_key), by_unique_key["body"], by_id["body"]} == {one.body}
            assert (by_id["queue"], by_id["offset"]) == (one.queue_id, one.offset)


def check_settings(swap: Swap, cluster: Cluster) -> None:
    described = "".join(
        cluster.ask(command)
        for command in (
            "topicRoute -t Swap-special",
            f"topicRoute -t {TOPICS[-1]}",
            "getConsumerConfig -g Swap-special-group",
        )
    )
    assert "Swap-special-group" in described
    assert swap.described in ("", described)
    swap.described = described


def check_consuming(swap: Swap, clients: Clients) -> None:
    """The group goes on where it was: it is given what was sent in this turn, and nothing else."""
    share = MESSAGES // len(CHAIN) // len(TOPICS)
    new = Counter(one.body for topic in READ_TOPICS for one in swap.kept[topic][-share:])
    consumer = clients.push(GROUP, dict.fromkeys(READ_TOPICS, "*"))
    assert Counter(bodies(consumer.received(len(new)))) == new
    consumer.stop()
