"""One task of an epoch that is written once: it claims its partition, leaves out what is there already, and sends only
while nobody else has taken over."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BooleanType, IntegerType, LongType, StructField, StructType

from apogeemq.client import MessageQueue
from apogeemq.errors import ConfigError, MessageIllegal, ProtocolError, SendFailed
from apogeemq.spark.cluster import Cluster, cluster_of
from apogeemq.spark.sink.columns import SinkColumns
from apogeemq.spark.sink.fence import LEASE_SECONDS, MAX_PARTITIONS, Fence
from apogeemq.spark.sink.ids import ID_SIZE, Ids, IdScope, repeated_in
from apogeemq.spark.sink.ledger import EpochRun
from apogeemq.spark.sink.producers import producer_of
from apogeemq.spark.sink.read_back import read_back
from apogeemq.spark.sink.requests import Request
from apogeemq.spark.sink.row_ids import row_ids
from apogeemq.spark.sink.rows import chunks
from apogeemq.spark.sink.write_options import WriteOptions
from apogeemq.spark.sink.write_task import WriteTask

if TYPE_CHECKING:
    from pyspark import Broadcast

log = logging.getLogger(__name__)

RESULT_SCHEMA: Final = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("written", LongType()),
        StructField("left_out", LongType()),
        StructField("is_first", BooleanType()),
    ]
)
_TOKEN_BITS: Final = 62


class EpochPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the driver tells the tasks of a run."""

    options: WriteOptions
    columns: SinkColumns
    query_id: str
    group: str  # whose offsets the fence is made of
    entry: EpochRun
    settle_seconds: float
    broker_starts: dict[str, str]  # when the brokers were started, as far as they have told the driver

    @property
    def scope(self) -> IdScope:
        return IdScope(self.query_id, self.entry.epoch)


def fence_of(cluster: Cluster, entry: EpochRun) -> Fence:
    """At each broker by the topic that was noted first: the same for all runs of an epoch, whatever topics come to
    it."""
    topics: dict[str, str] = {}
    for queue in entry.queues():
        topics.setdefault(queue.broker_name, queue.topic)
    return Fence(cluster.consumer, topics)


class EpochGuard:
    """Of one task; to be used in the loop."""

    def __init__(self, plan: EpochPlan, partition: int, attempt: int, cluster: Cluster) -> None:
        if partition >= MAX_PARTITIONS:
            raise ConfigError(f"an epoch of more than {MAX_PARTITIONS} partitions cannot be written once: coalesce it")
        self._plan = plan
        self._partition = partition
        self._attempt = attempt
        self._cluster = cluster
        self._starts = plan.entry.queues()
        self._fence = fence_of(cluster, plan.entry)
        self._token = 1 + secrets.randbits(_TOKEN_BITS)
        self._checked_at: dict[str, float] = {}
        self._locks = {broker: asyncio.Lock() for broker in self._fence.brokers}
        self._queues: dict[str, list[MessageQueue]] = {}
        # In an order of their own, not that of the answers: a sharding key goes to the same queue in every epoch.
        for queue in sorted(self._starts, key=lambda each: (each.topic, each.broker_name, each.queue_id)):
            self._queues.setdefault(queue.topic, []).append(queue)
        self.is_first = False

    async def claim(self) -> set[bytes]:
        """The partition is this task's from now on. Gives the ids that other tasks of this run may have written."""
        cluster, fence, plan = self._cluster, self._fence, self._plan
        await cluster.retried(lambda: fence.claim(self._partition, self._token))
        is_first = await fence.is_first(self._partition, self._token, plan.entry.run)
        is_intact = await cluster.retried(fence.starts) == plan.broker_starts
        self.is_first = is_first and is_intact and self._attempt == 0
        if self.is_first:
            return set()
        log.warning("partition %d has been begun before: waiting %g s", self._partition, plan.settle_seconds)
        await asyncio.sleep(plan.settle_seconds)
        await asyncio.gather(*(self._check(broker) for broker in fence.brokers))
        return await read_back(cluster, self._starts, plan.scope.tag)

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        """Only those whose offsets were noted: others would not be read back. Raises SendFailed when there are none:
        asking again does not help, but another run may note some."""
        found = self._queues.get(topic)
        if not found:
            why = "none of its brokers answered when this run was begun"
            raise SendFailed(f"nothing can be written to topic {topic}: {why}", [])
        return found

    async def let_pass(self, queue: MessageQueue) -> None:
        broker, loop = queue.broker_name, asyncio.get_running_loop()
        if loop.time() - self._checked_at.get(broker, -LEASE_SECONDS) < LEASE_SECONDS:
            return
        async with self._locks[broker]:
            if loop.time() - self._checked_at.get(broker, -LEASE_SECONDS) >= LEASE_SECONDS:
                await self._check(broker)

    async def _check(self, broker: str) -> None:
        asked_at = asyncio.get_running_loop().time()
        await self._fence.check(broker, self._partition, self._token, self._plan.entry.run)
        self._checked_at[broker] = asked_at

    async def is_stored(self, request: Request, queue: MessageQueue) -> bool:
        await asyncio.sleep(self._plan.settle_seconds)
        found = await read_back(self._cluster, {queue: self._starts[queue]}, self._plan.scope.tag)
        there = sum(one.tobytes() in found for one in request.ids)
        if there not in (0, request.row_count):
            raise ProtocolError(
                f"{queue.broker_name} has stored {there} of the {request.row_count} messages of a batch"
            )
        return there > 0


def write_partition(
    plan: EpochPlan, written: Broadcast[bytes] | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On an executor; gives one row of RESULT_SCHEMA."""
    context = TaskContext.get()
    assert context is not None
    partition, cluster = context.partitionId(), cluster_of(plan.options.connection, plan.group)
    guard = cluster.run(lambda: _made(plan, partition, context.attemptNumber(), cluster))
    there = _split(written.value) if written is not None else set()
    ids_of, ids_seen, left_out, has_begun = row_ids(plan.columns, plan.scope), [], 0, False
    with WriteTask(producer_of(plan.options), plan.options, plan.columns, guard) as task:
        for batch in batches:
            for chunk in chunks(batch):
                if not has_begun:
                    there, has_begun = there | cluster.run(guard.claim), True
                ids = ids_of.of(chunk)
                ids_seen.append(ids)
                _refuse_repeated(ids)
                new = np.array([one.tobytes() not in there for one in ids]) if there else None
                if new is not None and not new.all():
                    left_out += int((~new).sum())
                    chunk, ids = chunk.filter(pa.array(new)), ids[new]
                if chunk.num_rows:
                    task.write(chunk, ids)
        result = task.finish()
    if ids_seen:
        _refuse_repeated(np.concatenate(ids_seen))
    row = {"partition": [partition], "written": [result.rows], "left_out": [left_out], "is_first": [guard.is_first]}
    kinds = (pa.int32(), pa.int64(), pa.int64(), pa.bool_())
    yield pa.record_batch([pa.array(value, kind) for value, kind in zip(row.values(), kinds, strict=True)], list(row))


async def _made(plan: EpochPlan, partition: int, attempt: int, cluster: Cluster) -> EpochGuard:
    return EpochGuard(plan, partition, attempt, cluster)


def _split(ids: bytes) -> set[bytes]:
    return {ids[at : at + ID_SIZE] for at in range(0, len(ids), ID_SIZE)}


def _refuse_repeated(ids: Ids) -> None:
    if count := repeated_in(ids):
        raise MessageIllegal(
            f"{count} rows of one epoch have the same id as another: expected idColumns that tell the rows of an epoch "
            "apart, or rows of one source message that follow each other"
        )
