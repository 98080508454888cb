"""A compaction that is cut off after any of its steps loses nothing and doubles nothing, for every kind of reader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apogeemq.errors import StorageFailed
from apogeemq.spark.jobs import archive_ledger
from apogeemq.spark.jobs.archive_ledger import HOURS, RECENT, Ledger

PLACES = ("topic=orders/date=2026-11-16/hour=06", "topic=orders/date=2026-11-16/hour=07")


class PowerCut(BaseException):
    """Not an error anybody handles."""


def fill(archive: Path, *, files: int = 4, first: int = 0) -> list[str]:
    """Small files; the text of a file is the rows it has, one a line."""
    names: list[str] = []
    for number in range(first, first + files):
        name = f"{PLACES[number % 2]}/small-{number}.parquet"
        path = archive / RECENT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"row {2 * number}\nrow {2 * number + 1}\n")
        names.append(name)
    return names


def compact(archive: Path, names: list[str], time_ms: int = 1_000) -> None:
    """As the job does it, with text for Parquet."""
    ledger = Ledger(archive)
    staging = ledger.begin()
    try:
        left = [name for name in names if name not in ledger.snapshot().replaced]
        if not left:
            return
        for place in PLACES:
            texts = [(archive / RECENT / name).read_text() for name in left if name.startswith(place)]
            if texts:
                (staging / place).mkdir(parents=True, exist_ok=True)
                (staging / place / "part-0.parquet").write_text("".join(texts))
        ledger.commit(left, time_ms)
    finally:
        ledger.end()


def rows_of(files: list[Path]) -> list[str]:
    return sorted(row for path in files for row in path.read_text().splitlines())


def rows_seen(archive: Path) -> list[str]:
    """By a reader that goes by the ledger."""
    seen = Ledger(archive).snapshot()
    recent = [
        path
        for path in (archive / RECENT).rglob("*.parquet")
        if str(path.relative_to(archive / RECENT)) not in seen.replaced
    ]
    return rows_of([*seen.hours, *recent, *(path for paths in seen.staged.values() for path in paths)])


def rows_published(archive: Path) -> list[str]:
    """By a reader that knows nothing but the folder of compacted files."""
    return rows_of(list((archive / HOURS).rglob("*.parquet")))


def rows(count: int) -> list[str]:
    return sorted(f"row {number}" for number in range(count))


def test_small_files_become_one_for_each_hour(tmp_path: Path) -> None:
    compact(tmp_path, fill(tmp_path))
    assert rows_seen(tmp_path) == rows_published(tmp_path) == rows(8)
    assert sorted(str(path.relative_to(tmp_path / HOURS)) for path in (tmp_path / HOURS).rglob("*.parquet")) == [
        f"{PLACES[0]}/00000001-00000.parquet",
        f"{PLACES[1]}/00000001-00001.parquet",
    ]


def test_late_files_get_files_of_their_own(tmp_path: Path) -> None:
    names = fill(tmp_path)
    compact(tmp_path, names)
    names += fill(tmp_path, files=2, first=4)
    assert rows_seen(tmp_path) == rows(12)
    compact(tmp_path, names)
    assert rows_seen(tmp_path) == rows_published(tmp_path) == rows(12)
    assert [run.number for run in Ledger(tmp_path).runs()] == [1, 2]


@contextmanager
def cut_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> Iterator[list[str]]:
    """End the process, as far as it can see, at the step after so many that change the disk."""
    taken: list[str] = []

    def counted(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **options: object) -> object:
            if len(taken) == steps:
                raise PowerCut
            taken.append(name)
            return call(*args, **options)

        return step

    with monkeypatch.context() as patch:
        for module, name in ((archive_ledger, "write_atomically"), (archive_ledger, "sync_folder"), (os, "rename")):
            patch.setattr(module, name, counted(name, getattr(module, name)))
        patch.setattr(Path, "mkdir", counted("mkdir", Path.mkdir))
        patch.setattr(Path, "write_text", counted("write_text", Path.write_text))
        yield taken


def test_a_cut_at_any_step_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a whole run goes through: how many steps that takes is not for this test to know."""
    for steps in range(1_000):
        archive = tmp_path / str(steps)
        names = fill(archive)
        try:
            with cut_after(monkeypatch, steps) as taken:
                compact(archive, names)
        except PowerCut:
            pass
        else:
            break
        assert rows_seen(archive) == rows(8), taken
        published = rows_published(archive)
        assert len(published) == len(set(published)), taken
        compact(archive, names)  # the next one finishes, or begins again
        assert rows_seen(archive) == rows_published(archive) == rows(8), taken
        assert [run.number for run in Ledger(archive).runs()] == [1]
    assert {"rename", "write_atomically"} <= set(taken)


