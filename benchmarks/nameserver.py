"""`python -m benchmarks.nameserver`: our name server and Apache's, alternately, under the same load."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from benchmarks import lifecycle, report, under_load
from benchmarks.contenders import Contenders
from benchmarks.made_up import Cluster
from benchmarks.process import OtherWork
from benchmarks.rows import Row
from benchmarks.settings import FULL, QUICK, Settings

Case = Callable[[Contenders, Settings, Callable[[str], None]], Iterator[Row]]


def _case(run: Callable[..., Iterator[Row]], **fixed: Cluster) -> Case:
    return partial(run, **fixed)


CASES: dict[str, Case] = {
    "routes-1x10": _case(under_load.route_queries, cluster=Cluster(1, 10)),
    "routes-8x200": _case(under_load.route_queries, cluster=Cluster(8, 200)),
    "latency": _case(under_load.latency, cluster=Cluster(8, 200)),
    "registration": _case(under_load.registrations),
    "start": _case(lifecycle.start),
    "memory": _case(lifecycle.memory_use),
    "restart": _case(lifecycle.restart),
}
_DOCS = Path(__file__).parent.parent / "docs" / "benchmarks.md"
_JSON = Path(__file__).parent.parent / "build" / "benchmarks" / "nameserver.json"


def main(
    quick: Annotated[bool, typer.Option(help="Short rounds and few: minutes, and rougher figures.")] = False,
    only: Annotated[list[str] | None, typer.Option(help=f"A case; may be repeated: {', '.join(CASES)}.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds per case [default: 9; with --quick 3].")] = None,
    json: Annotated[Path, typer.Option(help="Where the figures of every round go.")] = _JSON,
    write_docs: Annotated[bool, typer.Option(help="Write docs/benchmarks.md anew.")] = False,
    control: Annotated[bool, typer.Option(help="Apache on both sides: every ratio should be 1.")] = False,
) -> None:
    """Our name server beside Apache's: throughput, operations per CPU-second, latency, start, memory, recovery."""
    unknown = set(only or ()) - CASES.keys()
    if unknown:
        raise typer.BadParameter(f"no such case: {', '.join(sorted(unknown))}; known: {', '.join(CASES)}")
    if write_docs and control:
        raise typer.BadParameter("--write-docs with --control would publish Apache's figures as ours")
    settings = QUICK if quick else FULL
    if rounds is not None:
        settings = settings._replace(rounds=rounds)
    console = Console(width=None if sys.stdout.isatty() else 160)
    other_work = OtherWork()
    found = _run(console, list(only or CASES), settings, control)
    report.show(console, found)
    where = report.machine(other_work.cores())
    console.print(where, highlight=False)
    command = _command(quick, only or [], rounds, write_docs)
    report.write_json(json, found, command, where)
    console.print(f"every round: {json}")
    if write_docs:
        report.write_docs(_DOCS, found, command, where)
        console.print(f"written: {_DOCS}")


def _command(quick: bool, only: list[str], rounds: int | None, write_docs: bool) -> str:
    """How to get these figures again."""
    arguments = ["--quick"] * quick + [f"--only={case}" for case in only] + ["--write-docs"] * write_docs
    arguments += [] if rounds is None else [f"--rounds={rounds}"]
    return " ".join([".venv/bin/python -m benchmarks.nameserver", *arguments])


def _run(console: Console, names: list[str], settings: Settings, control: bool) -> list[Row]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    found: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="apogee-bench-") as folder,
        Progress(*columns, console=console, transient=True) as progress,
    ):
        contenders = Contenders(Path(folder), control=control)
        task = progress.add_task("starting", total=len(names))
        for name in names:
            for row in CASES[name](contenders, settings, partial(_say, progress, task)):
                found.append(row)
                progress.console.print(report.line(row), highlight=False)
            progress.advance(task)
    return found


def _say(progress: Progress, task: TaskID, text: str) -> None:
    progress.update(task, description=text)


if __name__ == "__main__":
    typer.run(main)
