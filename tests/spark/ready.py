"""Ready pipelines as tests run them: all there is now, then the end."""

from __future__ import annotations

from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from apogeemq.spark.pipeline.progress import PipelineStatus, State
from apogeemq.spark.pipeline.reading import read_pipeline
from apogeemq.spark.pipeline.running import run_pipeline
from apogeemq.spark.pipeline.spec import Trigger
from apogeemq.spark.pipeline.status import StateFolder


def run_ready(spark: SparkSession, name: str, state: Path, **parameters: str) -> PipelineStatus:
    """Run it to its end; the next run with the same `state` goes on from there."""
    spec = msgspec.structs.replace(read_pipeline(name, parameters), trigger=Trigger())
    status = run_pipeline(spec, spark, StateFolder(state))
    assert status.state is State.FINISHED, status.error
    return status


def forget_last_epoch(state: Path) -> None:
    """As a crash right after all of it was written: it is done again by the next run."""
    last = max(state.rglob("commits/[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
