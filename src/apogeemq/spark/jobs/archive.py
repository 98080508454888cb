"""The archive of the pipeline `archive`: small files made large, and all of it read, each message once.

How a crash or a reader at any moment is met: `archive_ledger.py`.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructField, StructType

from apogeemq.errors import StorageFailed
from apogeemq.spark.jobs.archive_ledger import HOURS, RECENT, Ledger, visible_files
from apogeemq.spark.pipeline.epoch_files import files_in_motion
from apogeemq.spark.pipeline.reading import read_pipeline
from apogeemq.spark.pipeline.sessions import open_session
from apogeemq.spark.pipeline.text.failures import failure_text
from apogeemq.spark.quoting import quoted
from apogeemq.spark.runtime.session import embedded_session, log_folder_of

PARTITIONS: Final = ("topic", "date", "hour")
TARGET_BYTES: Final = 128 * 1024 * 1024
MAX_BYTES_A_RUN: Final = 64 * 1024**3
MAX_FILES_A_RUN: Final = 20_000
_MAX_TASKS: Final = 200
_HOUR_MS: Final = 3_600_000

# The names Spark gives to folders of a partition.
_PLACE: Final = re.compile(r"topic=[^/]+/date=([0-9]{4}-[0-9]{2}-[0-9]{2})/hour=([0-9]{2})/[^/]+")


class Compaction(NamedTuple):
    """What one run did."""

    run: int
    files_before: int
    files_after: int
    rows: int


def compact(
    spark: SparkSession,
    archive: Path,
    *,
    now_ms: int | None = None,
    delay_ms: int = 10 * 60_000,
    keep_ms: int = 48 * _HOUR_MS,
    target_bytes: int = TARGET_BYTES,
) -> list[Compaction]:
    """Make large files under `hours` of the small ones under `recent`, for hours that ended `delay_ms` ago.

    Rows that come later for such an hour get a file of their own from the next call. Small files are deleted `keep_ms`
    after they were replaced: until then whoever had begun to read them can go on. Those of an epoch that was cut off
    wait for it to go on. Raises StorageFailed, among others when another process compacts this archive.
    """
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    archive = archive.absolute()
    ledger = Ledger(archive)
    done: list[Compaction] = []
    while True:
        staging = ledger.begin()
        try:
            inputs = _next_inputs(archive, ledger, now_ms - delay_ms)
            if not inputs:
                ledger.forget(now_ms - keep_ms, files_in_motion(archive / RECENT))
                return done
            rows = _rewrite(spark, archive / RECENT, inputs, staging, target_bytes)
            run = ledger.commit(inputs, now_ms)
            done.append(Compaction(run.number, len(inputs), len(run.outputs), rows))
        finally:
            ledger.end()


def read_archive(spark: SparkSession, archive: Path) -> DataFrame:
    """Every message of the archive once, as of now, compacted or not. StorageFailed when there is none."""
    archive = archive.absolute()
    snapshot = Ledger(archive).snapshot()
    recent = [path for path in visible_files(archive / RECENT) if _relative(path, archive) not in snapshot.replaced]
    parts = [(archive / HOURS, snapshot.hours), (archive / RECENT, recent), *snapshot.staged.items()]
    frames = [_frame(spark, base, files) for base, files in parts if files]
    if not frames:
        raise StorageFailed(f"{archive} has no messages: no Parquet files under {RECENT} or {HOURS}")
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def coverage(messages: DataFrame) -> DataFrame:
    """A row for each queue: how many rows there are, which are there twice and which are missing between the ends."""
    offsets = sql.count_distinct("queue_offset")
    span = sql.max("queue_offset") - sql.min("queue_offset") + 1
    return messages.groupBy("topic", "broker", "queue_id").agg(
        sql.count("*").alias("rows"),
        sql.min("queue_offset").alias("first_offset"),
        sql.max("queue_offset").alias("last_offset"),
        (sql.count("*") - offsets).alias("duplicates"),
        (span - offsets).alias("missing"),
    )


def coverage_by_topic(messages: DataFrame) -> DataFrame:
    """The same by topic; the first offsets of its queues are between two numbers."""
    return (
        coverage(messages)
        .groupBy("topic")
        .agg(
            sql.count("*").alias("queues"),
            sql.min("first_offset").alias("lowest_first"),
            sql.max("first_offset").alias("highest_first"),
            sql.sum("rows").alias("messages"),
            sql.sum("duplicates").alias("duplicates"),
            sql.sum("missing").alias("missing"),
        )
        .orderBy("topic")
    )


def session(master: str) -> SparkSession:
    """A Spark for the work on archives."""
    return embedded_session("ApogeeMQ archive", master)


@contextmanager
def logs_of_failures_alone(spark: SparkSession) -> Iterator[None]:
    """Ends the session, and removes its logs unless there was an error; an interrupt is none."""
    try:
        yield
    except Exception:
        spark.stop()
        raise
    except BaseException:
        _end(spark)
        raise
    _end(spark)


def _end(spark: SparkSession) -> None:
    logs = log_folder_of(spark)
    spark.stop()
    if logs is not None:
        shutil.rmtree(logs, ignore_errors=True)


class DeltaCompaction(NamedTuple):
    """What Delta did."""

    files_before: int
    files_after: int


def delta_session(master: str, packages: str | None = None) -> SparkSession:
    """The same with Delta, as the pipeline `archive-delta` has it, or from other `packages`; "" where Spark has its
    jars. ConfigError when these cannot be had."""
    parameters = {"topics": ".*"} if packages is None else {"topics": ".*", "packages": packages}
    logs = Path(tempfile.mkdtemp(prefix="apogeemq-spark-"))
    return open_session(read_pipeline("archive-delta", parameters), master, logs)


def compact_delta(spark: SparkSession, table: str) -> DeltaCompaction:
    """Compaction of an archive that is a Delta table: Delta's own, which is safe beside readers and writers.

    `table` is a folder or an URL. StorageFailed when it is no Delta table, or when Delta fails.
    """
    place = table if "://" in table else str(Path(table).absolute())  # Delta takes another one for a table's name
    try:
        metrics = spark.sql(f"OPTIMIZE delta.{quoted(place)}").select("metrics.*").first()
    except (PySparkException, Py4JJavaError) as error:
        raise StorageFailed(f"{table}: {failure_text(error)}") from None
    assert metrics is not None, "OPTIMIZE gives one row"
    return DeltaCompaction(metrics["numFilesRemoved"], metrics["numFilesAdded"])


# -- choosing ------------------------------------------------------------------------------------------------


def is_closed(name: str, before_ms: int) -> bool:
    """Whether the hour in a file's relative path ended before that time."""
    match = _PLACE.fullmatch(name)
    if match is None:
        return False
    begins = datetime.strptime(f"{match[1]} {match[2]}", "%Y-%m-%d %H").replace(tzinfo=UTC)
    return int(begins.timestamp() * 1000) + _HOUR_MS <= before_ms


