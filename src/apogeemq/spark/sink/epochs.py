"""The topic sink that writes each epoch of a stream once, for `foreachBatch`.

Each message has an id made of the query, the epoch and what tells its row apart. Before an epoch writes anything, the
ledger beside the checkpoint has where the queues were. An epoch that comes again, after a crash at whatever moment,
reads what is in the queues from there on and leaves it out; that writers of before are not still at work is seen to by
`fence`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from apogeemq.errors import ApogeeError, ConfigError, Superseded, WrongState
from apogeemq.spark.arrow_map import map_in_arrow
from apogeemq.spark.sink.columns import DELAY, DELIVER_AT, SinkColumns, check_columns
from apogeemq.spark.sink.epoch_task import RESULT_SCHEMA, EpochPlan, write_partition
from apogeemq.spark.sink.fence import settle_seconds
from apogeemq.spark.sink.ledger import EpochLedger, EpochRun, Folder, LastRun
from apogeemq.spark.sink.plan_shape import mixing_step
from apogeemq.spark.sink.runs import EpochRuns
from apogeemq.spark.sink.write_options import WriteOptions, once_problem, read_write_options

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

# Runs of one epoch that a driver tries before it gives up: brokers that were restarted under it, above all.
_MAX_RUNS: Final = 3
_PASSING: Final = (
    *("Superseded", "SendFailed", "NoRoute", "ConnectFailed", "ConnectionLost", "RequestTimedOut"),
    *("RemoteRefused", "NoNameServer"),
)


class EpochResult(NamedTuple):
    """`is_replay`: the epoch had been begun before, `left_out` rows of it were in the topic already. One that had been
    ended before is not written at all, and its rows are not counted."""

    epoch: int
    run: int
    written: int
    left_out: int
    is_replay: bool


def once_options(options: Mapping[str, str]) -> WriteOptions:
    """ConfigError when an option is wrong, or says that rows go where they cannot be written once."""
    found = read_write_options(options)
    if problem := once_problem(found.topic, found.topics):
        raise ConfigError(problem)
    return found


def check_once(df: DataFrame, options: WriteOptions) -> SinkColumns:
    """ConfigError when this DataFrame, of a stream or a batch of it, cannot be written once."""
    columns = check_columns(df.schema, options, needs_ids=True)
    if timed := sorted({DELAY, DELIVER_AT} & columns.present):
        raise ConfigError(f"column {timed[0]} cannot be written once: brokers hide a message until it is due")
    if not columns.id_columns:
        _check_positions(df, columns)
    if df.sparkSession.sparkContext.getConf().get("spark.speculation", "false") == "true":
        raise ConfigError("spark.speculation is true: two tasks would write the same rows; set it to false")
    return columns


def _check_positions(df: DataFrame, columns: SinkColumns) -> None:
    needed = "name the columns that tell the rows of an epoch apart in option idColumns"
    if not columns.position:
        raise ConfigError(
            "rows have no id: there are no columns topic (or source_topic), broker, queue_id and queue_offset of "
            f"their source messages; keep them, or {needed}"
        )
    if (step := mixing_step(df)) is not None:
        raise ConfigError(
            f"rows have no id: after {step}, the place of a source message does not tell them apart; {needed}"
        )


class TopicSink:
    """One sink of one query. `ledger` is a folder of its own beside the query's checkpoint, on any file system that
    Spark reaches; it belongs to the checkpoint and is removed with it. Without a `query_id` the ledger has one."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str], query_id: str, ledger: str) -> None:
        """ConfigError when an option is wrong."""
        if getattr(spark, "_jvm", None) is None:
            raise ConfigError("the topic sink needs a driver of its own: it cannot be used with Spark Connect")
        self.options: WriteOptions = once_options(options)
        self._ledger = EpochLedger(_hadoop_folder(spark, ledger))
        self._query_id = query_id or self.options.query_id or self._ledger.sink_id()
        self._runs = EpochRuns(self._ledger, self.options, self._query_id)
        self.last_result: EpochResult | None = None

    # -- before the first epoch ------------------------------------------------------------------------------

    def check(self, df: DataFrame) -> SinkColumns:
        """ConfigError when this DataFrame, of a stream or a batch of it, cannot be written once."""
        return check_once(df, self.options)

    # -- an epoch --------------------------------------------------------------------------------------------

    def write_epoch(self, df: DataFrame, epoch: int) -> int:
        """When this returns, the topic has each row once; gives their number. Called with the same rows again, it
        writes what is missing.

        Raises ConfigError for rows it cannot write once, Superseded when another driver has taken over the query.
        """
        columns = self.check(df)
        for runs_left in range(_MAX_RUNS - 1, -1, -1):
            before = self._ledger.last()
            if before is not None and before.entry.epoch > epoch:
                raise WrongState(f"epoch {epoch} comes after epoch {before.entry.epoch}: the checkpoint was set back")
            if before is not None and before.entry.epoch == epoch and before.rows is not None:
                self.last_result = EpochResult(epoch, before.entry.run, 0, before.rows, is_replay=True)
                return before.rows
            entry = self._runs.begin(epoch, before)
            try:
                result = self._write(df, columns, entry, before)
            except Exception as error:
                if not _may_pass(error) or not runs_left or not self._ledger.is_last(entry):
                    raise
                log.warning("epoch %d, run %d has failed and is tried again: %s", epoch, entry.run, _last_line(error))
            else:
                break
        self._ledger.end(entry, result.written + result.left_out)
        self.last_result = result
        return result.written + result.left_out

    def _write(self, df: DataFrame, columns: SinkColumns, entry: EpochRun, before: LastRun | None) -> EpochResult:
        is_replay = before is not None and before.entry.epoch == entry.epoch
        there, broker_starts = self._runs.take_over(entry, before)
        plan = EpochPlan(
            options=self.options,
            columns=columns,
            query_id=self._query_id,
            group=self._runs.group,
            entry=entry,
            settle_seconds=settle_seconds(self.options.send_timeout_ms),
            broker_starts=broker_starts,
        )
        context = df.sparkSession.sparkContext
        shared = context.broadcast(b"".join(there)) if there else None
        try:
            rows = map_in_arrow(df, _writer(plan, shared), RESULT_SCHEMA).collect()
        finally:
            if shared is not None:
                shared.destroy()
        written, left_out = sum(row.written for row in rows), sum(row.left_out for row in rows)
        if is_replay:
            log.warning("epoch %d was written before: %d rows left out, %d written", entry.epoch, left_out, written)
        return EpochResult(entry.epoch, entry.run, written, left_out, is_replay)


def _writer(
    plan: EpochPlan, written: Broadcast[bytes] | None
) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    def write(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        yield from write_partition(plan, written, batches)

    return write


def _may_pass(error: Exception) -> bool:
    """Errors of tasks come as texts."""
    if isinstance(error, ApogeeError):
        return error.retriable or isinstance(error, Superseded)
    return any(f"apogeemq.errors.{name}" in str(error) for name in _PASSING)


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if "apogeemq.errors." in line]
    return (lines or [str(error)])[-1].strip()[:500]


def _hadoop_folder(spark: SparkSession, folder: str) -> Folder:
    from apogeemq.spark.pipeline.hadoop_files import HadoopFolder

    return HadoopFolder(spark, folder)
