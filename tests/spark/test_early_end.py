"""Reads that end before all is read: Spark has what it wants, or gives the job up."""

from __future__ import annotations

import json
import time

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

from apogeemq.protocol.codes import RequestCode
from tests.peers.process import wait_for
from tests.spark.direct_reads import numbered
from tests.spark.worlds import World


def filled(world: World, count: int) -> str:
    """A topic with one queue at each broker, and far more messages than are read ahead."""
    topic = world.topic(queues=1)
    world.fill(topic, numbered(count))
    return topic


def frame(spark: SparkSession, world: World, topic: str) -> DataFrame:
    return spark.read.format("rocketmq").options(**world.options, subscribe=topic).load()


def given(world: World) -> int:
    """How many messages the brokers have given to whoever pulls."""
    answers = (world.ask_broker(number, RequestCode.GET_BROKER_RUNTIME_INFO) for number in (0, 1))
    return sum(int(json.loads(answer.body)["table"]["msgGetTotalTodayNow"]) for answer in answers)


def given_in_the_end(world: World) -> int:
    """The same, once nobody pulls any more."""
    seen = [-1]

    def is_quiet() -> bool:
        seen.append(given(world))
        return seen[-1] == seen[-2]

    wait_for(is_quiet, "pulls end", interval_s=0.5)
    return seen[-1]


def test_a_limit_ends_the_pulls(spark: SparkSession, world: World) -> None:
    topic, before = filled(world, 240_000), given(world)
    assert len(frame(spark, world, topic).limit(5).collect()) == 5
    assert given_in_the_end(world) - before < 120_000
    assert frame(spark, world, topic).count() == 240_000


def test_a_job_that_is_cancelled_ends_the_pulls(spark: SparkSession, world: World) -> None:
    topic, before, failures = filled(world, 60_000), given(world), list[Exception]()
    rows = frame(spark, world, topic).rdd.map(lambda row: time.sleep(0.01))  # one by one: it would take minutes

    def count() -> None:
        spark.sparkContext.setJobGroup("early end", "a job that is cancelled", interruptOnCancel=True)
        try:
            rows.count()
        except Exception as error:  # it comes from py4j
            failures.append(error)

    counting = InheritableThread(target=count)
    counting.start()
    wait_for(lambda: given(world) > before, "the job reads")
    spark.sparkContext.cancelJobGroup("early end")
    counting.join()
    assert "cancelled" in str(failures[0])
    given_in_the_end(world)
    assert frame(spark, world, topic).count() == 60_000
