"""The topic sink that writes each epoch once: epochs that come again, and rows it refuses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from apogeemq.blocking import Producer
from apogeemq.errors import ConfigError, Superseded, WrongState
from apogeemq.spark.arrow_map import map_in_arrow
from apogeemq.spark.sink.epochs import TopicSink
from tests.peers.process import wait_for
from tests.spark.messages import messages_of
from tests.spark.worlds import World

ROWS = 2_000


@pytest.fixture(autouse=True)
def rows_come_in_small_batches(spark: SparkSession) -> Iterator[None]:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name) or "10000"
    spark.conf.set(name, "100")
    yield
    spark.conf.set(name, before)


def sink_of(spark: SparkSession, world: World, folder: Path, query_id: str = "query", **options: str) -> TopicSink:
    settings = {**world.options, "sendTimeoutMs": "2000", "batchMessages": "50", **options}
    return TopicSink(spark, settings, query_id, str(folder / "ledger"))


def numbered(spark: SparkSession, count: int = ROWS) -> DataFrame:
    """Bodies are long: a batch of rows that does not fill a buffer would wait in it for the next one."""
    body = sql.rpad(sql.col("id").cast("string"), 1_000, " ").alias("body")
    return spark.range(0, count, 1, 2).select(body, sql.col("id").alias("number"))


def bodies(world: World, topic: str) -> Counter[int]:
    return Counter(int(message.body) for message in messages_of(world, topic))


def failing(df: DataFrame, world: World, topic: str, marker: Path) -> DataFrame:
    """The same rows; but while the marker is there, each task fails once some of them are in the topic."""
    address, path = world.address, str(marker)

    def carry(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number >= 3 and Path(path).exists():
                _until_written(address, topic)
                raise RuntimeError("the task was told to fail")
            yield batch

    return map_in_arrow(df, carry, df.schema)


def _until_written(address: str, topic: str) -> None:
    with Producer(address, "looks") as producer:
        wait_for(
            lambda: any(producer.max_offset(queue) for queue in producer.publish_queues(topic)), "there are messages"
        )


def test_epochs_are_written_once(spark: SparkSession, any_world: World, tmp_path: Path) -> None:
    topic = any_world.topic("epochs")
    sink = sink_of(spark, any_world, tmp_path, topic=topic, idColumns="number")
    assert sink.write_epoch(numbered(spark), 0) == ROWS
    assert sink.write_epoch(numbered(spark, 10), 1) == 10
    assert sink.write_epoch(numbered(spark, 10), 1) == 10  # it is done
    again = sink_of(spark, any_world, tmp_path, topic=topic, idColumns="number")
    assert again.write_epoch(numbered(spark, 10), 1) == 10
    assert again.last_result is not None
    assert (again.last_result.written, again.last_result.is_replay) == (0, True)
    assert bodies(any_world, topic) == Counter(range(ROWS)) + Counter(range(10))
    with pytest.raises(WrongState, match="epoch 0 comes after epoch 1"):
        again.write_epoch(numbered(spark), 0)


def test_an_interrupted_epoch_leaves_out_what_is_there(spark: SparkSession, any_world: World, tmp_path: Path) -> None:
    topic, marker = any_world.topic("interrupted"), tmp_path / "marker"
    marker.touch()
    sink = sink_of(spark, any_world, tmp_path, topic=topic, idColumns="number")
    with pytest.raises(PySparkException, match="told to fail"):
        sink.write_epoch(failing(numbered(spark), any_world, topic, marker), 0)
    partly = sum(bodies(any_world, topic).values())
    assert 0 < partly < ROWS
    marker.unlink()
    again = sink_of(spark, any_world, tmp_path, topic=topic, idColumns="number")
    # Another number of partitions: ids do not depend on where a row is.
    assert again.write_epoch(failing(numbered(spark).repartition(3), any_world, topic, marker), 0) == ROWS
    result = again.last_result
    assert result is not None
    assert result.is_replay
    assert result.left_out >= partly
    assert result.written == ROWS - result.left_out
    assert bodies(any_world, topic) == Counter(range(ROWS))
    assert len({message.message_id for message in messages_of(any_world, topic)}) == ROWS


def waiting(df: DataFrame, gate: Path) -> DataFrame:
    """The same rows; but after the first of them each task stands still until the gate is there."""
    path = str(gate)

    def carry(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number >= 3:
                wait_for(Path(path).exists, "the gate is there", timeout_s=90)
            yield batch

    return map_in_arrow(df, carry, df.schema)


def test_tasks_of_a_driver_that_was_superseded_write_nothing_more(
    spark: SparkSession, any_world: World, tmp_path: Path
) -> None:
    """The tasks of the first driver stand still in the middle of an epoch, as on a machine that is cut off; when they
    wake, a second driver has written the epoch."""
    topic, gate = any_world.topic("zombies"), tmp_path / "gate"
    first = sink_of(spark, any_world, tmp_path, topic=topic, idColumns="number")
    second = sink_of(spark, any_world, tmp_path, topic=topic, idColumns="number")
    rows = waiting(numbered(spark).coalesce(1), gate)  # the other core is the second driver's
    with ThreadPoolExecutor(1) as threads:
        zombie = threads.submit(first.write_epoch, rows, 0)
        wait_for(lambda: sum(any_world.max_offsets(topic).values()) > 0, "the first driver writes")
        try:
            assert second.write_epoch(numbered(spark), 0) == ROWS
        finally:
            gate.touch()
        with pytest.raises((PySparkException, Superseded), match="superseded"):
            zombie.result(timeout=60)
    assert second.last_result is not None
    assert second.last_result.left_out > 0
    assert bodies(any_world, topic) == Counter(range(ROWS))


# -- streams -------------------------------------------------------------------------------------------------


def run(df: DataFrame, write: Callable[[DataFrame, int], object], folder: Path, mode: str = "append") -> None:
    def write_batch(batch: DataFrame, epoch: int) -> None:
        write(batch, epoch)

    writer = df.writeStream.foreachBatch(write_batch).outputMode(mode).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


def stream(spark: SparkSession, world: World, topic: str) -> DataFrame:
    reader = spark.readStream.format("rocketmq").options(**world.options, subscribe=topic)
    return reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="500").load()


def test_a_stream_row_by_row_needs_no_columns_of_ids(spark: SparkSession, world: World, tmp_path: Path) -> None:
    source, target = world.topic("source"), world.topic("target")
    world.fill(source, (b"%d" % number for number in range(ROWS)))
    rows = stream(spark, world, source).where("cast(cast(body as string) as int) % 2 = 0")
    rows = rows.select("topic", "broker", "queue_id", "queue_offset", "body")
    twice = rows.withColumn("part", sql.explode(sql.array(sql.lit("0"), sql.lit("1"))))
    twice = twice.withColumn("body", sql.concat(sql.col("part"), sql.col("body").cast("string"))).drop("part")
    sink = sink_of(spark, world, tmp_path, topic=target)
    sink.check(rows)
    run(twice, sink.write_epoch, tmp_path)
    found = messages_of(world, target)
    expected = Counter(f"{part}{number}" for part in "01" for number in range(0, ROWS, 2))
    assert Counter(message.body.decode() for message in found) == expected
    assert len({message.message_id for message in found}) == len(found)


def test_a_stream_with_state_needs_columns_of_ids(spark: SparkSession, world: World, tmp_path: Path) -> None:
    source, target = world.topic("source"), world.topic("target")
    world.fill(source, (b"%d" % (number % 10) for number in range(ROWS)))
    counts = stream(spark, world, source).groupBy(sql.col("body").cast("string").alias("digit")).count()
    rows = counts.select("digit", sql.to_json(sql.struct("digit", "count")).alias("body"))
    run(rows, sink_of(spark, world, tmp_path, topic=target, idColumns="digit").write_epoch, tmp_path, "update")
    found = messages_of(world, target)
    assert len({message.message_id for message in found}) == len(found)
    last = {row["digit"]: row["count"] for row in (json.loads(message.body) for message in found)}
    assert sorted(last) == [str(digit) for digit in range(10)]
    assert {row["count"] for row in (json.loads(message.body) for message in found)} >= {ROWS // 10}


# -- what it refuses -----------------------------------------------------------------------------------------

PLACE = ("'T' as topic", "'b' as broker", "0 as queue_id", "id as queue_offset", "cast(id as string) as body")


def test_rows_without_ids_are_refused(spark: SparkSession, world: World, tmp_path: Path) -> None:
    rows = spark.range(10).selectExpr(*PLACE)
    sink = sink_of(spark, world, tmp_path, topic=world.topic())
    for wrong, words in (
        (rows.select("body"), "rows have no id: there are no columns topic"),
        (rows.repartition(2), "rows have no id: after RepartitionByExpression|rows have no id: after Repartition"),
        (rows.union(rows), "rows have no id: after Union"),
        (rows.join(rows.select("queue_id"), "queue_id"), "rows have no id: after Join"),
        (rows.orderBy("body"), "rows have no id: after Sort"),
        (rows.distinct(), "rows have no id: after Deduplicate"),
    ):
        with pytest.raises(ConfigError, match=words):
            sink.write_epoch(wrong, 0)


def test_a_shuffle_before_a_batch_of_a_stream_is_seen(spark: SparkSession, world: World, tmp_path: Path) -> None:
    source, target = world.topic("source"), world.topic("target")
    world.fill(source, (b"%d" % number for number in range(10)))
    rows = stream(spark, world, source).select("topic", "broker", "queue_id", "queue_offset", "body")
    with pytest.raises(PySparkException, match="rows have no id: after ShuffledRowRDD"):
        run(rows.repartition(2), sink_of(spark, world, tmp_path, topic=target).write_epoch, tmp_path)
    assert messages_of(world, target) == []


def test_rows_with_the_same_id_are_refused(spark: SparkSession, world: World, tmp_path: Path) -> None:
    topic = world.topic("same")
    rows = numbered(spark, 100).coalesce(1).withColumn("number", sql.col("number") % 99)
    with pytest.raises(PySparkException, match="1 rows of one epoch have the same id"):
        sink_of(spark, world, tmp_path, topic=topic, idColumns="number").write_epoch(rows, 0)


def test_what_cannot_be_read_back_is_refused(spark: SparkSession, world: World, tmp_path: Path) -> None:
    rows = numbered(spark, 10)
    sink = sink_of(spark, world, tmp_path, topic=world.topic(), idColumns="number")
    with pytest.raises(ConfigError, match="column delay cannot be written once"):
        sink.write_epoch(rows.withColumn("delay", sql.lit(1)), 0)
    with pytest.raises(ConfigError, match="option topics must list"):
        sink_of(spark, world, tmp_path)
    with pytest.raises(ConfigError, match="brokers pass its messages on"):
        sink_of(spark, world, tmp_path, topic="%RETRY%group")


def test_speculation_is_refused(spark: SparkSession, world: World, tmp_path: Path) -> None:
    sink = sink_of(spark, world, tmp_path, topic=world.topic(), idColumns="number")
    settings = spark.sparkContext._conf
    settings.set("spark.speculation", "true")
    try:
        with pytest.raises(ConfigError, match=r"spark\.speculation is true"):
            sink.write_epoch(numbered(spark, 10), 0)
    finally:
        settings.set("spark.speculation", "false")
