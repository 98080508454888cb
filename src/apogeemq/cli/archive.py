"""`apogee archive`: care for what the pipeline `archive` writes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from apogeemq.cli.options import HELP_NAMES
from apogeemq.errors import ConfigError

app = typer.Typer(no_args_is_help=True, context_settings=HELP_NAMES, help="Care for an archive of topics.")

Folder = Annotated[str, typer.Argument(help="The folder of the archive.", metavar="ARCHIVE")]
Master = Annotated[str, typer.Option(help="Spark's master.")]


@app.command()
def compact(
    archive: Folder,
    every: Annotated[float, typer.Option(min=0, help="Do it again each so many minutes; 0: once.")] = 0.0,
    delay: Annotated[float, typer.Option(min=0, help="Leave an hour alone for so many minutes after its end.")] = 10.0,
    keep: Annotated[float, typer.Option(min=0, help="Delete small files so many hours after.")] = 48.0,
    size: Annotated[int, typer.Option(min=1, help="Megabytes of a large file.")] = 128,
    delta: Annotated[
        bool, typer.Option("--delta", help="The archive is a Delta table; --delay, --keep and --size do not count.")
    ] = False,
    packages: Annotated[
        str | None, typer.Option(help="With --delta: Maven coordinates of Delta; '' where Spark has its jars.")
    ] = None,
    master: Master = "local[*]",
) -> None:
    """Make large files of small ones, hour by hour. Safe beside the pipeline and beside readers, and to interrupt."""
    if packages is not None and not delta:
        raise ConfigError("--packages needs --delta")
    _check(archive, may_be_url=delta)
    from rich.console import Console

    from apogeemq.spark.jobs import archive as job

    console = Console(highlight=False)
    with console.status("starting Spark"):
        spark = job.delta_session(master, packages) if delta else job.session(master)
    with job.logs_of_failures_alone(spark):
        while True:
            if delta:
                done = job.compact_delta(spark, archive)
                files = f"{done.files_before:,} files → {done.files_after:,}"
                console.print(f"{archive}: {files if done.files_before else 'nothing to do'}")
            else:
                runs = job.compact(
                    spark,
                    Path(archive),
                    delay_ms=int(delay * 60_000),
                    keep_ms=int(keep * 3_600_000),
                    target_bytes=size * 1024 * 1024,
                )
                for run in runs:
                    files = f"{run.files_before:,} files → {run.files_after:,}"
                    console.print(f"{archive}: run {run.run}: {files}, {run.rows:,} messages")
                if not runs:
                    console.print(f"{archive}: nothing to do")
            if not every:
                return
            time.sleep(every * 60)


@app.command()
def check(archive: Folder, master: Master = "local[*]") -> None:
    """Count what is there by topic: messages, duplicates, and offsets missing between the first and the last.

    Exit status: 0 each is there once, 1 some are there twice or missing.
    """
    _check(archive)
    from rich.console import Console
    from rich.table import Table

    from apogeemq.spark.jobs import archive as job

    console = Console()
    with console.status("starting Spark, then counting"):
        spark = job.session(master)
        with job.logs_of_failures_alone(spark):
            rows = job.coverage_by_topic(job.read_archive(spark, Path(archive))).collect()
    table = Table("Topic", "Queues", "First", "Messages", "Duplicates", "Missing")
    for row in rows:
        first = " to ".join(f"{offset:,}" for offset in sorted({row["lowest_first"], row["highest_first"]}))
        messages, duplicates, missing = (f"{row[name]:,}" for name in ("messages", "duplicates", "missing"))
        table.add_row(row["topic"], f"{row['queues']:,}", first, messages, duplicates, missing)
    console.print(table)
    raise typer.Exit(1 if any(row["duplicates"] or row["missing"] for row in rows) else 0)


def _check(archive: str, *, may_be_url: bool = False) -> None:
    from apogeemq.spark import require_extra

    require_extra()
    if not (may_be_url and "://" in archive) and not Path(archive).is_dir():
        raise ConfigError(f"{archive} is no folder: expected that of an archive")
