"""The step of the audit that SQL cannot say: where groups are, as brokers keep it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from apogeemq.client import MessageQueue, ReceivedMessage
from apogeemq.errors import ConfigError
from apogeemq.model.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX
from apogeemq.spark.cluster import cluster_of
from apogeemq.spark.connection import Connection
from apogeemq.spark.options import OptionReader
from apogeemq.spark.source.read_options import DEFAULT_GROUP

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
        # Of the first message that waits.
        StructField("oldest_born_ms", LongType()),
        StructField("oldest_stored_ms", LongType()),
    ]
)
Position = tuple[str, str, str, int, int, int, int | None, int | None, int | None]


def group_positions(messages: DataFrame, *, topics: str, groups: str, **connection: str) -> DataFrame:
    """Where each group is in each queue of the topics and of its own retry and dead letter topics: a row for each.

    The first message that waits is asked of its broker: it may be older than the messages of the report, or of a topic
    that is not among them.
    """
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
    committed = cluster.committed(queues)
    starts = {queue: max(committed[queue] or 0, least[queue]) for queue in queues}
    oldest = _first_messages(connection, {queue: start for queue, start in starts.items() if start < ends[queue]})
    for queue in queues:
        message = oldest.get(queue)
        times = (message.born_time_ms, message.store_time_ms) if message is not None else (None, None)
        place = (group, queue.topic, queue.broker_name, queue.queue_id)
        yield *place, least[queue], ends[queue], committed[queue], *times


def _first_messages(connection: Connection, starts: Mapping[MessageQueue, int]) -> dict[MessageQueue, ReceivedMessage]:
    """From these offsets on, of each queue that has one. Read in our own name: the group may be forbidden to."""
    cluster = cluster_of(connection, DEFAULT_GROUP)
    pulled = cluster.asked(starts, lambda queue: cluster.consumer.pull(queue, starts[queue], 1))
    return {queue: result.messages[0] for queue, result in pulled.items() if result.messages}
