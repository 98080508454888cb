"""The step of the audit that SQL cannot say: where groups are, as brokers keep it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from apogeemq.client import MessageQueue
from apogeemq.errors import ConfigError
from apogeemq.model.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX
from apogeemq.spark.cluster import cluster_of
from apogeemq.spark.connection import Connection
from apogeemq.spark.options import OptionReader

MAX_GROUPS: Final = 1_000

_POSITIONS: Final = StructType(
    [
        StructField("group", StringType()),
        StructField("topic", StringType()),
        StructField("broker", StringType()),
        StructField("queue_id", IntegerType()),
        StructField("min_offset", LongType()),
        StructField("max_offset", LongType()),
        StructField("committed", LongType()),
    ]
)
Position = tuple[str, str, str, int, int, int, int | None]


def group_positions(messages: DataFrame, *, topics: str, groups: str, **connection: str) -> DataFrame:
    """Where each group is in each queue of the topics and of its own retry and dead letter topics: a row for each."""
    options = OptionReader(connection)
    found = Connection.read(options)
    options.finish()
    try:
        pattern = re.compile(topics)
    except re.error as error:
        raise ConfigError(f"topics is {topics!r}: expected a regular expression ({error})") from None
    names = list(dict.fromkeys(name.strip() for name in groups.split(",") if name.strip()))
    if len(names) > MAX_GROUPS:
        raise ConfigError(f"groups names {len(names)} groups: expected at most {MAX_GROUPS}")
    rows = [row for group in names for row in _positions(found, group, pattern)]
    return messages.sparkSession.createDataFrame(rows, _POSITIONS)


def _positions(connection: Connection, group: str, topics: re.Pattern[str]) -> Iterator[Position]:
    cluster = cluster_of(connection, group)
    own = (f"{RETRY_PREFIX}{group}", f"{DEAD_LETTER_PREFIX}{group}")
    chosen = [topic for topic in cluster.topics() if topics.fullmatch(topic) or topic in own]
    queues: list[MessageQueue] = [queue for topic in sorted(chosen) for queue in cluster.queues(topic)]
    least, ends = cluster.min_offsets(queues), cluster.max_offsets(queues)
    for queue, committed in cluster.committed(queues).items():
        yield group, queue.topic, queue.broker_name, queue.queue_id, least[queue], ends[queue], committed
