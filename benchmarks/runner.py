"""Run chosen cases one after the other, show what they found, and keep it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from benchmarks import report
from benchmarks.process import OtherWork
from benchmarks.rows import Row
from benchmarks.settings import Settings
from benchmarks.wakefulness import awake

Say = Callable[[str], None]
_C = TypeVar("_C")
Case = Callable[[_C, Settings, Say], Iterator[Row]]


class Wish(NamedTuple):
    """What the command line asked for, as far as it is the same for every server."""

    module: str
    quick: bool
    only: list[str]
    rounds: int | None
    json: Path
    write_docs: bool
    control: bool

    @property
    def command(self) -> str:
        """How to get these figures again."""
        arguments = ["--quick"] * self.quick + [f"--only={case}" for case in self.only]
        arguments += ["--write-docs"] * self.write_docs
        arguments += [] if self.rounds is None else [f"--rounds={self.rounds}"]
        return " ".join([f".venv/bin/python -m {self.module}", *arguments])

    def settings(self, full: Settings, quick: Settings) -> Settings:
        chosen = quick if self.quick else full
        return chosen if self.rounds is None else chosen._replace(rounds=self.rounds)


def run(
    wish: Wish,
    cases: Mapping[str, Case[_C]],
    contenders: AbstractContextManager[_C],
    settings: Settings,
    page: report.Page,
    *,
    unwaited_s: Callable[[_C], float] = lambda _: 0.0,
) -> None:
    """Every chosen case, then the table, the JSON file and, if wished, the page for docs/. `unwaited_s` tells the CPU
    time of the contenders' processes that nobody waits for: it is no other work."""
    unknown = set(wish.only) - cases.keys()
    if unknown:
        raise typer.BadParameter(f"no such case: {', '.join(sorted(unknown))}; known: {', '.join(cases)}")
    if wish.write_docs and wish.control:
        raise typer.BadParameter("--write-docs with --control would publish Apache's figures as ours")
    console = Console(width=None if sys.stdout.isatty() else 160)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C: servers end, and cores are as they were
    # Servers run in folders of their own and must find the same package.
    if python_path := os.environ.get("PYTHONPATH"):
        os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, python_path.split(os.pathsep)))
    other_work = OtherWork()
    chosen = {name: cases[name] for name in wish.only or cases}
    with awake() as is_awake, contenders as both:
        found = _run(console, chosen, both, settings)
    report.show(console, found, page)
    where = report.machine(other_work.cores(unwaited_s(both)), is_awake=is_awake)
    console.print(where, highlight=False)
    report.write_json(wish.json, found, wish.command, where)
    console.print(f"every round: {wish.json}")
    if wish.write_docs:
        report.write_docs(page, found, wish.command, where)
        console.print(f"written: {page.path}")


def _run(console: Console, cases: Mapping[str, Case[_C]], contenders: _C, settings: Settings) -> list[Row]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    found: list[Row] = []
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=len(cases))
        for case in cases.values():
            for row in case(contenders, settings, partial(_say, progress, task)):
                found.append(row)
                progress.console.print(report.line(row), highlight=False)
            progress.advance(task)
    return found


def _say(progress: Progress, task: TaskID, text: str) -> None:
    progress.update(task, description=text)
