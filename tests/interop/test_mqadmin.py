"""Apache's `mqadmin` gets the same answers from our name server as from Apache's."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.interop.mqadmin_script import BROKER, CLUSTER, MASKS, NOT_ASKED, SCRIPT, UNORDERED, Mask, Step
from tests.peers import apache, ours
from tests.peers.netns import NetNamespace
from tests.peers.process import Process, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

UNTIL_TIMEOUT_S = 30.0
MQADMIN_BODY_FOLDER = Path("/tmp/rocketmq/msgbodys")
"""Where mqadmin saves the bodies it prints; nothing it is given changes that."""


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

    def answer(self, step: Step) -> str:
        command = shlex.split(step.command.format_map(self.names))
        deadline = time.monotonic() + UNTIL_TIMEOUT_S
        while True:
            text = self.mqadmin.run(*command, "-n", self.names["namesrv"])
            if step.until is None or re.search(step.until, text, re.M):
                break
            if time.monotonic() > deadline:
                # Only this step has failed: keep what came, with a line that cannot be equal in both worlds.
                return f"{text}\nno {step.until!r} in this answer within {UNTIL_TIMEOUT_S:g} s ({self.folder.name})"
        for name, pattern in step.captures.items():
            found = re.search(pattern, text)
            self.names[name] = found[1] if found else "nothing-captured"
        if step.reads:
            text += "\n" + (self.folder / step.reads).read_text()
        return text


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
        yield [Answers(*threads.map(lambda world, step=step: world.answer(step), worlds)) for step in SCRIPT]
    for world in worlds:
        (MQADMIN_BODY_FOLDER / world.names["unique_id"]).unlink(missing_ok=True)


def comparable(text: str, command: str, world: World) -> list[str]:
    for mask in MASKS:
        if mask.commands in ("*", command):
            text = re.sub(pattern_of(mask, world), partial(hide, shown=mask.shown), text, flags=re.M)
    return sorted(text.splitlines()) if command in UNORDERED else text.splitlines()


def pattern_of(mask: Mask, world: World) -> str:
    return mask.pattern.replace("{world}", re.escape(str(world.folder)))


def hide(match: re.Match[str], shown: str) -> str:
    text, start = match[0], match.start()
    spans = [match.span(group) for group in range(1, match.re.groups + 1)] or [match.span()]
    for begin, end in reversed(spans):
        text = text[: begin - start] + shown + text[end - start :]
    return text


@pytest.mark.parametrize("number", range(len(SCRIPT)), ids=[f"{i}-{step.command}" for i, step in enumerate(SCRIPT)])
def test_same_answer(number: int, answers: list[Answers], worlds: tuple[World, World]) -> None:
    command = SCRIPT[number].command.split()[0]
    texts = (answers[number].ours, answers[number].apache)
    mine, theirs = (comparable(text, command, world) for text, world in zip(texts, worlds, strict=True))
    assert mine == theirs


def test_every_mask_is_needed(answers: list[Answers], worlds: tuple[World, World]) -> None:
    def matches(mask: Mask) -> bool:
        pattern = pattern_of(mask, worlds[0])
        return any(
            re.search(pattern, answer.ours, re.M)
            for step, answer in zip(SCRIPT, answers, strict=True)
            if mask.commands in ("*", step.command.split()[0])
        )

    assert [mask for mask in MASKS if not matches(mask)] == []


def test_every_command_is_asked(worlds: tuple[World, World]) -> None:
    commands = set(re.findall(r"^   (\w+)  ", worlds[0].mqadmin.run(), re.M))
    asked = {step.command.split()[0] for step in SCRIPT}
    assert len(commands) > 80
    assert commands == asked | set(NOT_ASKED)
    assert not asked & set(NOT_ASKED)
