"""The audit: what was produced, stored and consumed, and what is missing or there twice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from apogeemq.blocking import Consumer, ConsumerOptions, Message, PullConsumer
from apogeemq.model.properties import UNIQUE_KEY, encode_properties
from apogeemq.model.topics import AUTO_CREATE_TOPIC
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers import broker as headers
from tests.spark.ready import run_ready, run_shown
from tests.spark.worlds import World

pytestmark = pytest.mark.timeout(300)

HOUR_MS = 3_600_000


def report(spark: SparkSession, path: Path) -> list[dict[str, Any]]:
    """A report without rows may have no file."""
    if not any(path.glob("*.parquet")):
        return []
    return [row.asDict() for row in spark.read.parquet(str(path)).collect()]


def audited(spark: SparkSession, world: World, tmp_path: Path, topics: str, groups: str = "", **more: str) -> Path:
    out = tmp_path / "out"
    given = {"name_server": world.address, "topics": topics, "groups": groups, "out": str(out), **more}
    run_ready(spark, "lag-audit", tmp_path / "state", **given)
    return out


def test_topics_and_groups(spark: SparkSession, any_world: World, tmp_path: Path) -> None:
    topic, group, idle = any_world.topic("audited"), any_world.name("group"), any_world.name("group")
    any_world.send(*(Message(topic, b"no. %d" % number) for number in range(90)))
    options = ConsumerOptions(start_from="first")
    with Consumer(any_world.address, group, topic=topic, options=options) as consumer:
        for _ in range(30):
            next(consumer).ack()
    out = audited(spark, any_world, tmp_path, topic, f"{group}, {idle}")

    (row,) = report(spark, out / "topics")
    assert (row["topic"], row["produced"], row["stored"], row["duplicates"]) == (topic, 90, 90, 0)
    assert 0 <= row["latency_ms_half"] <= row["latency_ms_95"] <= row["latency_ms_99"] <= row["latency_ms_most"]
    queues = report(spark, out / "queues")
    assert sum(row["stored"] for row in queues) == 90
    assert {row["missing_offsets"] for row in queues} == {0}
    assert report(spark, out / "duplicates") == []

    rows = [row for row in report(spark, out / "groups") if row["topic"] == topic]
    of_group = [row for row in rows if row["group"] == group]
    assert sum(row["consumed"] for row in of_group) == 30
    assert sum(row["waiting"] for row in of_group) == 60
    for row in of_group:
        assert (row["oldest_waiting_seconds"] is None) == (row["waiting"] == 0)
    of_idle = [row for row in rows if row["group"] == idle]
    assert sum(row["waiting"] for row in of_idle) == 90
    assert sum(row["consumed"] for row in of_idle) == 0


def test_what_is_shown_fits_on_a_terminal(spark: SparkSession, world: World, tmp_path: Path) -> None:
    topic = world.topic("shown")
    world.fill(topic, [b"one", b"two"])
    given = {"name_server": world.address, "topics": topic, "groups": "billing", "out": str(tmp_path / "out")}
    _, shown = run_shown(spark, "lag-audit", tmp_path / "state", **given)
    topics, groups = (shown[name].splitlines()[2] for name in ("show_topics", "show_groups"))
    for name in ("topic", "produced", "stored", "twice", "half_ms", "99%_ms", "most_ms"):
        assert f" {name} " in topics
    for name in ("group", "topic", "stored", "read", "waiting", "expired", "oldest_s"):
        assert f" {name} " in groups


def test_the_oldest_that_waits_may_be_outside_of_what_is_looked_at(
    spark: SparkSession, any_world: World, tmp_path: Path
) -> None:
    """Stored before `since`, or in the group's retry topic."""
    topic, group = any_world.topic("audited"), any_world.name("group")
    retries = f"%RETRY%{group}"
    any_world.create_topic(retries, 1)
    any_world.send(Message(topic, b"old"))
    any_world.send(Message(retries, b"again"))
    since = int(time.time() * 1000) + HOUR_MS
    out = audited(spark, any_world, tmp_path, topic, group, since=str(since))
    assert report(spark, out / "topics") == []

    waiting = [row for row in report(spark, out / "groups") if row["waiting"]]
    assert {row["topic"]: row["waiting"] for row in waiting} == {topic: 1, retries: 1}
    for row in waiting:
        assert 0 <= row["oldest_waiting_seconds"] < HOUR_MS / 1000
        assert row["oldest_waiting"] is not None


def test_a_group_beyond_the_end_of_a_queue_hides_nothing(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """As after a topic was made anew: the group of one queue has read more than there is, and two messages wait in
    another. The pattern is for everything."""
    topic, group = world.topic("anew", queues=1), world.name("group")
    beyond, other = world.queues(topic)
    world.put(other, [Message(topic, b"one"), Message(topic, b"two")])
    with PullConsumer(world.address, group) as consumer:
        consumer.pull(beyond, 0)  # its broker knows the group from then on
        consumer.update_consume_offset(beyond, 100)
    out = audited(spark, world, tmp_path, ".*", group)
    queues = [row for row in report(spark, out / "groups") if row["topic"] == topic]
    assert {(row["broker"], row["consumed"], row["waiting"]) for row in queues} == {
        (beyond.broker_name, 0, 0),
        (other.broker_name, 0, 2),
    }
    assert not any(row["topic"].startswith("rmq_sys_") for row in report(spark, out / "groups"))


def test_messages_that_are_there_twice_and_numbers_that_are_missing(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    """A producer of one process sends to two topics; of one of them, seen alone, numbers are missing."""
    topic, elsewhere = world.topic("gaps"), world.topic("elsewhere")
    for number in range(12):
        world.producer.send(elsewhere if number in (4, 5, 9) else topic, b"no. %d" % number)
    out = audited(spark, world, tmp_path, topic)
    (row,) = report(spark, out / "producers")
    assert (row["stored"], row["missing"], row["gaps"]) == (9, 3, 2)
    (both,) = report(spark, audited(spark, world, tmp_path / "both", f"{topic}|{elsewhere}") / "producers")
    assert (both["stored"], both["missing"], both["gaps"]) == (12, 0, 0)


def test_a_message_stored_twice_was_produced_once(spark: SparkSession, any_world: World, tmp_path: Path) -> None:
    """As after an answer that was lost: its producer sends it again, with the id it had."""
    topic = any_world.topic("twice")
    sent = any_world.send(Message(topic, b"once"), Message(topic, b"again"))
    header = headers.SendMessage(
        topic=topic,
        queue_id=1,
        system_flag=0,
        born_time=1_794_787_200_000,
        flag=0,
        producer_group="audit",
        default_topic=AUTO_CREATE_TOPIC,
        default_queue_nums=2,
        properties=encode_properties({UNIQUE_KEY: sent[1].message_id}),
    )
    answer = any_world.ask_broker(1, RequestCode.SEND_MESSAGE_V2, write_fields(header), b"again")
    assert answer.code == ResponseCode.SUCCESS
    out = audited(spark, any_world, tmp_path, topic)
    (row,) = report(spark, out / "topics")
    assert (row["produced"], row["stored"], row["duplicates"]) == (2, 3, 1)
    (twice,) = report(spark, out / "duplicates")
    assert (twice["msg_id"], twice["copies"]) == (sent[1].message_id, 2)
    first = sent[1].queue
    assert f"{first.broker_name}:{first.queue_id}:{sent[1].queue_offset}" in twice["places"]
    assert any(place.startswith("broker-b:1:") for place in twice["places"])
