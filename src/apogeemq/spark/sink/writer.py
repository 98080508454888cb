"""The sinks behind `df.write` and `df.writeStream`: at least once.

A task commits when brokers have acknowledged all its messages. One that fails is run again by Spark and writes its rows
again, so a message may come twice; with `idColumns` both have the same id.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from apogeemq.errors import ConfigError
from apogeemq.spark.sink.columns import SinkColumns, check_columns
from apogeemq.spark.sink.ids import IdScope
from apogeemq.spark.sink.producers import producer_of
from apogeemq.spark.sink.row_ids import row_ids
from apogeemq.spark.sink.rows import chunks
from apogeemq.spark.sink.sending import AtLeastOnce
from apogeemq.spark.sink.write_options import WriteOptions, read_write_options
from apogeemq.spark.sink.write_task import WriteTask, Written

if TYPE_CHECKING:
    from pyarrow import RecordBatch

log = logging.getLogger(__name__)


class TaskWritten(WriterCommitMessage):
    def __init__(self, written: Written) -> None:
        self.written = written


class _Rows:
    """What both kinds of writers do with the rows of a task. Made on the driver, used on executors."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """ConfigError when options or columns are wrong: nothing has been written then."""
        if overwrite:
            raise ConfigError("mode overwrite (output mode complete) is not possible: a topic only grows; use append")
        self.options: WriteOptions = read_write_options(options)
        self.columns: SinkColumns = check_columns(schema, self.options)
        if self.options.query_id and not self.options.id_columns:
            raise ConfigError("option queryId is part of ids and needs idColumns")

    def write_rows(self, batches: Iterator[RecordBatch]) -> TaskWritten:
        producer = producer_of(self.options)
        ids = row_ids(self.columns, IdScope(self.options.query_id))
        with WriteTask(producer, self.options, self.columns, AtLeastOnce(producer)) as task:
            for batch in batches:
                for chunk in chunks(batch):
                    task.write(chunk, ids.of(chunk))
            return TaskWritten(task.finish())


class RocketMQArrowWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._rows = _Rows(options, schema, overwrite)

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        return self._rows.write_rows(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        log.info("%d messages written", _total(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        log.warning("a write has failed; %d messages of tasks that did not fail are in their topics", _total(messages))


class RocketMQStreamArrowWriter(DataSourceStreamArrowWriter):
    """A streaming write. It is not told which epoch it writes, so a replayed epoch is written again."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._rows = _Rows(options, schema, overwrite)

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        return self._rows.write_rows(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        log.info("epoch %d: %d messages written", batchId, _total(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        log.warning("epoch %d has failed; %d messages of other tasks are in their topics", batchId, _total(messages))


def _total(messages: list[WriterCommitMessage | None]) -> int:
    return sum(message.written.rows for message in messages if isinstance(message, TaskWritten))
