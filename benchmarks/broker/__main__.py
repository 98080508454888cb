"""`python -m benchmarks.broker`: our broker and Apache's, alternately, under the same load."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.broker import lifecycle, under_load
from benchmarks.broker.contenders import Contenders
from benchmarks.report import Page
from benchmarks.rows import Row
from benchmarks.runner import Case, Wish, run
from benchmarks.settings import QUICK, Settings

FULL = Settings(rounds=7, seconds=2.0, warm_up_s=20.0, quick=False)

_INTRODUCTION = """\
# Benchmarks: the broker beside Apache's

Made by `{command}`; do not edit by hand.

{machine}

Both brokers get the same load, alternately, in one run; each figure is the median of the rounds and *ratio* is ours
divided by Apache's. *Rounds' ratios* are the lowest and the highest of any single round.

- The load generator is a process of its own with thousands of ready-encoded frames, byte for byte of the form a Java
  5.5.0 client sends (a unique key for every message, tags; *with keys*: the user's keys too); afterwards every
  acknowledged message must be stored.
- "Messages per CPU-second" counts the CPU time of the broker's process alone, all its threads.
- Before each round of sends the load generator takes 2 GiB of memory and leaves it again, so that the host of this
  virtual machine need not find pages while the round fills the log: that would be booked on the broker that writes,
  some ten microseconds a page for either of them.
- C×F is C connections with F requests in flight on each. Topics have eight queues.
- Both flush as the row says, with the same settings: files of 1 GiB, no flow control, level WARN in the log, one name
  server.
- Apache runs warm: it is loaded until its efficiency stops rising. Its heap is 2 GB, the rest as it comes.
- Pulls read the topic from its first message to its last, 32 a pull, one connection and one pull in flight a queue.
- Producer to consumer: messages leave at the same random times for both, and a latency counts from when its message was
  due until the consumer, which holds a pull on every queue, has it.
- Memory: what is *resident* includes pages of the mapped store that the kernel can take back; *anonymous* does not.
  Apache's heap may grow here, which takes less than the fixed heap of its own start script.
"""


def _case(run: Callable[..., Iterator[Row]], **fixed: object) -> Case[Contenders]:
    return partial(run, **fixed)


CASES: dict[str, Case[Contenders]] = {
    "send-128-async": _case(under_load.sends, size=128, flush="ASYNC_FLUSH"),
    "send-1k-async": _case(under_load.sends, size=1024, flush="ASYNC_FLUSH"),
    "send-128-sync": _case(under_load.sends, size=128, flush="SYNC_FLUSH"),
    "send-1k-sync": _case(under_load.sends, size=1024, flush="SYNC_FLUSH"),
    "pull-128": _case(under_load.drains, size=128),
    "pull-1k": _case(under_load.drains, size=1024),
    "latency": _case(under_load.latency),
    "topics": _case(under_load.topics),
    "start": _case(lifecycle.start_empty),
    "start-full": _case(lifecycle.start_full),
    "memory": _case(lifecycle.memory_use),
}
_ROOT = Path(__file__).parent.parent.parent
_PAGE = Page(_ROOT / "docs" / "benchmarks-broker.md", "broker: ours beside Apache's", _INTRODUCTION)
_JSON = _ROOT / "build" / "benchmarks" / "broker.json"


def main(
    quick: Annotated[bool, typer.Option(help="Short rounds and few, small stores: rougher figures.")] = False,
    only: Annotated[list[str] | None, typer.Option(help=f"A case; may be repeated: {', '.join(CASES)}.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds per case [default: 7; with --quick 3].")] = None,
    json: Annotated[Path, typer.Option(help="Where the figures of every round go.")] = _JSON,
    write_docs: Annotated[bool, typer.Option(help="Write docs/benchmarks-broker.md anew.")] = False,
    control: Annotated[bool, typer.Option(help="Apache on both sides: every ratio should be 1.")] = False,
) -> None:
    """Our broker beside Apache's: messages per CPU-second sent and pulled, latency, start, memory."""
    wish = Wish("benchmarks.broker", quick, only or [], rounds, json, write_docs, control)
    run(wish, CASES, _contenders(control), wish.settings(FULL, QUICK), _PAGE)


@contextlib.contextmanager
def _contenders(control: bool) -> Iterator[Contenders]:
    with (
        tempfile.TemporaryDirectory(prefix="apogee-bench-") as folder,
        Contenders(Path(folder), control=control) as contenders,
    ):
        yield contenders


if __name__ == "__main__":
    typer.run(main)
