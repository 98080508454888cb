"""The rows for people: a table on the terminal, a JSON file, docs/benchmarks.md."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.contenders import HEAP
from benchmarks.rows import Row
from tests.peers import apache

_HEADINGS = ("case", "metric", "ours", "Apache", "ratio", "rounds' ratios", "target", "met")
_INTRODUCTION = """\
# Benchmarks: the name server beside Apache's

Made by `{command}`; do not edit by hand.

{machine}

Both servers get the same load, alternately, in one run; each figure is the median of the rounds and *ratio* is ours
divided by Apache's. *Rounds' ratios* are the lowest and the highest of any single round.

- The load generator is a process of its own with ready-encoded frames; it checks the answers before and after.
- "Operations per CPU-second" counts the CPU time of the server's process alone, all its threads.
- A cluster of B×T is B brokers that each carry all of T topics; C×F is C connections with F requests in flight on each.
- Route queries are what a Java 5.5.0 client sends, registrations what a 5.5.0 broker sends (plain JSON, with CRC).
- Apache runs warm: it is loaded until its efficiency stops rising. Its heap is {heap}, the rest as it comes.
- Both log at level WARN.
- Open loop: requests leave at the same random times for both, at half of what the slower one can do at 16×1; a latency
  counts from when its request was due.
- After `kill -9`, made-up brokers register as Apache's do: every 30 s, evenly spread, and not earlier because the name
  server is back; they and the server had run for some seconds before. *Some route* has at least one broker, *whole
  route* has all.
"""


def show(console: Console, found: Sequence[Row]) -> None:
    table = Table(*_HEADINGS, title="name server: ours beside Apache's")
    case = ""
    for row in found:
        cells = _cells(row)
        colour = {True: "green", False: "red", None: ""}[row.met]
        table.add_row("" if row.case == case else cells[0], *cells[1:], style=colour)
        case = row.case
    console.print(table)


def line(row: Row) -> str:
    """One row on one line, for progress."""
    case, metric, ours, theirs, ratio, *_ = _cells(row)
    return f"{case}: {metric}: {ours} beside {theirs}, {ratio}"


def write_json(path: Path, found: Sequence[Row], command: str, where: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{**msgspec.to_builtins(row), "median": row.median, "ratio": row.ratio, "met": row.met} for row in found]
    report = {"command": command, "machine": where, "rows": rows}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")


def write_docs(path: Path, found: Sequence[Row], command: str, where: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [_INTRODUCTION.format(command=command, machine=where, heap=HEAP)]
    lines.append(_markdown(_HEADINGS))
    lines.append(_markdown(["---", "---", "---:", "---:", "---:", "---", "---", "---"]))
    lines += [_markdown(_cells(row)) for row in found]
    path.write_text("\n".join(lines) + "\n")


def machine(other_work_cores: float) -> str:
    """One line that says where the figures come from."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.split('"')[1]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{today}: {os.cpu_count()} cores ({_processor()}), {memory_gb:.0f} GB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, Java {java}, Apache RocketMQ {apache.V5}; "
        f"other work took {other_work_cores:.1f} of the cores during the run."
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def _cells(row: Row) -> list[str]:
    ours, theirs = row.median
    low, high = row.spread
    met = {True: "yes", False: "no", None: ""}[row.met]
    target = str(row.target) if row.target else ""
    return [
        row.case,
        f"{row.metric}, {row.unit}",
        _number(ours),
        _number(theirs),
        f"{_number(row.ratio)}×",
        f"{_number(low)}–{_number(high)}",
        target,
        met,
    ]


def _number(value: float) -> str:
    """Three significant digits, whole from a hundred on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _markdown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
