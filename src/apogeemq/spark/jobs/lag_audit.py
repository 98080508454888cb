"""The step of the audit that SQL cannot say: where groups are, as brokers keep it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from apogeemq.client import MessageQueue, ReceivedMessage
from apogeemq.errors import ConfigError
from apogeemq.model.topics import dead_letter_topic, retry_topic
from apogeemq.spark.cluster import cluster_of
from apogeemq.spark.connection import Connection
from apogeemq.spark.options import OptionReader
from apogeemq.spark.source.read_options import DEFAULT_GROUP
from apogeemq.spark.source.selection import Selection
from apogeemq.spark.source.starting import all_queues

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


def group_positions(messages: DataFrame, *, groups: str, **options: str) -> DataFrame:
    """Where each group is in each queue of the topics that `messages` is read from, and of its own retry and dead
    letter topics: a row for each. The options are those of the source that say where and what.

    The first message that waits is asked of its broker: it may be older than the messages of the report, or of a topic
    that is not among them.
    """
    reader = OptionReader(options)
    connection, topics = Connection.read(reader), Selection.read(reader)
    reader.finish()
    names = list(dict.fromkeys(name.strip() for name in groups.split(",") if name.strip()))
    if len(names) > MAX_GROUPS:
        raise ConfigError(f"groups names {len(names)} groups: expected at most {MAX_GROUPS}")
    return messages.sparkSession.createDataFrame(list(positions(connection, topics, names)), _POSITIONS)


def positions(connection: Connection, topics: Selection, groups: Iterable[str]) -> Iterator[Position]:
    """As the source chooses: what belongs to the system, or may not be read, is left out."""
    cluster = cluster_of(connection, DEFAULT_GROUP)
    chosen = all_queues(cluster, topics)
    for group in groups:
        own = all_queues(cluster, Selection(pattern=_own_topics(group)))
        queues = sorted(chosen | own, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))
        yield from _of_group(connection, group, queues)


def _own_topics(group: str) -> str:
    return "|".join(re.escape(topic) for topic in (retry_topic(group), dead_letter_topic(group)))


def _of_group(connection: Connection, group: str, queues: Sequence[MessageQueue]) -> Iterator[Position]:
    cluster = cluster_of(connection, group)
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
