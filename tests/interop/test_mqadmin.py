"""Apache's `mqadmin` gets the same answers from our name server as from Apache's."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.mqadmin_script import BROKER, CLUSTER, MASKS, NOT_ASKED, SCRIPT, UNORDERED, Mask
from tests.interop.mqadmin_worlds import answer, comparable, forget_saved_bodies, pattern_of
from tests.peers import apache, ours
from tests.peers.netns import NetNamespace
from tests.peers.process import Process, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

NameServer = ours.NameServer | apache.NameServer


@dataclass
class World:
    """One name server, one Apache broker, one mqadmin, in a namespace of their own: like worlds have like addresses."""

    folder: Path
    name_server: NameServer
    broker: apache.Broker
    mqadmin: apache.AdminShell
    names: dict[str, str]

    def has_broker(self) -> bool:
        return BROKER in self.mqadmin.run("clusterList", "-n", self.names["namesrv"])


@dataclass(frozen=True)
class Answers:
    ours: str
    apache: str


@pytest.fixture(scope="module")
def worlds(
    make_netns: Callable[[], NetNamespace], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[World, World]]:
    with contextlib.ExitStack() as processes:

        def launch(process: Process) -> None:
            processes.callback(process.kill)
            process.launch()

        def make(folder: Path, name_server_of: Callable[[Path, NetNamespace, int], NameServer]) -> World:
            netns = make_netns()
            name_server = name_server_of(folder / "namesrv", netns, netns.free_port())
            broker = apache.Broker(
                apache.V5,
                name_server.address,
                work_dir=folder / "broker",
                name=BROKER,
                cluster=CLUSTER,
                netns=netns,
                jvm_args=apache.QUICK_START,
            )
            mqadmin = apache.AdminShell(apache.V5, work_dir=folder / "mqadmin", netns=netns)
            names = {
                "namesrv": name_server.address,
                "broker": broker.address,
                "folder": str(folder),
                "topics_file": str(folder / "topics.json"),
                "groups_file": str(folder / "groups.json"),
            }
            return World(folder, name_server, broker, mqadmin, names)

        both = (
            make(
                tmp_path_factory.mktemp("ours"),
                lambda folder, netns, port: ours.NameServer(work_dir=folder, port=port, netns=netns),
            ),
            make(
                tmp_path_factory.mktemp("apache"),
                lambda folder, netns, port: apache.NameServer(
                    apache.V5, work_dir=folder, port=port, netns=netns, jvm_args=apache.QUICK_START
                ),
            ),
        )
        for world in both:
            topics = [{"topicName": name, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6} for name in ("A", "B")]
            (world.folder / "topics.json").write_text(json.dumps(topics))
            (world.folder / "groups.json").write_text(json.dumps([{"groupName": "Group2"}, {"groupName": "Group3"}]))
            launch(world.name_server)
            launch(world.mqadmin)
        for world in both:
            world.name_server.wait_until_ready()
            launch(world.broker)
        for world in both:
            world.broker.wait_until_ready()
            world.mqadmin.wait_until_ready()
            # On a busy machine a broker's first registration may time out; it tries again.
            wait_for(world.has_broker, f"the broker is registered in {world.folder.name}", timeout_s=90)
        yield both


@pytest.fixture(scope="module")
def answers(worlds: tuple[World, World]) -> Iterator[list[Answers]]:
    """The whole session, held with both at the same pace; one entry for each step."""
    with ThreadPoolExecutor(len(worlds)) as threads:
        yield [Answers(*threads.map(lambda world, step=step: answer(world, step), worlds)) for step in SCRIPT]
    forget_saved_bodies(worlds, "unique_id")


@pytest.mark.parametrize("number", range(len(SCRIPT)), ids=[f"{i}-{step.command}" for i, step in enumerate(SCRIPT)])
def test_same_answer(number: int, answers: list[Answers], worlds: tuple[World, World]) -> None:
    command = SCRIPT[number].command.split()[0]
    texts = (answers[number].ours, answers[number].apache)
    mine, theirs = (
        comparable(text, command, world, MASKS, UNORDERED) for text, world in zip(texts, worlds, strict=True)
    )
    assert mine == theirs


def test_every_mask_is_needed(answers: list[Answers], worlds: tuple[World, World]) -> None:
    def matches(mask: Mask) -> bool:
        pattern = pattern_of(mask, worlds[0])
        return any(
            re.search(pattern, answered.ours, re.M)
            for step, answered in zip(SCRIPT, answers, strict=True)
            if mask.commands in ("*", step.command.split()[0])
        )

    assert [mask for mask in MASKS if not matches(mask)] == []


def test_every_command_is_asked(worlds: tuple[World, World]) -> None:
    commands = set(re.findall(r"^   (\w+)  ", worlds[0].mqadmin.run(), re.M))
    asked = {step.command.split()[0] for step in SCRIPT}
    assert len(commands) > 80
    assert commands == asked | set(NOT_ASKED)
    assert not asked & set(NOT_ASKED)
