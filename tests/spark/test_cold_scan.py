"""`rocketmq-store` in a real Spark: what it reads from the folders of brokers is what their consumers get."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from apogeemq.blocking import Message
from tests.spark.worlds import World
from tests.unit.spark.cold.conftest import Filled

LARGE = b"large " * 2000  # is compressed
BULK = 4000


def comparable(rows: DataFrame) -> DataFrame:
    """Maps cannot be compared."""
    return rows.withColumn("properties", F.array_sort(F.map_entries("properties")))


def is_same(one: DataFrame, other: DataFrame) -> bool:
    mine, theirs = comparable(one), comparable(other)
    return mine.exceptAll(theirs).isEmpty() and theirs.exceptAll(mine).isEmpty()


def folders(world: World) -> list[tuple[str, Path]]:
    return [(broker.broker_name, broker.work_dir / "store") for broker in world.brokers]


def cold(spark: SparkSession, world: World, **options: str) -> DataFrame:
    """The folders of both brokers together."""
    one, other = (
        spark.read.format("rocketmq-store").options(brokerName=name, **options).load(str(path))
        for name, path in folders(world)
    )
    return one.unionAll(other)


def fill(world: World) -> str:
    topic = world.topic("cold")
    world.fill(topic, (b"%d" % number for number in range(BULK)), tags="bulk")
    world.send(
        Message(topic, b"plain"),
        Message(topic, LARGE, keys=["a", "b"], tags="large"),
        Message(topic, b"with properties", properties={"colour": "blau ü", "empty": "x"}),
        Message(topic, b"last"),
    )
    return topic


def test_a_scan_of_running_brokers_gives_what_consumers_get(spark: SparkSession, any_world: World) -> None:
    topic = fill(any_world)
    hot = spark.read.format("rocketmq").options(**any_world.options, subscribe=topic).load()
    scanned = cold(spark, any_world, topics=topic).cache()
    assert scanned.count() == BULK + 4
    assert is_same(scanned, hot)
    assert scanned.filter(F.col("body") == F.lit(LARGE)).select("keys", "tags").collect() == [(["a", "b"], "large")]

    # Filters are answered by the scan itself, and mean the same as Spark's own.
    middle = scanned.selectExpr("percentile_approx(store_timestamp, 0.5)").first()
    assert middle is not None
    everything = cold(spark, any_world)
    filtered = everything.filter((F.col("topic") == topic) & (F.col("store_timestamp") >= middle[0]))
    assert is_same(filtered, scanned.filter(F.col("store_timestamp") >= middle[0]))
    scanned.unpersist()


def test_a_scan_needs_no_broker(spark: SparkSession, any_world: World) -> None:
    topic = fill(any_world)
    any_world.brokers[0].kill()
    any_world.brokers[1].stop()
    counted = cold(spark, any_world, topics=topic, columns="broker,tags").groupBy("tags").count().collect()
    assert dict(map(tuple, counted)) == {"bulk": BULK, "large": 1, None: 3}


def test_damage_is_told_by_its_file_and_offset(spark: SparkSession, tmp_path: Path) -> None:
    filled = Filled(tmp_path / "store")
    filled.fill("Orders", 1000)
    filled.close()
    path = filled.log_file(1)
    data = bytearray(path.read_bytes())
    data[1000:1400] = bytes(400)
    path.write_bytes(data)
    rows = spark.read.format("rocketmq-store").option("topics", "Orders")
    with pytest.raises(PySparkException, match=rf"{path} is damaged: there are no records from offset \d+ to \d+"):
        rows.load(str(filled.root)).count()
    kept = rows.option("onCorrupt", "skip").load(str(filled.root)).count()
    assert 990 <= kept < 1000


def test_wrong_options_and_folders_are_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="unknown option topic; did you mean topics"):
        spark.read.format("rocketmq-store").option("topic", "T").load(str(tmp_path))
    with pytest.raises(PySparkException, match="has neither a folder commitlog nor files of a log"):
        spark.read.format("rocketmq-store").load(str(tmp_path)).count()
