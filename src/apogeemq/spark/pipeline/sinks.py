"""How an epoch gets into a sink, and what each kind of sink promises when an epoch is done again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from apogeemq.errors import ConfigError
from apogeemq.spark.pipeline.epoch_files import EpochFiles
from apogeemq.spark.pipeline.spec import FILE_KINDS, OutputMode, Sink, SinkKind
from apogeemq.spark.pipeline.text.format_options import console_rows
from apogeemq.spark.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ShowTable = Callable[[str, int, Sequence[str], Sequence[Sequence[Any]]], None]
"""Name of the sink, epoch, columns, rows."""

_SYSTEM_PROPERTIES: Final = "systemProperties"
_MESSAGE_COLUMNS: Final = ("body", "keys", "tags", "properties", "sharding_key", "delay", "deliver_at")
_PLACE_COLUMNS: Final = ("source_topic", "broker", "queue_id", "queue_offset")

PROMISES: Final = {
    **dict.fromkeys(FILE_KINDS, "exactly once"),
    SinkKind.TOPIC: "effectively once, by id",
    SinkKind.DELTA: "exactly once",
    SinkKind.CONSOLE: "shown again",
    SinkKind.JDBC: "at least once",
}

COUNTED_KINDS: Final = FILE_KINDS | {SinkKind.TOPIC}
"""Those whose writers know how many rows they have written."""


class Writer(Protocol):
    def write(self, frame: DataFrame, epoch: int) -> int | None:
        """How many rows; None when nobody counted."""
        ...


def make_writer(sink: Sink, session: SparkSession, query_id: str, ledger: str, show: ShowTable | None) -> Writer:
    """`query_id` is the same whenever the query runs again, and another for another checkpoint; `ledger` is a folder
    beside the checkpoint."""
    if sink.kind is SinkKind.TOPIC:
        return TopicWriter(sink, session, query_id, ledger)
    if sink.kind in FILE_KINDS:
        return FilesWriter(sink, session, query_id)
    if sink.kind is SinkKind.DELTA:
        return DeltaWriter(sink, query_id)
    if sink.kind is SinkKind.JDBC:
        return JdbcWriter(sink)
    return ConsoleWriter(sink, show)


class FilesWriter:
    def __init__(self, sink: Sink, session: SparkSession, query_id: str) -> None:
        self._sink = sink
        self._files = EpochFiles(session, sink.path, query_id, sink.kind)

    def write(self, frame: DataFrame, epoch: int) -> int | None:
        return self._files.write(frame, epoch, self._sink.partition_by, dict(self._sink.options))


class DeltaWriter:
    """Delta's log remembers the last epoch of each query, and leaves out one that it has."""

    def __init__(self, sink: Sink, query_id: str) -> None:
        self._sink = sink
        self._query_id = query_id

    def write(self, frame: DataFrame, epoch: int) -> int | None:
        mode = "overwrite" if self._sink.mode is OutputMode.COMPLETE else "append"
        writer = frame.write.format("delta").mode(mode).options(**self._sink.options)
        writer = writer.option("txnAppId", self._query_id).option("txnVersion", epoch)
        (writer.partitionBy(*self._sink.partition_by) if self._sink.partition_by else writer).save(self._sink.path)
        return None


class JdbcWriter:
    """An epoch that is done again is inserted again. A unique key would fail it, each time: the database has to leave
    out what is there, or whoever reads it."""

    def __init__(self, sink: Sink) -> None:
        self._options = dict(sink.options)

    def write(self, frame: DataFrame, epoch: int) -> int | None:
        frame.write.format("jdbc").mode("append").options(**self._options).save()
        return None


class ConsoleWriter:
    """The first rows of each epoch, for a person."""

    def __init__(self, sink: Sink, show: ShowTable | None) -> None:
        self._name = sink.name
        self._show = show
        self._limit = console_rows(sink.options)

    def write(self, frame: DataFrame, epoch: int) -> int | None:
        rows = frame.limit(self._limit).collect()
        if rows and self._show is not None:
            self._show(self._name, epoch, frame.columns, [tuple(row) for row in rows])
        return None


class TopicWriter:
    def __init__(self, sink: Sink, session: SparkSession, query_id: str, ledger: str) -> None:
        from apogeemq.spark.sink.epochs import TopicSink

        self._columns = sink.id_columns
        self._has_topic = bool(sink.topic)
        self._sink = TopicSink(session, _topic_options(sink), query_id, ledger)

    def write(self, frame: DataFrame, epoch: int) -> int | None:
        return self._sink.write_epoch(as_messages(frame, self._columns, has_topic=self._has_topic), epoch)


def check_messages(sink: Sink, frame: DataFrame) -> None:
    """ConfigError, before anything is written, for rows that a topic sink cannot write once."""
    from apogeemq.spark.sink.epochs import check_once, once_options

    options = once_options(_topic_options(sink))
    check_once(as_messages(frame, sink.id_columns, has_topic=bool(sink.topic)), options)


def _topic_options(sink: Sink) -> dict[str, str]:
    options = {_SYSTEM_PROPERTIES: "drop", **sink.options}
    if sink.topic:
        options["topic"] = sink.topic
    if sink.id_columns:
        options["idColumns"] = ",".join(sink.id_columns)
    return options


def as_messages(frame: DataFrame, id_columns: Sequence[str], *, has_topic: bool) -> DataFrame:
    """The columns that a message has, and those that identify it.

    Of a view without `body`, all columns that have no meaning of their own become one JSON body. With `has_topic`, the
    column `topic` is one of those: where the message goes is said elsewhere.
    """
    from pyspark.sql import functions as sql

    own = _MESSAGE_COLUMNS if has_topic else (*_MESSAGE_COLUMNS, "topic")
    kept = [name for name in frame.columns if name in own or name in id_columns]
    if not id_columns:
        place = (*_PLACE_COLUMNS, "topic")
        kept = [name for name in frame.columns if name in own or name in place]
    columns: list[Column | str] = [sql.col(quoted(name)) for name in kept]
    if "body" not in frame.columns:
        left = [name for name in frame.columns if name not in own]
        if not left:
            raise ConfigError(f"there is nothing to make a body of: {', '.join(frame.columns)}")
        columns.append(sql.to_json(sql.struct(*(sql.col(quoted(name)) for name in left))).alias("body"))
    return frame.select(*columns)
