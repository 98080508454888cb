"""Requests, and what of them is in the queues of brokers of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np

from apogeemq.client import MessageQueue, Producer, PullConsumer
from apogeemq.protocol.batch import encode_batch
from apogeemq.spark.cluster import Cluster as SparkCluster
from apogeemq.spark.connection import Connection
from apogeemq.spark.hex_digits import in_hex
from apogeemq.spark.sink.columns import SinkColumns
from apogeemq.spark.sink.epoch_task import EpochGuard, EpochPlan, fence_of
from apogeemq.spark.sink.ids import IdScope
from apogeemq.spark.sink.ledger import EpochRun
from apogeemq.spark.sink.requests import ANY_QUEUE, Request
from apogeemq.spark.sink.write_options import WriteOptions, read_write_options
from tests.unit.client.cluster import Cluster

SCOPE = IdScope("q", 0)
GROUP = "fence"


def options_for(it: Cluster, **options: str) -> WriteOptions:
    return read_write_options(
        {"nameServer": it.address, "topic": "T", "retries": "3", "retryDelayMs": "1", "sendTimeoutMs": "500", **options}
    )


def request(*bodies: bytes, queue: int = ANY_QUEUE, topic: str = "T") -> Request:
    """Bodies are the keys of the messages."""
    ids = SCOPE.of_keys(bodies)
    texts = [b"UNIQ_KEY\x01" + bytes(text) + b"\x02" for text in in_hex(ids)]
    data = encode_batch([(0, body, text) for body, text in zip(bodies, texts, strict=True)])
    return Request(topic, queue, data, ids)


def ids_of(*bodies: bytes) -> set[bytes]:
    return {np.asarray(row).tobytes() for row in SCOPE.of_keys(bodies)}


async def bodies_in(consumer: PullConsumer | Producer, queues: Sequence[MessageQueue], it: Cluster) -> list[bytes]:
    async with PullConsumer(it.address, group="reads") as reader:
        found: list[bytes] = []
        for queue in queues:
            result = await reader.pull(queue, 0, 1000)
            found += [message.body for message in result.messages]
        return found


@asynccontextmanager
async def spark_cluster(it: Cluster) -> AsyncIterator[SparkCluster]:
    """In the test's own loop."""
    made = SparkCluster(Connection(name_server=it.address, retries=3, retry_delay_ms=1), GROUP)
    await made.consumer.start()
    try:
        yield made
    finally:
        await made.consumer.stop()


def plan_of(options: WriteOptions, entry: EpochRun, broker_starts: dict[str, str]) -> EpochPlan:
    return EpochPlan(
        options=options,
        columns=SinkColumns(present=frozenset(("body",))),
        query_id="q",
        group=GROUP,
        entry=entry,
        settle_seconds=0.02,
        broker_starts=broker_starts,
    )


async def begun(cluster: SparkCluster, options: WriteOptions, run: int = 1) -> EpochPlan:
    """A run that a driver has just begun; all queues of T start at 0."""
    starts: dict[str, dict[str, int]] = {}
    for queue in await cluster.consumer.publish_queues("T"):
        starts.setdefault(queue.broker_name, {})[str(queue.queue_id)] = 0
    entry = EpochRun(0, run, {"T": starts})
    fence = fence_of(cluster, entry)
    await fence.open()
    broker_starts = await fence.starts()
    await fence.set_run(run)
    return plan_of(options, entry, broker_starts)


def guard(plan: EpochPlan, cluster: SparkCluster, partition: int = 0, attempt: int = 0) -> EpochGuard:
    return EpochGuard(plan, partition, attempt, cluster)
