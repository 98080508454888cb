"""Which files a sink of files may still look for; how it writes them is tested with a real Spark."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from apogeemq.errors import StorageFailed
from apogeemq.spark.pipeline.epoch_files import EpochLine, files_in_motion


def add_attempt(folder: Path, name: str, query: str = "query") -> str:
    (folder / "_staging" / query / name).mkdir(parents=True)
    return f"_staging/{query}/{name}"


def add_line(folder: Path, line: EpochLine, query: str = "query") -> Path:
    path = folder / "_epochs" / query / f"{line.epoch:08d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(line))
    return path


def test_files_of_an_epoch_that_counts_are_in_motion_until_its_attempt_is_gone(tmp_path: Path) -> None:
    attempt = add_attempt(tmp_path, "00000007-abc")
    add_line(tmp_path, EpochLine(7, attempt, ["date=d/a.parquet", "b.parquet"]))
    add_line(tmp_path, EpochLine(6, "_staging/query/00000006-abc", ["c.parquet"]))
    assert files_in_motion(tmp_path) == {"date=d/00000007-a.parquet", "00000007-b.parquet"}
    (tmp_path / attempt).rmdir()
    assert files_in_motion(tmp_path) == frozenset()


def test_attempts_that_no_line_names_have_nothing_in_place(tmp_path: Path) -> None:
    add_attempt(tmp_path, "00000007-abc")
    add_line(tmp_path, EpochLine(7, "_staging/query/00000007-def", ["a.parquet"]))
    add_attempt(tmp_path, "00000007-abc", query="another")
    assert files_in_motion(tmp_path) == frozenset()
    assert files_in_motion(tmp_path / "nowhere") == frozenset()


def test_a_line_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    attempt = add_attempt(tmp_path, "00000007-abc")
    add_line(tmp_path, EpochLine(7, attempt, [])).write_text("{")
    with pytest.raises(StorageFailed, match=r"cannot read .*00000007\.json"):
        files_in_motion(tmp_path)