def test_a_reader_does_not_see_runs_after_the_one_it_has_read_of(tmp_path: Path) -> None:
    names = fill(tmp_path)
    compact(tmp_path, names)
    line = tmp_path / "_compaction" / "runs" / "00000002.json"
    names += fill(tmp_path, files=2, first=4)
    compact(tmp_path, names)
    line.unlink()  # as if the ledger had been read a moment before
    assert rows_seen(tmp_path) == rows(12)


def test_only_one_process_compacts(tmp_path: Path) -> None:
    first = Ledger(tmp_path)
    first.begin()
    with pytest.raises(StorageFailed, match="in use by another process"):
        Ledger(tmp_path).begin()
    first.end()
    Ledger(tmp_path).begin()


def test_replaced_files_are_deleted_later(tmp_path: Path) -> None:
    names = fill(tmp_path)
    compact(tmp_path, names[:2], time_ms=1_000)
    compact(tmp_path, names, time_ms=5_000)
    ledger = Ledger(tmp_path)
    assert ledger.forget(1_000) == 0
    assert ledger.forget(5_000) == 2
    assert [(tmp_path / RECENT / name).exists() for name in names] == [False, False, True, True]
    assert [run.number for run in ledger.runs()] == [2]
    assert ledger.forget(9_000) == 2
    assert [run.number for run in ledger.runs()] == [2]  # it carries the number
    assert rows_seen(tmp_path) == rows(8)
    names += fill(tmp_path, files=1, first=4)
    compact(tmp_path, names[4:], time_ms=9_000)
    assert [run.number for run in ledger.runs()] == [2, 3]
    assert rows_seen(tmp_path) == rows_published(tmp_path) == rows(10)


def test_what_somebody_looks_for_is_not_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = fill(tmp_path)
    compact(tmp_path, names[:2], time_ms=1_000)
    compact(tmp_path, names, time_ms=5_000)
    ledger = Ledger(tmp_path)
    assert ledger.forget(9_000, frozenset((names[0], "another"))) == 3
    assert [(tmp_path / RECENT / name).exists() for name in names] == [True, False, False, False]
    (warning,) = caplog.messages
    assert "1 small files of run 1 are not deleted yet" in warning
    assert rows_seen(tmp_path) == rows_published(tmp_path) == rows(8)
    assert ledger.forget(9_000) == 1
    assert [run.number for run in ledger.runs()] == [2]
    assert rows_seen(tmp_path) == rows(8)


def test_a_compacted_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    compact(tmp_path, fill(tmp_path))
    next((tmp_path / HOURS).rglob("*.parquet")).unlink()
    with pytest.raises(StorageFailed, match="is lost"):
        Ledger(tmp_path).begin()
    Ledger(tmp_path).snapshot()


def test_a_line_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    compact(tmp_path, fill(tmp_path))
    next((tmp_path / "_compaction" / "runs").iterdir()).write_text("{")
    with pytest.raises(StorageFailed, match=r"cannot read .*00000001\.json"):
        Ledger(tmp_path).runs()
