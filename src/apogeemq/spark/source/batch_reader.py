"""`spark.read.format("rocketmq")`: plans on the driver, reads on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import Filter, InputPartition

from apogeemq.errors import ConfigError
from apogeemq.model.queues import MessageQueue
from apogeemq.spark.cluster import Cluster, cluster_of
from apogeemq.spark.filters import FilterTaker
from apogeemq.spark.source.data_loss import LossRule, within
from apogeemq.spark.source.offsets import Offsets, named, queue_order
from apogeemq.spark.source.partition import MessagePartition, partitions_of, read_partition
from apogeemq.spark.source.push_down import Pushed
from apogeemq.spark.source.ranges import OffsetRange, range_of
from apogeemq.spark.source.read_options import EVERYTHING, NEW_ONLY, Place, ReadOptions
from apogeemq.spark.source.starting import all_queues, offsets_of

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(FilterTaker):
    """Reads from the start to the end that the options name, as these are when the query is planned."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options.of_batch()
        self._schema = schema
        self._pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        ranges = self._ranges(cluster_of(self._options.connection, self._options.group))
        wanted = self._pushed.filter(self._options.filter, {one.topic for one in ranges})
        found: list[MessagePartition] = partitions_of(ranges, self._options, self._schema, wanted)
        return found  # a list: Spark insists

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition)

    def _ranges(self, cluster: Cluster) -> list[OffsetRange]:
        options = self._options
        everything = all_queues(cluster, options.selection)
        starting, ending = options.starting or EVERYTHING, options.ending or NEW_ONLY
        # Places that name queues are about all of them, whatever a filter leaves.
        is_partial = starting.offsets is None and starting.times_ms is None
        is_partial = is_partial and ending.offsets is None and ending.times_ms is None
        queues = frozenset(filter(self._pushed.takes, everything)) if is_partial else everything
        _check_times(starting, ending, queues)
        starts, ends = offsets_of(cluster, starting, queues), offsets_of(cluster, ending, queues)
        ranges = [range_of(queue, starts[queue], ends[queue]) for queue in sorted(queues, key=queue_order)]
        if starting.offsets is not None or ending.offsets is not None or starting.word == "committed":
            both = starting.offsets is not None and ending.offsets is not None
            ranges = self._checked(cluster, ranges, is_written_down=both)
        ranges = [self._pushed.narrowed(one) for one in ranges if self._pushed.takes(one.queue)]
        return self._in_time(cluster, [one for one in ranges if one.size > 0])

    def _checked(self, cluster: Cluster, ranges: list[OffsetRange], *, is_written_down: bool) -> list[OffsetRange]:
        """Offsets from a person or a group may be wrong about what there is. An end before the start is a slip of the
        pen where both were written down, and nothing to read where one of them was looked up."""
        rule = LossRule(self._options.fail_on_data_loss)
        queues = [one.queue for one in ranges]
        least, ends = cluster.min_offsets(queues), cluster.max_offsets(queues)
        found: list[OffsetRange] = []
        for one in ranges:
            if one.end < one.start <= ends[one.queue]:
                if is_written_down:
                    raise _backwards("Offsets", one.start, one.end, one.queue)
                one = one._replace(end=one.start)
            left, loss = within(one, least[one.queue], ends[one.queue])
            rule.report(loss)
            found.append(left)
        return found

    def _in_time(self, cluster: Cluster, ranges: list[OffsetRange]) -> list[OffsetRange]:
        def found_at(time_ms: int | None) -> Offsets:
            return cluster.offsets_at((one.queue for one in ranges), time_ms) if time_ms is not None else {}

        starts, ends = found_at(self._pushed.search_from_ms), found_at(self._pushed.search_to_ms)
        narrowed = (
            one._replace(
                start=max(one.start, starts.get(one.queue, one.start)), end=min(one.end, ends.get(one.queue, one.end))
            )
            for one in ranges
        )
        return [one for one in narrowed if one.size > 0]

    def take_filters(self, filters: list[Filter]) -> Iterable[Filter]:
        if self._options.pushes_filters:
            self._pushed = Pushed.read(filters)
        return filters


def _check_times(starting: Place, ending: Place, queues: Iterable[MessageQueue]) -> None:
    if starting.times_ms is None or ending.times_ms is None:
        return
    for queue in sorted(queues, key=queue_order):
        start_ms, end_ms = starting.times_ms.of(queue), ending.times_ms.of(queue)
        if start_ms is not None and end_ms is not None and start_ms > end_ms:
            raise _backwards("OffsetsByTimestamp", start_ms, end_ms, queue)


def _backwards(option: str, start: int, end: int, queue: MessageQueue) -> ConfigError:
    return ConfigError(f"starting{option} is {start} and ending{option} {end} in {named([queue])}")
