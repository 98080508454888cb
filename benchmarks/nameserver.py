"""`python -m benchmarks.nameserver`: our name server and Apache's, alternately, under the same load."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import lifecycle, under_load
from benchmarks.contenders import Contenders
from benchmarks.made_up import Cluster
from benchmarks.report import Page
from benchmarks.rows import Row
from benchmarks.runner import Case, Wish, run
from benchmarks.settings import FULL, QUICK

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
- Apache runs warm: it is loaded until its efficiency stops rising. Its heap is 1g, the rest as it comes.
- Both log at level WARN.
- With one request at a time a core has nothing to do between two of them. In a virtual machine a core that halts is
  woken by the host, which costs either server more than the answer; so idle cores are told to look for work a while
  before they halt. 1×1 with cores that halt at once is a row of its own, without a target.
- *Changed (all topics)*: other queue numbers for each of a broker's topics, every time. Ours writes a line for each to
  its journal, which Apache's does not have. It is a worst case, without a target.
- Memory *just started* is before anything was asked; *warm* is after some seconds of route queries, when Java's heap
  has what it works with. Targets are for warm servers.
- Open loop: requests leave at the same random times for both, at half of what the slower one can do at 16×1; a latency
  counts from when its request was due.
- After `kill -9`, made-up brokers register as Apache's do: every 30 s, evenly spread, and not earlier because the name
  server is back; they and the server had run for some seconds before. *Some route* has at least one broker, *whole
  route* has all.
"""


def _case(run: Callable[..., Iterator[Row]], **fixed: Cluster) -> Case[Contenders]:
    return partial(run, **fixed)


CASES: dict[str, Case[Contenders]] = {
    "routes-1x10": _case(under_load.route_queries, cluster=Cluster(1, 10)),
    "routes-8x200": _case(under_load.route_queries, cluster=Cluster(8, 200)),
    "latency": _case(under_load.latency, cluster=Cluster(8, 200)),
    "registration": _case(under_load.registrations),
    "start": _case(lifecycle.start),
    "memory": _case(lifecycle.memory_use),
    "restart": _case(lifecycle.restart),
}
_ROOT = Path(__file__).parent.parent
_PAGE = Page(_ROOT / "docs" / "benchmarks.md", "name server: ours beside Apache's", _INTRODUCTION)
_JSON = _ROOT / "build" / "benchmarks" / "nameserver.json"


def main(
    quick: Annotated[bool, typer.Option(help="Short rounds and few: minutes, and rougher figures.")] = False,
    only: Annotated[list[str] | None, typer.Option(help=f"A case; may be repeated: {', '.join(CASES)}.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds per case [default: 9; with --quick 3].")] = None,
    json: Annotated[Path, typer.Option(help="Where the figures of every round go.")] = _JSON,
    write_docs: Annotated[bool, typer.Option(help="Write docs/benchmarks.md anew.")] = False,
    control: Annotated[bool, typer.Option(help="Apache on both sides: every ratio should be 1.")] = False,
) -> None:
    """Our name server beside Apache's: throughput, operations per CPU-second, latency, start, memory, recovery."""
    wish = Wish("benchmarks.nameserver", quick, only or [], rounds, json, write_docs, control)
    run(wish, CASES, _contenders(control), wish.settings(FULL, QUICK), _PAGE)


@contextlib.contextmanager
def _contenders(control: bool) -> Iterator[Contenders]:
    with tempfile.TemporaryDirectory(prefix="apogee-bench-") as folder:
        yield Contenders(Path(folder), control=control)


if __name__ == "__main__":
    typer.run(main)
