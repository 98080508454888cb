"""The rows for people: a table on the terminal, a JSON file, docs/benchmarks.md."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from apogeemq.transport import channel
from benchmarks.rows import Row
from benchmarks.wakefulness import POLL_US
from tests.peers import apache


class Page(NamedTuple):
    """A page of docs/: where, its title, what stands above the table ({command} and {machine} are filled in), and who
    the others are."""

    path: Path
    title: str
    introduction: str
    others: str = "Apache"

    @property
    def headings(self) -> Sequence[str]:
        return ("case", "metric", "ours", self.others, "ratio", "rounds' ratios", "target", "met")


def show(console: Console, found: Sequence[Row], page: Page) -> None:
    table = Table(*page.headings, title=page.title)
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


def write_docs(page: Page, found: Sequence[Row], command: str, where: str) -> None:
    page.path.parent.mkdir(parents=True, exist_ok=True)
    lines = [page.introduction.format(command=command, machine=where)]
    lines.append(_markdown(page.headings))
    lines.append(_markdown(["---", "---", "---:", "---:", "---:", "---", "---", "---"]))
    lines += [_markdown(_cells(row)) for row in found]
    page.path.write_text("\n".join(lines) + "\n")


def machine(other_work_cores: float, *, is_awake: bool) -> str:
    """One line that says where the figures come from."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.split('"')[1]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{today}: {os.cpu_count()} cores ({_processor()}), {memory_gb:.0f} GB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, Java {java}, Apache RocketMQ {apache.V5}; "
        f"ours {'compiled' if _is_compiled() else 'not compiled'}; "
        f"other work took {other_work_cores:.1f} of the cores during the run."
        + f" Idle cores looked for work for {POLL_US} µs before they halted."
        * is_awake
    )


def _is_compiled() -> bool:
    return not str(channel.__file__).endswith(".py")


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