def _next_inputs(archive: Path, ledger: Ledger, before_ms: int) -> list[str]:
    """Some that have not been replaced, of hours that are over; whole hours where the limits allow."""
    replaced = ledger.snapshot().replaced
    chosen: list[str] = []
    size = 0
    for path in visible_files(archive / RECENT):
        name = _relative(path, archive)
        if name in replaced or not is_closed(name, before_ms):
            continue
        size += path.stat().st_size
        if chosen and (size > MAX_BYTES_A_RUN or len(chosen) >= MAX_FILES_A_RUN):
            break
        chosen.append(name)
    return chosen


def _relative(path: Path, archive: Path) -> str:
    return str(path.relative_to(archive / RECENT))


# -- rewriting -----------------------------------------------------------------------------------------------


def _rewrite(spark: SparkSession, recent: Path, inputs: list[str], staging: Path, target_bytes: int) -> int:
    """The rows of the inputs, ordered by queue, in as few files as the size asks for; gives their number."""
    paths = [recent / name for name in inputs]
    messages = _frame(spark, recent, paths)
    counts = _file_counts(recent, paths, target_bytes)
    tasks = min(_MAX_TASKS, sum(counts.values()))
    (
        messages.repartition(tasks, *PARTITIONS, _share(counts))
        .sortWithinPartitions(*PARTITIONS, "broker", "queue_id", "queue_offset")
        .write.partitionBy(*PARTITIONS)
        .mode("error")
        .parquet(str(staging))
    )
    rows, expected = _frame(spark, staging, visible_files(staging)).count(), messages.count()
    if rows != expected:
        raise StorageFailed(f"compaction of {recent}: {rows} rows were written of {expected}; nothing was replaced")
    return rows


def _file_counts(recent: Path, paths: list[Path], target_bytes: int) -> dict[tuple[str, ...], int]:
    """By topic, date and hour: how many files of about the wanted size."""
    sizes: dict[tuple[str, ...], int] = {}
    for path in paths:
        # Folders are called name=value, the value escaped as in addresses of the web.
        place = tuple(unquote(part.partition("=")[2]) for part in path.parent.relative_to(recent).parts)
        sizes[place] = sizes.get(place, 0) + path.stat().st_size
    return {place: -(-size // target_bytes) for place, size in sizes.items()}


def _share(counts: dict[tuple[str, ...], int]) -> Column:
    """Which of the files of its hour a row goes to; a queue stays in one."""
    large = {"/".join(place): count for place, count in counts.items() if count > 1}
    if not large:
        return sql.lit(0)
    table = sql.create_map(*(sql.lit(word) for pair in large.items() for word in pair))
    count = sql.coalesce(sql.try_element_at(table, sql.concat_ws("/", *PARTITIONS)), sql.lit(1))
    return sql.pmod(sql.xxhash64("broker", "queue_id"), count)


def _frame(spark: SparkSession, base: Path, files: Iterable[Path]) -> DataFrame:
    """Of these files alone, with the columns that any of them has; what their folders say are texts, however much they
    look like numbers."""
    paths = [str(path) for path in files]
    try:
        columns = spark.read.option("mergeSchema", "true").parquet(*paths).schema.fields
    except (PySparkException, Py4JJavaError) as error:
        raise StorageFailed(f"the files of {base} do not go together: {failure_text(error)}") from None
    schema = StructType([*columns, *(StructField(name, StringType()) for name in PARTITIONS)])
    return spark.read.schema(schema).option("basePath", str(base)).parquet(*paths)
