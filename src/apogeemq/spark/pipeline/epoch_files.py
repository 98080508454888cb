"""Files of epochs, each epoch once: whatever crashes, and however often an epoch is done again.

::

    PATH/_staging/QUERY/00000012-a3f…/    what an attempt at epoch 12 writes
    PATH/_epochs/QUERY/00000012.json      names the attempt that counts: the moment it appears, the epoch is written
    PATH/date=…/00000012-part-….parquet   its files, moved into place after that moment

An attempt that finds the line of its epoch writes nothing: it moves what is not yet in place. Attempts do not share a
folder, so that tasks of an earlier one that are still running somewhere cannot spoil a later one. Readers of any kind
see every row at most once at any time, and once as soon as the epoch's query has finished it: there is no log that
only Spark can read. Folders that begin with an underscore are left out by Spark and by most other readers.
"""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from apogeemq.errors import StorageFailed, WrongState
from apogeemq.spark.pipeline.hadoop_files import HadoopFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STAGING: Final = "_staging"
_EPOCHS: Final = "_epochs"
_ATTEMPT: Final = re.compile("([0-9]{8,})-[0-9a-f]+")
_LINE: Final = re.compile(r"([0-9]{8,})\.json")
_LINES_KEPT: Final = 100  # only the last epoch can be done again; the others are for whoever wants to know


class EpochLine(msgspec.Struct, frozen=True):
    epoch: int
    attempt: str
    files: list[str]
    rows: int | None = None

    def place_of(self, file: str) -> str:
        """Where one of its files is once it is in place."""
        folder, _, name = file.rpartition("/")
        return f"{folder}/{self.epoch:08d}-{name}" if folder else f"{self.epoch:08d}-{name}"


class EpochFiles:
    """One query's files in one folder. One writer at a time."""

    def __init__(self, spark: SparkSession, path: str, query: str, form: str) -> None:
        self._folder = HadoopFolder(spark, path)
        self._path = self._folder.folder
        self._query = query.replace("/", "_")
        self._form = form

    def write(self, frame: DataFrame, epoch: int, partition_by: tuple[str, ...], options: dict[str, str]) -> int:
        """How many rows the epoch has; those of an earlier attempt, when that has been written."""
        line = self._line(epoch)
        if line is None:
            self._refuse_if_later(epoch)
            line = self._attempt(frame, epoch, partition_by, options)
        self._put_in_place(line)
        self._forget(epoch)
        return line.rows or 0

    def _attempt(
        self, frame: DataFrame, epoch: int, partition_by: tuple[str, ...], options: dict[str, str]
    ) -> EpochLine:
        from pyspark.sql import Observation
        from pyspark.sql import functions as sql

        attempt = f"{_STAGING}/{self._query}/{epoch:08d}-{uuid.uuid4().hex[:12]}"
        counted = Observation()
        observed = frame.observe(counted, sql.count(sql.lit(1)).alias("rows"))
        writer = observed.write.format(self._form).options(**options).mode("error")
        (writer.partitionBy(*partition_by) if partition_by else writer).save(f"{self._path}/{attempt}")
        rows = int(counted.get["rows"])
        # Of no rows Spark makes a file too; there would be one for each idle moment of a stream.
        files = self._folder.data_files(attempt) if rows else []
        if rows and not files:
            raise StorageFailed(f"{self._path}: no file of the {rows} rows of epoch {epoch} is to be seen")
        line = EpochLine(epoch, attempt, files, rows)
        if self._folder.create(self._line_name(epoch), msgspec.json.encode(line)):
            self._take_back_if_later(line)
            return line
        other = self._line(epoch)  # another driver was faster: what it wrote counts
        if other is None:
            raise StorageFailed(f"{self._path}: cannot write {self._line_name(epoch)}")
        self._folder.delete(attempt)
        return other

    def _refuse_if_later(self, epoch: int) -> None:
        """That there is no line of an epoch says nothing then: old ones are removed."""
        lines = map(_LINE.fullmatch, self._folder.names(f"{_EPOCHS}/{self._query}"))
        last = max((int(line[1]) for line in lines if line is not None), default=-1)
        if last > epoch:
            raise WrongState(
                f"{self._path}: epoch {epoch} comes after epoch {last}: another driver has gone on meanwhile, or the "
                "checkpoint was set back"
            )

    def _take_back_if_later(self, line: EpochLine) -> None:
        """This driver may have stood still while it wrote, until the line that another one had made was old."""
        try:
            self._refuse_if_later(line.epoch)
        except WrongState:
            self._folder.delete(self._line_name(line.epoch))
            self._folder.delete(line.attempt)
            raise

    def _put_in_place(self, line: EpochLine) -> None:
        if not self._folder.exists(line.attempt):
            return  # all moved, and the staging folder removed
        for name in line.files:
            staged, target = f"{line.attempt}/{name}", line.place_of(name)
            if self._folder.exists(staged):
                self._folder.move(staged, target)
            elif not self._folder.exists(target):
                raise StorageFailed(f"{self._path}: {name} of epoch {line.epoch} was written and is gone")
        self._folder.delete(line.attempt)

    def _forget(self, epoch: int) -> None:
        """Attempts that count for nothing, and old lines. An epoch that was left half in place, as by a pipeline that
        was begun anew after a crash, is written all the same: the rest of it is put in place."""
        staging = f"{_STAGING}/{self._query}"
        old = epoch - _LINES_KEPT
        for name in self._folder.names(staging):
            if (number := _ATTEMPT.fullmatch(name)) is None or int(number[1]) > epoch:
                continue
            attempt = f"{staging}/{name}"
            # An older line may be that of a driver which stood still, and is about to take it back.
            line = self._line(int(number[1])) if int(number[1]) > old else None
            if line is not None and line.attempt == attempt:
                self._put_in_place(line)
            else:
                self._folder.delete(attempt)
        if old >= 0:
            self._folder.delete(self._line_name(old))

    def _line(self, epoch: int) -> EpochLine | None:
        data = self._folder.read(self._line_name(epoch))
        return msgspec.json.decode(data, type=EpochLine) if data is not None else None

    def _line_name(self, epoch: int) -> str:
        return f"{_EPOCHS}/{self._query}/{epoch:08d}.json"


def files_in_motion(folder: Path) -> frozenset[str]:
    """Of all queries, the files of epochs that are being put in place, or were when their pipeline ended: it may go on
    some day, and looks for each of them. Of attempts that no line names nothing is in place."""
    found: set[str] = set()
    for attempt in (folder / _STAGING).glob("*/*"):
        epoch = attempt.name.partition("-")[0]
        line = _line_in(folder / _EPOCHS / attempt.parent.name / f"{epoch}.json")
        if line is not None and line.attempt == str(attempt.relative_to(folder)):
            found |= {line.place_of(name) for name in line.files}
    return frozenset(found)


def _line_in(path: Path) -> EpochLine | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=EpochLine)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise StorageFailed(f"cannot read {path}: {error}") from error
