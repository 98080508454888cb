"""`spark.readStream.format("rocketmq")` in a real Spark, of our servers and of Apache's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from apogeemq.spark.cluster import cluster_of
from tests.peers.process import wait_for
from tests.spark.direct_reads import numbered, options_of
from tests.spark.worlds import World

EARLIEST = {"startingOffsets": "earliest"}


class Archive:
    """A query from topics to a folder of Parquet files, which can be started again."""

    def __init__(self, spark: SparkSession, world: World, folder: Path, **options: str) -> None:
        self._spark = spark
        self._folder = folder
        self._options = {**world.options, **options}

    def _writer(self) -> DataStreamWriter:
        source = self._spark.readStream.format("rocketmq").options(**self._options).load()
        kept = source.select("topic", "broker", "queue_id", "queue_offset", "body")
        writer = kept.writeStream.format("parquet").option("path", str(self._folder / "out"))
        return writer.option("checkpointLocation", str(self._folder / "checkpoint"))

    def run_once(self) -> StreamingQuery:
        """Everything that is there now."""
        query = self._writer().trigger(availableNow=True).start()
        assert query.awaitTermination(90), "it does not end"
        return query

    @contextmanager
    def running(self) -> Iterator[StreamingQuery]:
        query = self._writer().trigger(processingTime="0 seconds").start()
        try:
            yield query
        finally:
            query.stop()

    def wait_for(self, count: int) -> None:
        wait_for(lambda: len(self.bodies()) >= count, f"{count} messages", timeout_s=60)

    def bodies(self) -> list[bytes]:
        """As they lie in the files: each as often as it was written."""
        if not list((self._folder / "out" / "_spark_metadata").glob("[0-9]*")):
            return []  # no batch has ended yet
        files = self._spark.read.schema("body binary").parquet(str(self._folder / "out"))
        return sorted(bytes(row.body) for row in files.collect())


def sources(query: StreamingQuery) -> list[dict[str, Any]]:
    return [json.loads(progress.json)["sources"][0] for progress in query.recentProgress]


def test_everything_that_is_there_in_batches_of_a_size(spark: SparkSession, any_world: World, tmp_path: Path) -> None:
    topic = any_world.topic(queues=2)
    any_world.fill(topic, numbered(3_000))
    archive = Archive(spark, any_world, tmp_path, subscribe=topic, **EARLIEST, maxOffsetsPerTrigger="1000")
    query = archive.run_once()
    assert archive.bodies() == sorted(numbered(3_000))
    seen = [source for source in sources(query) if source["numInputRows"]]
    assert [source["numInputRows"] for source in seen] == [1000, 1000, 1000]
    latest = seen[0]["latestOffset"][topic]
    assert sum(offset for queues in latest.values() for offset in queues.values()) == 3_000
    # Another run goes on where this one ended, also when there are more queues by then.
    any_world.create_topic(topic, 4)
    any_world.fill(topic, numbered(4_000, "later"))
    archive.run_once()
    assert archive.bodies() == sorted(numbered(3_000) + numbered(4_000, "later"))


def test_a_query_that_runs_finds_new_queues_and_topics(spark: SparkSession, world: World, tmp_path: Path) -> None:
    word = world.name("growing")
    world.create_topic(f"{word}-a", 1)
    world.fill(f"{word}-a", numbered(100))
    archive = Archive(spark, world, tmp_path, subscribePattern=f"{word}-.*", **EARLIEST)
    expected = numbered(100)
    with archive.running() as query:
        archive.wait_for(len(expected))
        world.create_topic(f"{word}-a", 3)
        world.fill(f"{word}-a", numbered(3_000, "queues"))
        world.create_topic(f"{word}-b", 2)
        world.fill(f"{word}-b", numbered(2_000, "topic"))
        expected += numbered(3_000, "queues") + numbered(2_000, "topic")
        archive.wait_for(len(expected))
        assert query.isActive
    assert archive.bodies() == sorted(expected)


def test_servers_restart_under_a_query(spark: SparkSession, any_world: World, tmp_path: Path) -> None:
    topic, group = any_world.topic(queues=2), any_world.name("group")
    options = {"subscribe": topic, "groupId": group, "commitOffsets": "true", **EARLIEST}
    archive = Archive(spark, any_world, tmp_path, **options)
    expected = numbered(1_000)
    any_world.fill(topic, expected)
    with archive.running() as query:
        archive.wait_for(len(expected))
        any_world.restart_broker(1)
        any_world.restart_name_server()
        for word in ("second", "third"):
            any_world.fill(topic, numbered(1_000, word))
            expected += numbered(1_000, word)
            archive.wait_for(len(expected))
        assert query.exception() is None
        # Where the group is, brokers are told at the beginning of the next batch.
        any_world.fill(topic, numbered(1, "last"))
        cluster = cluster_of(options_of(any_world, options).connection, group)
        queues = any_world.queues(topic)

        def told() -> int:
            return sum(offset or 0 for offset in cluster.committed(queues).values())

        wait_for(lambda: told() >= 3_000, "offsets of the group", timeout_s=60)


def test_a_query_whose_topic_is_deleted_says_so(spark: SparkSession, world: World, tmp_path: Path) -> None:
    from tests.spark.test_source_failures import delete_topic

    topic = world.topic(queues=1)
    world.fill(topic, numbered(100))
    impatient = {"retries": "3", "retryDelayMs": "50"}
    archive = Archive(spark, world, tmp_path, subscribe=topic, **EARLIEST, **impatient)
    with archive.running() as query:
        archive.wait_for(100)
        delete_topic(world, topic)
        with pytest.raises(StreamingQueryException, match=f"DataLost: messages from .* of topic {topic}"):
            query.awaitTermination(60)
            raise AssertionError("it goes on")


@pytest.mark.parametrize("fails_on_data_loss", ["true", "false"])
def test_a_query_whose_first_batch_fails_begins_where_it_began(
    spark: SparkSession, world: World, tmp_path: Path, fails_on_data_loss: str
) -> None:
    topic = world.topic(queues=2)
    world.fill(topic, numbered(1_000, "before"))
    given = {**world.options, "subscribe": topic, "startingOffsets": "latest", "failOnDataLoss": fails_on_data_loss}
    written: list[tuple[int, list[bytes]]] = []

    def run(write: Callable[[DataFrame, int], None]) -> None:
        source = spark.readStream.format("rocketmq").options(**given).load()
        writer = source.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(90), "it does not end"

    def fail(batch: DataFrame, epoch: int) -> None:
        raise RuntimeError("the disk is full")

    def keep(batch: DataFrame, epoch: int) -> None:
        written.append((epoch, sorted(bytes(row.body) for row in batch.collect())))

    with pytest.raises(StreamingQueryException, match="the disk is full"):
        run(fail)
    world.fill(topic, numbered(2_000, "after"))
    run(keep)
    assert written == [(0, []), (1, sorted(numbered(2_000, "after")))]
    run(keep)
    assert len(written) == 2, "there is nothing new"


def test_options_of_a_stream_are_checked(spark: SparkSession, world: World, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="unknown option startingoffset; did you mean startingOffsets"):
        Archive(spark, world, tmp_path, subscribe="a", startingOffset="earliest").run_once()
    with pytest.raises(PySparkException, match="option endingOffsets is for batches"):
        Archive(spark, world, tmp_path, subscribe="a", endingOffsets="latest").run_once()
