"""`spark.readStream.format("rocketmq")`: plans on the driver, reads on executors.

Spark keeps one of these for the time of a query, and keeps the offsets. What a checkpoint says is read, whatever the
queues are today: new ones begin at their oldest message, those that are gone stay where they were.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from apogeemq.errors import ApogeeError, DataLost
from apogeemq.model.queues import MessageQueue
from apogeemq.spark.cluster import Cluster, cluster_of
from apogeemq.spark.first_batch import Offset, beginning_of, first_end, is_not_begun, not_begun, without_beginning
from apogeemq.spark.idle_pause import IdlePause
from apogeemq.spark.source.data_loss import LossRule, still_there
from apogeemq.spark.source.offsets import Offsets, from_json, to_json
from apogeemq.spark.source.partition import partitions_of, read_partition
from apogeemq.spark.source.queue_watch import QueueWatch, is_nowhere
from apogeemq.spark.source.ranges import OffsetRange
from apogeemq.spark.source.read_options import NEW_ONLY, Limits, ReadOptions
from apogeemq.spark.source.sampling import mean_sizes
from apogeemq.spark.source.starting import all_queues, checked, offsets_of
from apogeemq.spark.source.stream_plan import admitted, is_worth_a_batch, pending, up_to

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

_NO_LIMITS: Final = Limits()


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options.of_stream()
        self._schema = schema
        self._rule = LossRule(options.fail_on_data_loss)
        self._watch = QueueWatch(options.selection, self._rule)
        self._target: Offsets | None = None  # of Trigger.AvailableNow: nothing beyond it is read
        self._is_target_complete = False
        self._latest: Offsets = {}
        self._last_batch_at: float | None = None
        self._turn = 0
        self._pause = IdlePause()
        self._committed: Offsets = {}

    @property
    def _cluster(self) -> Cluster:
        return cluster_of(self._options.connection, self._options.group)

    # -- offsets ---------------------------------------------------------------------------------------------

    def initialOffset(self) -> Offset:
        """It is looked up with the first batch, which is the only one that Spark asks for it, and keeps it."""
        return not_begun()

    def _beginning(self) -> Offsets:
        cluster, place = self._cluster, self._options.starting or NEW_ONLY
        queues = all_queues(cluster, self._options.selection)
        return checked(cluster, place, offsets_of(cluster, place, queues), self._rule)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._watch.latest(self._cluster, {})

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark knows one limit at a time; the others are heeded all the same."""
        limits = self._options.limits
        if limits.max_messages is not None:
            return ReadMaxRows(limits.max_messages)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadMinRows(limits.min_messages) if limits.min_messages is not None else ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The same start where there is no batch to make, but for the first one: Spark makes that in any case."""
        with self._pause.around(start):
            if is_not_begun(start):
                beginning = self._beginning()
                return first_end(to_json(beginning), to_json(self._next(beginning, limit)))
            positions = from_json(without_beginning(start))
            end = self._next(positions, limit)
            return start if end == positions else to_json(end)

    def _next(self, positions: Offsets, limit: ReadLimit) -> Offsets:
        """A queue that is new gets its position with this batch and is read from the next one on: the position is then
        in the checkpoint, and the batch the same however often it is repeated."""
        cluster = self._cluster
        self._latest = self._watch.latest(cluster, positions)
        self._complete_target(positions)
        ranges = self._available(cluster, pending(positions, up_to(self._latest, positions, self._target)))
        begins = self._begins(cluster, positions)
        limits = _NO_LIMITS if isinstance(limit, ReadAllAvailable) else self._options.limits
        in_new_queues = sum(max(0, self._latest[queue] - begin) for queue, begin in begins.items())
        if not self._is_time_for(sum(one.size for one in ranges) + in_new_queues, limits):
            return positions
        taken = admitted(ranges, limits, lambda some: mean_sizes(cluster, some), self._turn)
        ends = {**positions, **begins, **{one.queue: one.end for one in taken}}
        if ends != positions:
            self._last_batch_at = time.monotonic()
            self._turn += 1
        return ends

    def _complete_target(self, positions: Offsets) -> None:
        """With queues that were away when it was set and had to be waited for."""
        if self._target is not None and not self._is_target_complete:
            came_back = {queue: end for queue, end in self._latest.items() if queue in positions}
            self._target = {**came_back, **self._target}
            self._is_target_complete = True

    def _available(self, cluster: Cluster, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """Without what has expired, so that limits count what can be read. The batch's own plan tells of losses."""
        least = self._oldest(cluster, {one.queue: one.start for one in ranges})
        left: list[OffsetRange] = []
        for one in ranges:
            if one.queue in least:
                available, loss = still_there(one, least[one.queue])
                if self._rule.fails:
                    self._rule.report(loss)
                left.append(available)
        return left

    def _begins(self, cluster: Cluster, positions: Offsets) -> Offsets:
        new = (queue for queue in self._latest if queue not in positions)
        return self._oldest(cluster, {queue: 0 for queue in new if self._target is None or queue in self._target})

    def _oldest(self, cluster: Cluster, starts: Mapping[MessageQueue, int]) -> Offsets:
        found, failed = cluster.try_min_offsets(starts)
        for queue, error in failed.items():
            self._watch.leave_aside(queue, starts[queue], error)
        return found

    def _is_time_for(self, count: int, limits: Limits) -> bool:
        if self._target is not None:
            return True  # nothing more will come
        waited_ms = None if self._last_batch_at is None else (time.monotonic() - self._last_batch_at) * 1000
        return is_worth_a_batch(count, limits, waited_ms)

    def reportLatestOffset(self) -> Offset | None:
        return to_json(self._latest) if self._latest else None

    # -- batches ---------------------------------------------------------------------------------------------

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Of a batch that is in the checkpoint already: what it leaves out nobody reads. So a broker that does not
        answer ends the query, which plans the batch again when it is started again; one that is gone has lost it."""
        ranges = pending(self._planned_start(start, end), from_json(without_beginning(end)))
        least, failed = self._cluster.try_min_offsets(one.queue for one in ranges)
        left: list[OffsetRange] = []
        for one in ranges:
            error = failed.get(one.queue)
            if error is None:
                available, loss = still_there(one, least[one.queue])
                left.append(available)
            elif is_nowhere(error):
                loss = DataLost(*one, str(error))
            else:
                raise error
            self._rule.report(loss)
        return partitions_of(left, self._options, self._schema, self._options.filter)

    def _planned_start(self, start: Offset, end: Offset) -> Offsets:
        if not is_not_begun(start):
            return from_json(without_beginning(start))
        beginning = beginning_of(end)
        return self._beginning() if beginning is None else from_json(beginning)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition)

    def commit(self, end: Offset) -> None:
        """For tools that show how far a group is. The checkpoint counts, so a failure here ends nothing."""
        if not self._options.commits_offsets:
            return
        offsets = from_json(without_beginning(end))
        changed = {queue: offset for queue, offset in offsets.items() if self._committed.get(queue) != offset}
        try:
            self._cluster.commit({queue: changed[queue] for queue in changed if queue in self._latest})
            self._committed = offsets
        except ApogeeError as error:
            log.warning("offsets of group %s are not told to brokers: %s", self._options.group, error)

    def stop(self) -> None:
        """Spark may not call it; the process ends then, and with it the connections."""
