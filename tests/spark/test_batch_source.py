"""`spark.read.format("rocketmq")` in a real Spark, of our servers and of Apache's."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from apogeemq.model.messages import Message
from apogeemq.spark import FILTER_PUSH_DOWN, register
from apogeemq.spark.source.schema import spark_schema
from tests.spark.direct_reads import numbered
from tests.spark.worlds import World


def frame(spark: SparkSession, world: World, **options: str) -> DataFrame:
    return spark.read.format("rocketmq").options(**world.options, **options).load()


def bodies(found: DataFrame) -> list[bytes]:
    return sorted(bytes(row.body) for row in found.select("body").collect())


def test_every_column_of_a_message(spark: SparkSession, any_world: World) -> None:
    topic = any_world.topic(queues=1)
    before = datetime.now(UTC) - timedelta(minutes=1)
    message = Message(topic, b"\x00\xffbody", tags="paid", keys=["k1", "k2"], properties={"colour": "grün"})
    sent = any_world.send(message, Message(topic, b"plain" * 5_000))
    found = frame(spark, any_world, subscribe=topic)
    assert found.schema == spark_schema()
    rows = {row.msg_id: row for row in found.collect()}
    assert rows.keys() == {one.message_id for one in sent}
    row = rows[sent[0].message_id]
    assert (row.topic, row.broker, row.queue_id) == (topic, sent[0].queue.broker_name, sent[0].queue.queue_id)
    assert row.queue_offset == sent[0].queue_offset
    assert (bytes(row.body), row.tags, row["keys"]) == (b"\x00\xffbody", "paid", ["k1", "k2"])
    assert row.properties["colour"] == "grün"
    assert not {"UNIQ_KEY", "KEYS", "TAGS", "WAIT"} & row.properties.keys()
    everything = frame(spark, any_world, subscribe=topic, includeProperties="all").where(f"msg_id = '{row.msg_id}'")
    of_system = {"UNIQ_KEY": row.msg_id, "KEYS": "k1 k2", "TAGS": "paid", "WAIT": "true"}
    assert everything.first().properties == {**row.properties, **of_system}  # type: ignore[union-attr]
    assert before < row.born_timestamp.replace(tzinfo=UTC) <= row.store_timestamp.replace(tzinfo=UTC)
    assert row.born_host.startswith("127.0.0.1:")
    assert row.reconsume_times == 0
    plain = rows[sent[1].message_id]
    assert (plain.tags, plain["keys"]) == (None, None)
    assert bytes(plain.body) == b"plain" * 5_000, "it was compressed on its way"


def test_many_messages_in_many_tasks(spark: SparkSession, any_world: World) -> None:
    topic = any_world.topic(queues=4)
    sent = numbered(20_000)
    any_world.fill(topic, sent)
    found = frame(spark, any_world, subscribe=topic, minPartitions="6")
    assert found.rdd.getNumPartitions() == 6
    assert bodies(found) == sorted(sent)
    assert frame(spark, any_world, subscribe=topic, maxRecordsPerPartition="3000").rdd.getNumPartitions() >= 7


def test_every_column_of_megabytes(spark: SparkSession, any_world: World) -> None:
    """Spark is given them in several portions, each of which has to be right in all its columns."""
    topic = any_world.topic(queues=1)
    queue = any_world.queues(topic)[0]
    count = 4_000
    messages = [
        Message(
            topic,
            b"%d:" % number + b"x" * (1_000 + number % 7),
            tags=f"tag-{number}" if number % 3 else "",
            keys=[f"key-{number}-{key}" for key in range(number % 4)],
            properties={"number": str(number), "even": "yes"} if number % 2 == 0 else {},
        )
        for number in range(count)
    ]
    for start in range(0, count, 1_000):
        any_world.put(queue, messages[start : start + 1_000])
    found = frame(spark, any_world, assign=json.dumps({topic: {queue.broker_name: [queue.queue_id]}}))
    rows = found.orderBy("queue_offset").collect()
    assert [row.queue_offset for row in rows] == list(range(count))
    for row, message in zip(rows, messages, strict=True):
        assert bytes(row.body) == message.body
        assert (row.tags, row["keys"]) == (message.tags or None, list(message.keys) or None)
        assert {name: row.properties.get(name) for name in message.properties} == message.properties
        assert (row.topic, row.queue_id) == (topic, queue.queue_id)
    assert len({row.msg_id for row in rows}) == count


def test_columns_that_are_not_needed_are_spared(spark: SparkSession, world: World) -> None:
    topic = world.topic(queues=1)
    world.fill(topic, numbered(10))
    assert frame(spark, world, subscribe=topic, columns="queue_offset,body").columns == ["queue_offset", "body"]
    lean = frame(spark, world, subscribe=topic, includeBody="false", includeProperties="false")
    assert not {"body", "properties"} & set(lean.columns)
    assert lean.count() == 10
    by_hand = spark.read.format("rocketmq").schema("body binary, topic string").options(**world.options)
    assert by_hand.option("subscribe", topic).load().columns == ["body", "topic"]
    assert by_hand.option("subscribe", topic).load().count() == 10


def test_filters_are_handed_over_and_mean_the_same(spark: SparkSession, any_world: World) -> None:
    topic = any_world.topic(queues=2)
    for queue in any_world.queues(topic):
        messages = [Message(topic, body, tags="a" if index % 3 else "b") for index, body in enumerate(numbered(30))]
        any_world.put(queue, messages)
    everything = [row.asDict() for row in frame(spark, any_world, subscribe=topic).collect()]
    assert len(everything) == 120
    middle = everything[60]["store_timestamp"]
    for condition, holds in {
        "queue_id = 1 and broker = 'broker-a'": lambda row: row["queue_id"] == 1 and row["broker"] == "broker-a",
        "queue_offset >= 10 and queue_offset < 12": lambda row: 10 <= row["queue_offset"] < 12,
        "tags = 'b'": lambda row: row["tags"] == "b",
        "tags in ('a', 'c') and queue_id <> 0": lambda row: row["tags"] == "a" and row["queue_id"] != 0,
        f"topic like '{topic[:5]}%' and queue_offset = 7": lambda row: row["queue_offset"] == 7,
        "topic = 'another'": lambda row: False,
        f"store_timestamp >= timestamp'{middle}Z'": lambda row: row["store_timestamp"] >= middle,
        f"store_timestamp < timestamp'{middle}Z'": lambda row: row["store_timestamp"] < middle,
        "queue_id = 0 or queue_offset = 3": lambda row: row["queue_id"] == 0 or row["queue_offset"] == 3,
        "tags is null": lambda row: row["tags"] is None,
    }.items():
        found = frame(spark, any_world, subscribe=topic).filter(condition)
        assert found.count() == sum(map(holds, everything)), condition


def test_a_session_without_push_down(spark: SparkSession, world: World) -> None:
    topic = world.topic(queues=1)
    world.fill(topic, numbered(10))
    other = spark.newSession()
    register(other)
    other.conf.set(FILTER_PUSH_DOWN, "false")
    reader = other.read.format("rocketmq").options(**world.options, subscribe=topic)
    for option in ("true", "false"):
        assert reader.option("pushFilters", option).load().filter("queue_offset < 5").count() == 5


def test_sql_over_several_topics(spark: SparkSession, any_world: World) -> None:
    word = any_world.name("joined")
    for number in range(2):
        any_world.create_topic(f"{word}-{number}", 1)
        orders = (json.dumps({"id": order, "of": number}).encode() for order in range(500))
        any_world.fill(f"{word}-{number}", orders)
    frame(spark, any_world, subscribePattern=f"{word}-.*").createOrReplaceTempView("messages")
    found = spark.sql(
        "select topic, count(*) as n, sum(get_json_object(cast(body as string), '$.id')) as ids "
        "from messages group by topic order by topic"
    ).collect()
    assert [(row.topic, row.n, row.ids) for row in found] == [
        (f"{word}-{number}", 500, sum(range(500))) for number in range(2)
    ]


def test_nothing_to_read_is_an_empty_frame(spark: SparkSession, world: World) -> None:
    topic = world.topic(queues=2)
    assert frame(spark, world, subscribe=topic).count() == 0
    assert frame(spark, world, subscribe=topic).filter(col("topic") == "another").collect() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "a", "subscribePattern": "b"}, "subscribe and subscribePattern exclude each other"),
        ({"subscribe": "a", "maxOffsetPerTrigger": "1"}, "did you mean maxOffsetsPerTrigger"),
        ({"subscribe": "a", "startingOffsets": "{"}, "option startingOffsets is '{'"),
        ({}, "what to read is missing"),
    ],
)
def test_options_are_checked_when_the_frame_is_made(
    spark: SparkSession, world: World, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        frame(spark, world, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "a", "maxOffsetsPerTrigger": "1"}, "option maxOffsetsPerTrigger is for streams"),
        ({"subscribe": "Spark-nothing"}, "NoRoute: no route of topic Spark-nothing"),
    ],
)
def test_what_only_a_query_can_find_out(
    spark: SparkSession, world: World, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        frame(spark, world, **options).count()
