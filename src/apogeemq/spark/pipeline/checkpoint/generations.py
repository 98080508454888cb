"""The checkpoint folder of a pipeline: Spark's checkpoints by query, in generations.

::

    CHECKPOINT/pipeline.json          which generation is in use, its id, since when it reads, from where and to where
    CHECKPOINT/0001/QUERY/            Spark's own
    CHECKPOINT/0001/QUERY.SINK/       the ledger of a topic sink
    CHECKPOINT/batch.json             of a pipeline without streams: its last run

A replay begins a new generation; the old one stays, and so does what sinks have.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from apogeemq.errors import ConfigError
from apogeemq.spark.pipeline.checkpoint.places import changes
from apogeemq.spark.pipeline.hadoop_files import HadoopFolder
from apogeemq.spark.pipeline.spec import TOPICS, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

StructT = TypeVar("StructT", bound=msgspec.Struct)

_FILE: Final = "pipeline.json"
_BATCH: Final = "batch.json"
_STARTS: Final = frozenset(("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"))


class Generation(msgspec.Struct, frozen=True):
    pipeline: str
    number: int
    id: str  # part of the ids of messages: another generation writes other messages
    starting_ms: int | None = None  # where streams begin; None: where the file says
    places: dict[str, str] = {}  # where it reads and writes (`places.py`); empty before this was kept


class BatchRun(msgspec.Struct, frozen=True):
    epoch: int
    is_done: bool
    work: str = ""  # the fingerprint of what it does (`work.py`); empty before this was kept


class Checkpoint:
    """One pipeline's folder. Raises StorageFailed; ConfigError when it is another pipeline's."""

    def __init__(self, spark: SparkSession, path: str, pipeline: str) -> None:
        self._spark = spark
        self._folder = HadoopFolder(spark, path)
        self._pipeline = pipeline
        self.path = self._folder.folder
        self._kept = self._current()
        self.generation = self._kept or self._begun(1, None)

    def query_folder(self, query: str) -> str:
        return f"{self.path}/{self.generation.number:04d}/{query}"

    def query_id(self, query: str) -> str:
        return f"{self._pipeline}-{self.generation.id}-{query}"

    def begin_anew(self, starting_ms: int) -> None:
        """With another generation than the one in use; nothing is changed before `keep`."""
        self.generation = self._begun(self.generation.number + (self._kept is not None), starting_ms)

    def go_to(self, places: dict[str, str], *, accepts_changes: bool = False) -> None:
        """Where this run reads and writes. ConfigError when the generation in use has its positions elsewhere."""
        is_anew = self._kept is None or self._kept.id != self.generation.id
        changed = list(changes(self.generation.places, places))
        if changed and not is_anew and not accepts_changes:
            raise ConfigError(_elsewhere(self._pipeline, self.path, changed))
        self.generation = msgspec.structs.replace(self.generation, places=places)

    def qualified(self, path: str) -> str:
        """With its file system and all its folders: a name for whoever starts elsewhere."""
        return HadoopFolder(self._spark, path).qualified

    def keep(self) -> None:
        """This generation is the one in use from now on."""
        if self.generation != self._kept:
            self._folder.replace(_FILE, msgspec.json.encode(self.generation))
            self._kept = self.generation

    def begin_batch(self, work: str, *, accepts_changes: bool = False) -> BatchRun:
        """This run: that of before again, if that was not finished, for sinks that have its epoch leave it out.
        ConfigError when it was to do something else."""
        last = self._read(_BATCH, BatchRun)
        is_other = last is not None and not last.is_done and bool(last.work) and last.work != work
        if is_other and not accepts_changes:
            raise ConfigError(_not_finished(self._pipeline))
        epoch = 0 if last is None else last.epoch + 1 if last.is_done or is_other else last.epoch
        run = BatchRun(epoch, False, work)
        self._folder.replace(_BATCH, msgspec.json.encode(run))
        return run

    def end_batch(self, run: BatchRun) -> None:
        self._folder.replace(_BATCH, msgspec.json.encode(msgspec.structs.replace(run, is_done=True)))

    def source_options(self, source: Source) -> Mapping[str, str]:
        """The source's options, with the start of this generation where it has one."""
        starting_ms = self.generation.starting_ms
        if starting_ms is None or not source.is_stream or source.format != TOPICS:
            return source.options
        kept = {name: value for name, value in source.options.items() if name.lower() not in _STARTS}
        return {**kept, "startingTimestamp": str(starting_ms)}

    def _current(self) -> Generation | None:
        found = self._read(_FILE, Generation)
        if found is not None and found.pipeline != self._pipeline:
            raise ConfigError(f"the checkpoint {self.path} is of the pipeline {found.pipeline}, not {self._pipeline}")
        return found

    def _begun(self, number: int, starting_ms: int | None) -> Generation:
        return Generation(self._pipeline, number, uuid.uuid4().hex[:16], starting_ms)

    def _read(self, name: str, kind: type[StructT]) -> StructT | None:
        data = self._folder.read(name) or self._folder.read(f"{name}.next")
        try:
            return msgspec.json.decode(data, type=kind) if data else None
        except msgspec.DecodeError as error:
            raise ConfigError(f"{self.path}/{name} cannot be read: {error}") from None


def _not_finished(pipeline: str) -> str:
    return (
        f"the last run of {pipeline} did not end, and had other sources, steps, rules, sinks or parameters: sinks that "
        "it had written would be left out of this run. Finish it as it was; or run with a state of its own "
        "(--state DIR); or begin this one anew with --accept-changes, which leaves what that run has written"
    )


def _elsewhere(pipeline: str, checkpoint: str, changed: list[str]) -> str:
    return (
        f"the checkpoint {checkpoint} of {pipeline} is of a run that was elsewhere: {'; '.join(changed)}. Going on "
        "from its positions would leave out what that run has read. Put it back; or run with a state of its own "
        "(--state DIR) or a checkpoint of its own (checkpoint in [pipeline], --param checkpoint=DIR of a ready "
        "pipeline); or read again into the new place with `apogee pipeline replay`; or go on from there all the same "
        "with --accept-changes, when it is the same cluster, or what was written has been moved"
    )
