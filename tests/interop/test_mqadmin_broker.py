"""Apache's `mqadmin` gets the same answers from our broker as from Apache's."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.java_cluster import Clients, Cluster, Servers, Tools, queue
from tests.interop.mqadmin_broker_script import BROKER, MASKS, SCRIPT, SOMETIMES, UNORDERED, Act
from tests.interop.mqadmin_script import Mask, Step
from tests.interop.mqadmin_worlds import answer, comparable, forget_saved_bodies, pattern_of
from tests.peers import apache
from tests.peers.process import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

STEPS = tuple(step for step in SCRIPT if isinstance(step, Step))


class World:
    """A name server and a broker of one kind, with the clients that work there."""

    def __init__(self, kind: str, folder: Path, tools: Tools) -> None:
        self.kind = kind
        self.folder = folder
        self.servers = Servers(folder, tools.netns, {}, are_apaches=kind == "apache")
        self.cluster = Cluster(tools, self.servers.name_server, self.servers.broker)
        self.clients = Clients(self.cluster, suffix=f"-{kind}")
        self.names = {
            "namesrv": self.servers.name_server.address,
            "broker": self.servers.broker.address,
            "kind": kind,
            "topics_file": str(folder / "topics.json"),
            "groups_file": str(folder / "groups.json"),
        }

    @property
    def mqadmin(self) -> apache.AdminShell:
        return self.cluster.tools.mqadmin

    # What the clients do, between the commands.

    def send(self) -> None:
        self.producer = self.clients.producer("Writers")
        forms = [{"body": f"message {n}", "tags": "the-tag", "keys": f"k{n}"} for n in range(3)]
        self.producer.send("Orders", *forms, how="queue", queue=queue("Orders", 1))

    def consume(self) -> None:
        self.consumer = self.clients.push("Readers", {"Orders": "*"}, refuse="nothing, but be ready for it")
        self.names["client"] = f"127.0.0.1@{self.consumer.name}"
        self._persist(4)

    def consume_again(self) -> None:
        self._persist(8)

    def _persist(self, count: int) -> None:
        """When this many have been delivered, tell the broker so."""
        self.consumer.received(count, deliveries=True)

        def is_known() -> bool:
            self.consumer.call("persist")
            progress = self.cluster.ask("consumerProgress -g Readers")
            return re.search(r"^Orders +broker-a +1 +3 +3 +0", progress, re.M) is not None

        wait_for(is_known, "the broker knows how far the group has come")

    def stop_consuming(self) -> None:
        self.consumer.stop()


@dataclass(frozen=True)
class Answers:
    ours: str
    apache: str


@pytest.fixture(scope="module")
def worlds(enclosed_tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, World]]:
    both = tuple(World(kind, tmp_path_factory.mktemp(kind), enclosed_tools) for kind in ("apogee", "apache"))
    with contextlib.ExitStack() as stack:
        for world in both:
            topics = [{"topicName": name, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6} for name in ("A", "B")]
            (world.folder / "topics.json").write_text(json.dumps(topics))
            (world.folder / "groups.json").write_text(json.dumps([{"groupName": "Group2"}, {"groupName": "Group3"}]))
            stack.enter_context(world.servers)
            stack.callback(world.clients.stop_all)
        for world in both:
            world.cluster.wait_for_route(BROKER)
        yield both[0], both[1]


@pytest.fixture(scope="module")
def answers(worlds: tuple[World, World]) -> Iterator[list[Answers]]:
    """The whole session, held with both; one entry for each command."""
    found = []
    for step in SCRIPT:
        if isinstance(step, Act):
            for world in worlds:
                getattr(world, step.name)()
        else:
            found.append(Answers(*(answer(world, step) for world in worlds)))
    yield found
    forget_saved_bodies(worlds, "unique_id")


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[f"{i}-{step.command}" for i, step in enumerate(STEPS)])
def test_same_answer(number: int, answers: list[Answers], worlds: tuple[World, World]) -> None:
    command = STEPS[number].command.split()[0]
    texts = (answers[number].ours, answers[number].apache)
    mine, theirs = (
        comparable(text, command, world, MASKS + SOMETIMES, UNORDERED)
        for text, world in zip(texts, worlds, strict=True)
    )
    assert mine == theirs


def test_every_mask_is_needed(answers: list[Answers], worlds: tuple[World, World]) -> None:
    def matches(mask: Mask) -> bool:
        return any(
            re.search(pattern_of(mask, world), text, re.M)
            for step, answered in zip(STEPS, answers, strict=True)
            if mask.commands in ("*", step.command.split()[0])
            for world, text in zip(worlds, (answered.ours, answered.apache), strict=True)
        )

    assert [mask for mask in MASKS if not matches(mask)] == []
