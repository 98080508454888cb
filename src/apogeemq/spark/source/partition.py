"""What one task reads. It travels to the executor with all that is needed there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from apogeemq.spark.connection import Connection
from apogeemq.spark.source.message_filter import MessageFilter
from apogeemq.spark.source.ranges import OffsetRange, planned
from apogeemq.spark.source.read_options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa


class MessagePartition(InputPartition):
    def __init__(
        self,
        ranges: Sequence[OffsetRange],
        connection: Connection,
        group: str,
        schema: pa.Schema,
        wanted: MessageFilter,
        *,
        fails_on_data_loss: bool,
    ) -> None:
        self.ranges = tuple(ranges)
        self.connection = connection
        self.group = group
        self.schema = schema
        self.wanted = wanted
        self.fails_on_data_loss = fails_on_data_loss


def partitions_of(
    ranges: Iterable[OffsetRange], options: ReadOptions, schema: pa.Schema, wanted: MessageFilter
) -> list[MessagePartition]:
    return [
        MessagePartition(
            task, options.connection, options.group, schema, wanted, fails_on_data_loss=options.fail_on_data_loss
        )
        for task in planned(ranges, options.min_partitions, options.max_records_per_partition)
    ]


def read_partition(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """On the executor. Where nothing is to be read, Spark asks for a partition that is none of ours."""
    if not isinstance(partition, MessagePartition):
        return iter(())
    from apogeemq.spark.reading.partition_reader import read_ranges

    return read_ranges(
        partition.connection,
        partition.group,
        partition.ranges,
        partition.schema,
        partition.wanted,
        fails_on_data_loss=partition.fails_on_data_loss,
    )
