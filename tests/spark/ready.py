"""Ready pipelines as tests run them: all there is now, then the end."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from pyspark.sql import SparkSession
from rich.console import Console

from apogeemq.cli.pipelines.views import result_table
from apogeemq.spark.pipeline.progress import PipelineStatus, State
from apogeemq.spark.pipeline.reading import read_pipeline
from apogeemq.spark.pipeline.running import run_pipeline
from apogeemq.spark.pipeline.spec import Trigger
from apogeemq.spark.pipeline.status import StateFolder


def run_ready(spark: SparkSession, name: str, state: Path, **parameters: str) -> PipelineStatus:
    """Run it to its end; the next run with the same `state` goes on from there."""
    return run_shown(spark, name, state, **parameters)[0]


def run_shown(spark: SparkSession, name: str, state: Path, **parameters: str) -> tuple[PipelineStatus, dict[str, str]]:
    """The same; and what each console sink shows on a terminal of 80 columns."""
    shown: dict[str, str] = {}

    def show(sink: str, epoch: int, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        terminal = Console(file=io.StringIO(), width=80)
        terminal.print(result_table(sink, epoch, columns, rows))
        shown[sink] = cast(io.StringIO, terminal.file).getvalue()

    spec = msgspec.structs.replace(read_pipeline(name, parameters), trigger=Trigger())
    status = run_pipeline(spec, spark, StateFolder(state), on_table=show)
    assert status.state is State.FINISHED, status.error
    return status, shown


def forget_last_epoch(state: Path) -> None:
    """As a crash right after all of it was written: it is done again by the next run."""
    last = max(state.rglob("commits/[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
