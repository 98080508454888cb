"""Two worlds that are asked the same, and how their answers are compared."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from tests.interop.mqadmin_script import Mask, Step
from tests.peers import apache

UNTIL_TIMEOUT_S = 150.0  # Apache's broker forgets a client whose goodbye was lost after two minutes
MQADMIN_BODY_FOLDER = Path("/tmp/rocketmq/msgbodys")
"""Where mqadmin saves the bodies it prints; nothing it is given changes that."""


class World(Protocol):
    """A folder, an mqadmin, and the names that commands may use (`namesrv` among them)."""

    @property
    def folder(self) -> Path: ...
    @property
    def mqadmin(self) -> apache.AdminShell: ...
    @property
    def names(self) -> dict[str, str]: ...


def answer(world: World, step: Step) -> str:
    command = shlex.split(step.command.format_map(world.names))
    deadline = time.monotonic() + UNTIL_TIMEOUT_S
    while True:
        text = world.mqadmin.run(*command, "-n", world.names["namesrv"])
        if step.until is None or re.search(step.until, text, re.M):
            break
        if time.monotonic() > deadline:
            # Only this step has failed: keep what came, with a line that cannot be equal in both worlds.
            return f"{text}\nno {step.until!r} in this answer within {UNTIL_TIMEOUT_S:g} s ({world.folder.name})"
    for name, pattern in step.captures.items():
        found = re.search(pattern, text)
        world.names[name] = found[1] if found else "nothing-captured"
    if step.reads:
        text += "\n" + (world.folder / step.reads).read_text()
    return text


def comparable(text: str, command: str, world: World, masks: Iterable[Mask], unordered: Mapping[str, str]) -> list[str]:
    for mask in masks:
        if mask.commands in ("*", command):
            text = re.sub(pattern_of(mask, world), partial(_hide, shown=mask.shown), text, flags=re.M)
    return sorted(text.splitlines()) if command in unordered else text.splitlines()


def pattern_of(mask: Mask, world: World) -> str:
    """With `{world}` and the names of the world filled in."""
    pattern = mask.pattern
    for name, value in {**world.names, "world": str(world.folder)}.items():
        pattern = pattern.replace(f"{{{name}}}", re.escape(value))
    return pattern


def _hide(match: re.Match[str], shown: str) -> str:
    text, start = match[0], match.start()
    spans = [match.span(group) for group in range(1, match.re.groups + 1)] or [match.span()]
    for begin, end in reversed(spans):
        text = text[: begin - start] + shown + text[end - start :]
    return text


def forget_saved_bodies(worlds: Iterable[World], *names: str) -> None:
    """Remove what mqadmin has saved of the messages whose ids were captured under these names."""
    for world in worlds:
        for name in names:
            (MQADMIN_BODY_FOLDER / world.names[name]).unlink(missing_ok=True)
