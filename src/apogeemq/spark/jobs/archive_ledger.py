"""What has been compacted in an archive, written so that a crash at any moment costs nothing.

::

    ARCHIVE/recent/           files as the pipeline's sink puts them there, many and small
    ARCHIVE/hours/            compacted files; one appears whole, is never changed and never goes away
    ARCHIVE/_compaction/
        lock                  held by the one who compacts
        runs/00000007.json    what run 7 read and what it made: the moment this file appears, the run has happened
        staging/a3f…/         what an attempt makes before that moment

A run writes to staging, then its line into `runs`, then moves its files to `hours`. Who finds a line whose files are
not all moved moves them; who finds staging without a line removes it. Attempts do not share a folder: what is left of a
killed one may go on writing for a moment, but not into the next. So every row of `recent` is in `hours` at most
once, and a reader that leaves out what the lines of `runs` name as read sees every row exactly once. The folder must be
on a file system that renames in one step and that the driver sees as a path.
"""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from apogeemq.errors import StorageFailed
from apogeemq.runtime.atomic_file import sync_folder, write_atomically
from apogeemq.runtime.folder_lock import FolderLock

log = logging.getLogger(__name__)

RECENT: Final = "recent"
HOURS: Final = "hours"
_OWN: Final = "_compaction"
_RUNS: Final = "runs"
_STAGING: Final = "staging"
_SUFFIX: Final = ".parquet"
_PUT_OFF: Final = (
    "%s: %d small files of run %d are not deleted yet: the epoch that brought them was cut off, and its pipeline looks "
    "for them when it goes on"
)


class Run(msgspec.Struct, frozen=True):
    """One line of the ledger. Paths are relative: of inputs to `recent`, of outputs to `hours` and to the attempt."""

    number: int
    attempt: str
    time_ms: int
    inputs: list[str]
    outputs: dict[str, str]  # from the name in `hours` to the one in the attempt's folder


class Snapshot(NamedTuple):
    """An archive at one moment: files under `recent` that do not count any more, and compacted files that do."""

    replaced: frozenset[str]
    hours: list[Path]
    # By the folder of an attempt: what a crash, or the present moment, has not moved yet.
    staged: dict[Path, list[Path]]


class Ledger:
    """The runs of one archive. Reading needs no lock."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self._folder = archive / _OWN
        self._runs = self._folder / _RUNS
        self._lock = FolderLock(self._folder)
        self._attempt = ""

    # -- reading ---------------------------------------------------------------------------------------------

    def runs(self) -> list[Run]:
        """Those that are still written down, the oldest first; the last one always is."""
        return [run for number in self._numbers() if (run := self._read(number)) is not None]

    def snapshot(self) -> Snapshot:
        """What a reader goes by. It must list `recent` after this, not before."""
        runs = self.runs()
        last = runs[-1].number if runs else 0
        hours = [path for path in visible_files(self.archive / HOURS) if _run_of(path) <= last]
        done = {str(path.relative_to(self.archive / HOURS)) for path in hours}
        staged = {
            self._staging(run.attempt): [self._staging(run.attempt) / run.outputs[name] for name in missing]
            for run in runs
            if (missing := sorted(run.outputs.keys() - done))
        }
        return Snapshot(frozenset(name for run in runs for name in run.inputs), hours, staged)

    # -- compacting ------------------------------------------------------------------------------------------

    def begin(self) -> Path:
        """Take the lock, finish what a crash has left, and give the folder to write the next run to.

        StorageFailed while another process compacts.
        """
        self._lock.acquire()
        try:
            for run in self.runs():
                self._move(run)
            shutil.rmtree(self._folder / _STAGING, ignore_errors=True)
            self._attempt = uuid.uuid4().hex
            return self._staging(self._attempt)
        except BaseException:
            self.end()
            raise

    def commit(self, inputs: Iterable[str], time_ms: int) -> Run:
        """The files in the staging folder replace these inputs, from now on and for ever."""
        number = self._next_number()
        staging = self._staging(self._attempt)
        staged = visible_files(staging)
        outputs: dict[str, str] = {}
        for index, path in enumerate(staged):
            partition = path.relative_to(staging).parent
            outputs[str(partition / f"{_name(number)}-{index:05d}{_SUFFIX}")] = str(path.relative_to(staging))
        _sync(staged, staging)
        run = Run(number, self._attempt, time_ms, sorted(inputs), outputs)
        self._runs.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path(number), msgspec.json.encode(run), keep_previous=False)
        self._move(run)
        return run

    def end(self) -> None:
        self._lock.release()

    def forget(self, before_ms: int, keeping: frozenset[str] = frozenset()) -> int:
        """Delete the inputs of runs before that time but for those in `keeping`, and the lines of these runs; gives how
        many files.

        A run of which something is kept keeps its line, and so does the last one: it carries the number.
        """
        removed = 0
        runs = self.runs()
        for run in runs:
            if run.time_ms >= before_ms:
                continue
            put_off = keeping.intersection(run.inputs)
            for name in run.inputs:
                if name not in put_off:
                    path = self.archive / RECENT / name
                    removed += path.exists()
                    path.unlink(missing_ok=True)
            if put_off:
                log.warning(_PUT_OFF, self.archive, len(put_off), run.number)
            elif run is not runs[-1]:
                self._path(run.number).unlink()
        return removed

    # -- files -----------------------------------------------------------------------------------------------

    def _move(self, run: Run) -> None:
        folders: set[Path] = set()
        for name, staged in run.outputs.items():
            source, target = self._staging(run.attempt) / staged, self.archive / HOURS / name
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.rename(source, target)
                folders.add(target.parent)
            elif not target.exists():
                raise StorageFailed(f"compacted file {target} is lost: neither there nor at {source}")
        for folder in folders:
            sync_folder(folder)

    def _staging(self, attempt: str) -> Path:
        return self._folder / _STAGING / attempt

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self._runs.glob("*.json"))

    def _next_number(self) -> int:
        numbers = self._numbers()
        return numbers[-1] + 1 if numbers else 1

    def _path(self, number: int) -> Path:
        return self._runs / f"{_name(number)}.json"

    def _read(self, number: int) -> Run | None:
        """None for one that has been forgotten meanwhile."""
        path = self._path(number)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Run)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise StorageFailed(f"cannot read {path}: {error}") from error


def visible_files(folder: Path) -> list[Path]:
    """What readers see anywhere below: nothing that is hidden, or in a hidden folder."""
    return [
        path
        for path in sorted(folder.rglob(f"*{_SUFFIX}"))
        if not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
    ]


def _name(number: int) -> str:
    return f"{number:08d}"


def _run_of(path: Path) -> int:
    return int(path.name.partition("-")[0])


def _sync(files: list[Path], top: Path) -> None:
    """Make the files durable before a line says that they count."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    for folder in {path.parent for path in files} | ({top} if top.exists() else set()):
        sync_folder(folder)
