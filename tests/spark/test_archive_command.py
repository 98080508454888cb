"""`apogee archive`: what it says, its statuses, and what it leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)


def archive_of(spark: SparkSession, folder: Path, *offsets: int) -> Path:
    """One queue with messages at these offsets."""
    rows = spark.createDataFrame([(offset,) for offset in offsets], "queue_offset BIGINT").selectExpr(
        "'orders' AS topic", "'2024-11-16' AS date", "'06' AS hour", "'broker-a' AS broker", "0 AS queue_id", "*"
    )
    rows.coalesce(1).write.partitionBy("topic", "date", "hour").parquet(str(folder / "recent"))
    return folder


def archive(command: str, folder: Path, temporary: Path) -> subprocess.CompletedProcess[str]:
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary), "NO_COLOR": "1", "COLUMNS": "80"}
    arguments = [sys.executable, "-m", "apogeemq.cli.main", "archive", command, str(folder), "--master", "local[1]"]
    return subprocess.run(arguments, env=environment, capture_output=True, text=True)


def left(temporary: Path) -> list[str]:
    return [path.name for path in temporary.glob("apogeemq-*")]


@pytest.mark.parametrize("offsets, cells, status", [((3, 4, 5), "3 3 0 0", 0), ((3, 5), "3 2 0 1", 1)])
def test_a_check_fails_when_offsets_are_missing(
    spark: SparkSession, tmp_path: Path, offsets: tuple[int, ...], cells: str, status: int
) -> None:
    """Not for those before the first, which it shows."""
    folder = archive_of(spark, tmp_path / "archive", *offsets)
    ended = archive("check", folder, tmp_path / "tmp")
    assert (ended.returncode, ended.stderr) == (status, "")
    (row,) = (line for line in ended.stdout.splitlines() if "orders" in line)
    assert row.replace("│", " ").split() == ["orders", "1", *cells.split()]
    assert left(tmp_path / "tmp") == []


def test_a_compaction_leaves_no_logs(spark: SparkSession, tmp_path: Path) -> None:
    folder = archive_of(spark, tmp_path / "archive", 0, 1)
    ended = archive("compact", folder, tmp_path / "tmp")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "run 1: 1 files → 1, 2 messages" in " ".join(ended.stdout.split())
    assert left(tmp_path / "tmp") == []
