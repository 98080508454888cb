"""`python -m benchmarks.spark`: the data source `rocketmq` and Spark's own Kafka source, alternately."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.report import Page
from benchmarks.rows import Row
from benchmarks.runner import Case, Wish, run
from benchmarks.settings import Settings
from benchmarks.spark import cases, cold_scan
from benchmarks.spark.cases import SIZES
from benchmarks.spark.contenders import PULL_BYTES, PULL_MESSAGES, Contenders
from tests.peers.apache import PeersUnavailable

FULL = Settings(rounds=5, seconds=0.0, warm_up_s=8.0, quick=False)
QUICK = Settings(rounds=2, seconds=0.0, warm_up_s=5.0, quick=True)

_INTRODUCTION = f"""\
# Benchmarks: Spark on RocketMQ beside Spark on Kafka

Made by `{{command}}`; do not edit by hand.

{{machine}}

Each source has a Spark of its own (`local[2]`, heap 2 GB, the settings of Java and sockets that `embedded_session`
gives) that stays warm: before a case of reads or writes counts, it is run until its efficiency stops rising. Both do
the same, alternately, in one run, and share the machine with the two brokers. Each figure is the median of the rounds
and *ratio* is ours divided by the other's. *Rounds' ratios* are the lowest and the highest of any single round.

- The other: Spark's Kafka source 4.2.0 on a Kafka 3.9.1 broker (heap 1 GB), both with their defaults. Topics have eight
  partitions, messages no keys and no headers.
- Ours: our broker with flushes in the background and the hot modules compiled. Topics have eight queues; every message
  has a unique id, keys and a tag, and all columns are read. *Kafka's columns* are the rows of a read that asks only for
  what Kafka's source has, too. All messages of a topic have bodies, keys and so records of the same size, of which
  columns are made at a stroke. The rows *sizes differ* are of bodies of 100 to 300 B and keys of 11 to 19, for which
  ours does more and Kafka's does not. Unique id, keys and tags are columns, and not given a second time among the
  properties.
- Our broker gives up to {PULL_MESSAGES:,} messages or {PULL_BYTES >> 20} MB a pull here
  (`maxTransferCountOnMessageInMemory`, `maxTransferBytesOnMessageInMemory`), where Kafka's gives 1 MB a partition. The
  rows *32 a pull* are of a broker as it comes.
- *Batch read*: from `load` to the end of the action; *noop* writes every row to Spark's sink that drops them, *count*
  counts them.
- *Stream read*: the trigger AvailableNow, to the same sink, or counted by `foreachBatch`; *rows per
  second* counts the time of the micro-batch, *rows per CPU-second* all of the query, as for batches. Streams read
  4 million messages of 200 B or 2 million of 1 KiB, twice as many as batches, so that a start of a second or two is not
  the main thing. What it takes to start and end a query is measured with a few rows; ours starts a Python process for
  it. All packages have their bytecode, as those that pip installs usually do.
- *Batch write*: rows made by Spark itself, from two tasks; both sinks with their defaults. Bodies are made by copying a
  text: padding one with `rpad`, as earlier pages had it, took three quarters of the JVM's time in a profile of our sink
  at 200 B. Afterwards every row must be in the topic. Writes are measured before reads, which fill the memory
  with cached files. Memory that the host of the virtual machine has taken back is fetched before each measurement, as
  large pages, which files get theirs from: without them a million rows cost our broker 0.7 s in the kernel on one
  machine, with them 0.2 s.
- *Rows per CPU-second* counts the CPU time of Spark: the JVM and, in ours, the Python processes it starts. The brokers'
  is left out.
- *Batches of 800 rows*: the median time of a micro-batch (`triggerExecution`) of a stream limited by
  `maxOffsetsPerTrigger`.
- *Cold scan*: `rocketmq-store` on the folder of a broker that has been shut down, beside Parquet files (as Spark writes
  them: Snappy) of the same rows and columns.
- Growth: our source alone, the larger beside the smaller; with two cores one queue is read by one of them, so that
  *rows per CPU-second* says whether it is flat. We take 0.8 for flat: rounds of one and the same differ by as much.
"""


def _case(run: Callable[..., Iterator[Row]], **fixed: object) -> Case[Contenders]:
    return partial(run, **fixed)


_READS: dict[str, Case[Contenders]] = {
    f"{mode}-{action}-{size}": _case(read, size=size, action=action)
    for mode, read in (("batch", cases.batch_reads), ("stream", cases.stream_reads))
    for action in ("noop", "count")
    for size in SIZES
}
_VARIED_READS: dict[str, Case[Contenders]] = {
    "same-columns": _case(cases.batch_reads, size=200, action="noop", same_columns=True),
    "usual-pulls": _case(cases.batch_reads, size=200, action="noop", usual_pulls=True),
    "sizes-differ": _case(cases.stream_reads, size=200, action="noop", is_varied=True),
}
# Writes first: reads fill the memory with cached files, and whoever writes would wait until the host gives pages.
CASES: dict[str, Case[Contenders]] = {
    **{f"write-{size}": _case(cases.writes, size=size) for size in SIZES},
    **_READS,
    **_VARIED_READS,
    "small-batches": _case(cases.small_batches),
    "queues": _case(cases.more_queues),
    **{f"cold-{size}": _case(cold_scan.scans, size=size) for size in SIZES},
}
LARGE_CASES: dict[str, Case[Contenders]] = {"messages": _case(cases.more_messages)}
_ROOT = Path(__file__).parent.parent.parent
_PAGE = Page(_ROOT / "docs" / "benchmarks-spark.md", "Spark: ours beside Kafka's source", _INTRODUCTION, "other")
_JSON = _ROOT / "build" / "benchmarks" / "spark.json"


def main(
    quick: Annotated[bool, typer.Option(help="Few rounds of few rows: rougher figures.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help=f"A case; may be repeated: {', '.join([*CASES, *LARGE_CASES])}.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds per case [default: 5; with --quick 2].")] = None,
    large: Annotated[bool, typer.Option(help="Also the cases that need minutes and 10 GB of disk.")] = False,
    json: Annotated[Path, typer.Option(help="Where the figures of every round go.")] = _JSON,
    write_docs: Annotated[bool, typer.Option(help="Write docs/benchmarks-spark.md anew.")] = False,
) -> None:
    """Spark on RocketMQ beside Spark on Kafka: rows per second and CPU-second read and written, small batches."""
    wish = Wish(f"benchmarks.spark{' --large' * large}", quick, only or [], rounds, json, write_docs, False)
    chosen = {**CASES, **LARGE_CASES} if large or set(wish.only) & LARGE_CASES.keys() else CASES
    try:
        run(wish, chosen, _contenders(), wish.settings(FULL, QUICK), _PAGE, unwaited_s=Contenders.spark_seconds)
    except PeersUnavailable as unavailable:
        typer.echo(str(unavailable), err=True)
        raise typer.Exit(1) from None


@contextlib.contextmanager
def _contenders() -> Iterator[Contenders]:
    with (
        tempfile.TemporaryDirectory(prefix="apogee-bench-", ignore_cleanup_errors=True) as folder,
        Contenders(Path(folder)) as contenders,
    ):
        yield contenders


if __name__ == "__main__":
    typer.run(main)
