"""`rocketmq-routes` in a real Spark: the journal of a name server, at once and as it grows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.worlds import World


def batch(spark: SparkSession, world: World, **options: str | int) -> DataFrame:
    return spark.read.format("rocketmq-routes").options(**world.options, **options).load()


def run_stream(spark: SparkSession, world: World, folder: Path, **options: str | int) -> StreamingQuery:
    """Everything that is there, after what the last run has read."""
    journal = spark.readStream.format("rocketmq-routes").options(**world.options, **options).load()
    query = (
        journal.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(100)
    return query


def test_the_journal_tells_of_every_change(spark: SparkSession, world: World) -> None:
    topic = world.topic("route", queues=3)
    journal = batch(spark, world).cache()
    sequences = [row.sequence for row in journal.orderBy("sequence").collect()]
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
    joined = journal.filter("kind = 'broker_joined'").select("name_server", "broker", "broker_id").distinct()
    assert set(map(tuple, joined.collect())) == {(world.address, name, 0) for name in ("broker-a", "broker-b")}
    added = journal.filter(F.col("topic") == topic)
    assert {(row.broker, row.kind, row.read_queues, row.write_queues, row.perm) for row in added.collect()} == {
        (name, "topic_added", 3, 3, 6) for name in ("broker-a", "broker-b")
    }
    assert journal.filter("time > current_timestamp() OR time < current_timestamp() - INTERVAL 1 HOUR").isEmpty()

    last = sequences[-1]
    tail = batch(spark, world, startingSequence=last - 1, endingSequence=last)
    assert [row.sequence for row in tail.collect()] == [last - 1]
    journal.unpersist()


def test_a_stream_reads_each_event_once_over_restarts(spark: SparkSession, world: World, tmp_path: Path) -> None:
    world.topic("before")
    first = run_stream(spark, world, tmp_path, maxEventsPerTrigger=15)
    assert len([one for one in first.recentProgress if one["numInputRows"]]) > 1
    assert max(one["numInputRows"] for one in first.recentProgress) <= 15
    topic = world.topic("after")
    run_stream(spark, world, tmp_path)
    written = spark.read.parquet(str(tmp_path / "out"))
    known = batch(spark, world).count()
    assert written.count() == known == written.select("sequence").distinct().count()
    assert written.filter(F.col("topic") == topic).count() == 2


def test_events_that_are_gone_fail_the_read(spark: SparkSession, world: World) -> None:
    with pytest.raises(PySparkException, match=r"ends before [0-9]+, not at 1000000"):
        batch(spark, world, endingSequence=1_000_000).count()
    everything = batch(spark, world).count()
    assert batch(spark, world, endingSequence=1_000_000, failOnDataLoss="false").count() == everything


def test_wrong_options_are_told(spark: SparkSession, world: World) -> None:
    with pytest.raises(PySparkException, match="unknown option startingoffsets; did you mean startingSequence"):
        batch(spark, world, startingOffsets="earliest")
    with pytest.raises(PySparkException, match="endingSequence is for batch reads"):
        spark.readStream.format("rocketmq-routes").options(**world.options, endingSequence=3).load().writeStream.format(
            "noop"
        ).start().awaitTermination(60)
