"""`df.write` and `df.writeStream` to topics of our brokers and of Apache's."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from apogeemq.blocking import PullConsumer, PullOptions, ReceivedMessage
from tests.peers.process import wait_for
from tests.spark.messages import messages_of
from tests.spark.worlds import World

PATIENT = {"sendTimeoutMs": "30000", "requestTimeoutMs": "30000"}


def write(df: DataFrame, world: World, **options: Any) -> None:
    df.write.format("rocketmq").options(**world.options, **{**PATIENT, **options}).mode("append").save()


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).withColumn("body", sql.col("id").cast("string"))


def own_properties(message: ReceivedMessage) -> dict[str, str]:
    return {name: value for name, value in message.properties.items() if name.startswith("my")}


def test_every_row_becomes_a_message_with_all_it_has(spark: SparkSession, any_world: World) -> None:
    topic = any_world.topic("write")
    rows = numbers(spark, 5_000, 3).select(
        sql.col("body").cast("binary").alias("body"),
        sql.array(sql.col("body"), sql.lit("all")).alias("keys"),
        sql.when(sql.col("id") % 2 == 0, "even").alias("tags"),
        sql.create_map(sql.lit("my number"), sql.col("body"), sql.lit("my other"), sql.lit("ü")).alias("properties"),
    )
    write(rows, any_world, topic=topic, batchMessages=300)
    found = messages_of(any_world, topic)
    assert Counter(int(message.body) for message in found) == Counter(range(5_000))
    assert len({message.message_id for message in found}) == 5_000
    for message in found:
        text = message.body.decode()
        assert message.keys == [text, "all"]
        assert message.tags == ("even" if int(text) % 2 == 0 else "")
        assert own_properties(message) == {"my number": text, "my other": "ü"}
    per_queue = Counter(message.queue for message in found)
    assert set(per_queue) == set(any_world.queues(topic))


def test_rows_say_which_topic_they_go_to(spark: SparkSession, any_world: World) -> None:
    topics = [any_world.topic("first"), any_world.topic("second")]
    rows = numbers(spark, 1_000).select(
        "body", sql.when(sql.col("id") < 300, topics[0]).otherwise(topics[1]).alias("topic")
    )
    write(rows, any_world)
    assert {int(message.body) for message in messages_of(any_world, topics[0])} == set(range(300))
    assert {int(message.body) for message in messages_of(any_world, topics[1])} == set(range(300, 1_000))


def test_a_topic_is_made_by_the_first_message(spark: SparkSession, any_world: World) -> None:
    topic = any_world.name("made")
    write(numbers(spark, 100).select("body"), any_world, topic=topic, topicQueues=3)
    wait_for(lambda: any_world.queues(topic), "the topic is known")
    wait_for(lambda: len(messages_of(any_world, topic)) == 100, "all brokers are known to have it")


def test_rows_of_one_key_are_in_one_queue_in_order(spark: SparkSession, any_world: World) -> None:
    topic = any_world.topic("ordered")
    rows = numbers(spark, 2_000).withColumn("sharding_key", (sql.col("id") % 7).cast("string"))
    rows = rows.repartition(2, "sharding_key").sortWithinPartitions("id").select("body", "sharding_key")
    write(rows, any_world, topic=topic, batchMessages=20)
    by_key: dict[str, list[ReceivedMessage]] = {}
    for message in messages_of(any_world, topic):
        by_key.setdefault(message.properties["__SHARDINGKEY"], []).append(message)
    assert set(by_key) == {str(key) for key in range(7)}
    for key, found in by_key.items():
        assert len({message.queue for message in found}) == 1
        assert [int(message.body) for message in found] == list(range(int(key), 2_000, 7))


def test_large_bodies_are_compressed(spark: SparkSession, any_world: World) -> None:
    topic = any_world.topic("compressed")
    rows = numbers(spark, 20).select(sql.expr("repeat(body, 5000)").alias("body"))
    write(rows, any_world, topic=topic, compression="zlib")
    found = messages_of(any_world, topic)
    assert {bytes(message.body) for message in found} == {str(number).encode() * 5000 for number in range(20)}
    with PullConsumer(any_world.address, any_world.name("raw"), options=PullOptions(joins_group=False)) as consumer:
        stored = sum(len(consumer.pull_raw(queue, 0).records) for queue in any_world.queues(topic))
    assert stored < sum(len(message.body) for message in found) / 10


def test_delayed_messages_come_later(spark: SparkSession, any_world: World) -> None:
    topic = any_world.topic("delayed")
    rows = numbers(spark, 20).select("body", (sql.col("id") % 2).cast("int").alias("delay"))
    write(rows, any_world, topic=topic)
    wait_for(lambda: len(messages_of(any_world, topic)) == 20, "all are delivered", timeout_s=30)
    found = {int(message.body): message for message in messages_of(any_world, topic)}
    assert all(found[number].store_time_ms - found[number].born_time_ms >= 900 for number in range(1, 20, 2))


def test_messages_come_at_their_time(spark: SparkSession, apache_world: World) -> None:
    world = apache_world
    topic, due_ms = world.topic("timed"), int(time.time() * 1000) + 3_000
    rows = numbers(spark, 10).select("body", sql.timestamp_millis(sql.lit(due_ms)).alias("deliver_at"))
    write(rows, world, topic=topic)
    wait_for(lambda: len(messages_of(world, topic)) == 10, "all are delivered", timeout_s=60)
    assert all(message.store_time_ms >= due_ms - 1_000 for message in messages_of(world, topic))


def test_ours_does_not_deliver_at_a_time_and_says_so(spark: SparkSession, world: World) -> None:
    topic = world.topic("timed")
    rows = numbers(spark, 10).select("body", sql.current_timestamp().alias("deliver_at"))
    with pytest.raises(PySparkException, match="accurate timer message is not enabled"):
        write(rows, world, topic=topic, retries=0)
    assert messages_of(world, topic) == []


def test_ids_of_key_columns_are_the_same_each_time(spark: SparkSession, world: World) -> None:
    topic = world.topic("ids")
    rows = numbers(spark, 500)
    for partitions in (1, 3):
        write(rows.repartition(partitions), world, topic=topic, idColumns="id", queryId="mine")
    write(rows, world, topic=topic, idColumns="id", queryId="other")
    ids = Counter(message.message_id for message in messages_of(world, topic))
    assert Counter(ids.values()) == {2: 500, 1: 500}


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({"price": "id"}, {}, "columns price have no place in a message"),
        ({"tags": "id"}, {}, "column tags is bigint: expected string"),
        ({}, {"batchSize": "5"}, "unknown option batchsize"),
        ({}, {"idColumns": "nothing"}, "idColumns names nothing"),
        ({}, {"compressAbove": "5"}, "option compressAbove needs compression"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    spark: SparkSession, world: World, change: dict[str, str], options: dict[str, str], words: str
) -> None:
    topic = world.topic("wrong")
    rows = numbers(spark, 10).select("body", *(sql.col(source).alias(name) for name, source in change.items()))
    with pytest.raises(PySparkException, match=words):
        write(rows, world, topic=topic, **options)
    assert messages_of(world, topic) == []


def test_a_topic_cannot_be_overwritten(spark: SparkSession, world: World) -> None:
    rows = numbers(spark, 10).select("body").write.format("rocketmq").options(**world.options, topic=world.topic())
    with pytest.raises(PySparkException, match="a topic only grows"):
        rows.mode("overwrite").save()


def test_a_row_without_a_body_fails_the_write(spark: SparkSession, world: World) -> None:
    rows = numbers(spark, 10).select(sql.when(sql.col("id") != 7, sql.col("body")).alias("body"))
    with pytest.raises(PySparkException, match="1 rows have no body"):
        write(rows, world, topic=world.topic("null"))


def test_a_stream_is_written(spark: SparkSession, any_world: World, tmp_path: Path) -> None:
    source, target = any_world.topic("source"), any_world.topic("target")
    count = any_world.fill(source, (b"%d" % number for number in range(3_000)))
    stream = spark.readStream.format("rocketmq").options(**any_world.options, subscribe=source)
    rows = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "1000").load()
    query = (
        rows.select("body", "keys", "tags")
        .writeStream.format("rocketmq")
        .options(**any_world.options, **PATIENT, topic=target, checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert Counter(int(message.body) for message in messages_of(any_world, target)) == Counter(range(count))
    progress = query.lastProgress
    assert progress is not None
    assert progress["batchId"] >= 2
