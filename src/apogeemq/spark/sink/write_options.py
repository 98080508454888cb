"""What a write can be told. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from apogeemq.client.options import MIB, ProducerOptions
from apogeemq.errors import ConfigError
from apogeemq.model.groups import group_problem
from apogeemq.model.topics import NO_SEND_TOPICS, RETRY_PREFIX, topic_problem
from apogeemq.protocol.compression import LZ4, ZLIB, ZSTD
from apogeemq.spark.connection import MAX_TIMEOUT_MS, Connection
from apogeemq.spark.options import OptionReader, wrong

DEFAULT_GROUP: Final = "apogeemq-spark-sink"
NO_COMPRESSION: Final = "none"
_LEVELS: Final = {ZLIB: (0, 9), LZ4: (0, 16), ZSTD: (1, 22)}
DEFAULT_MAX_MESSAGE_BYTES: Final = 4 * MIB
_MAX_MESSAGE_BYTES: Final = 64 * MIB
_MAX_BATCH_MESSAGES: Final = 10_000
_MAX_REQUESTS: Final = 256
_MAX_QUEUES: Final = 1024

ERROR: Final = "error"
DROP: Final = "drop"


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Travels to executors."""

    connection: Connection
    # Where all rows go; without one, each row says it in its column `topic`.
    topic: str = ""
    # Those that the column `topic` may name; none: any.
    topics: tuple[str, ...] = ()
    producer_group: str = DEFAULT_GROUP
    # A request holds messages of one queue: at most so many, and so many bytes.
    batch_messages: int = 1_000
    batch_bytes: int = 256 * 1024
    # Requests of one task that may wait for their answers.
    max_in_flight: int = 8
    send_timeout_ms: int = 3_000
    compression: str = NO_COMPRESSION
    compress_above: int = 4096
    compression_level: int = 5
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    # None: where there is a column `sharding_key`.
    orders_by_sharding_key: bool | None = None
    # A row's id comes from these columns; none: ids are new ones each time.
    id_columns: tuple[str, ...] = ()
    # Part of the ids: two queries that write the same rows mean two messages.
    query_id: str = ""
    # What becomes of properties that the system itself sets: `error` or `drop`.
    system_properties: str = ERROR
    # Brokers that will not come back: what they have of an epoch that was interrupted is not asked for.
    lost_brokers: tuple[str, ...] = ()
    # Of a topic that does not exist and is made by the first message.
    topic_queues: int = 4

    @property
    def is_compressed(self) -> bool:
        return self.compression != NO_COMPRESSION

    @property
    def known_topics(self) -> tuple[str, ...]:
        """All that rows can go to; none: any."""
        return (self.topic,) if self.topic else self.topics

    def producer_options(self) -> ProducerOptions:
        return ProducerOptions(
            send_timeout_seconds=self.send_timeout_ms / 1000,
            max_message_size=self.max_message_bytes,
            default_topic_queues=self.topic_queues,
        )


def read_write_options(options: Mapping[str, str]) -> WriteOptions:
    """ConfigError for what is unknown, cannot be read or contradicts itself."""
    reader = OptionReader(options)
    compression = reader.choice("compression", (NO_COMPRESSION, ZLIB, LZ4, ZSTD), NO_COMPRESSION)
    least_level, most_level = _LEVELS.get(compression, (0, 22))
    found = WriteOptions(
        connection=Connection.read(reader),
        topic=reader.text("topic", ""),
        topics=reader.names("topics", ()),
        producer_group=reader.text("producerGroup", DEFAULT_GROUP),
        batch_messages=reader.whole("batchMessages", 1_000, least=1, most=_MAX_BATCH_MESSAGES),
        batch_bytes=reader.whole("batchBytes", 256 * 1024, least=1, most=_MAX_MESSAGE_BYTES),
        max_in_flight=reader.whole("maxInFlight", 8, least=1, most=_MAX_REQUESTS),
        send_timeout_ms=reader.whole("sendTimeoutMs", 3_000, least=1, most=MAX_TIMEOUT_MS),
        compression=compression,
        compress_above=reader.whole("compressAbove", 4096, least=1, most=_MAX_MESSAGE_BYTES),
        compression_level=reader.whole("compressionLevel", 5, least=least_level, most=most_level),
        max_message_bytes=reader.whole("maxMessageBytes", DEFAULT_MAX_MESSAGE_BYTES, least=1, most=_MAX_MESSAGE_BYTES),
        orders_by_sharding_key=reader.flag("orderByShardingKey", None),
        id_columns=reader.names("idColumns", ()),
        query_id=reader.text("queryId", ""),
        system_properties=reader.choice("systemProperties", (ERROR, DROP), ERROR),
        lost_brokers=reader.names("lostBrokers", ()),
        topic_queues=reader.whole("topicQueues", 4, least=1, most=_MAX_QUEUES),
    )
    for name in ("compressAbove", "compressionLevel"):
        if reader.has(name) and not found.is_compressed:
            raise ConfigError(f"option {name} needs compression, one of {ZLIB}, {LZ4}, {ZSTD}")
    reader.finish()
    _check(found)
    return found


def _check(found: WriteOptions) -> None:
    if found.topic and found.topics:
        raise ConfigError(
            "options topic and topics contradict each other: topic takes all rows, topics limits a column"
        )
    if found.topic and (problem := sent_topic_problem(found.topic)):
        raise wrong("topic", found.topic, f"the name of a topic ({problem})")
    for topic in found.topics:
        if problem := sent_topic_problem(topic):
            raise wrong("topics", topic, f"the names of topics ({problem})")
    if problem := group_problem(found.producer_group):
        raise wrong("producerGroup", found.producer_group, f"the name of a group ({problem})")
    if found.batch_bytes > found.max_message_bytes:
        raise ConfigError(
            f"option batchBytes is {found.batch_bytes}: expected no more than maxMessageBytes, "
            f"{found.max_message_bytes}: brokers take a batch for one large message"
        )


def once_problem(topic: str, topics: Sequence[str]) -> str | None:
    """Why rows that all go to `topic`, or themselves name one of `topics`, cannot be written once."""
    if not topic and not topics:
        return (
            "topic is missing; where rows name their topics themselves, option topics must list those there may be: "
            "what was written to others could not be read back"
        )
    retried = next((name for name in (topic, *topics) if name.startswith(RETRY_PREFIX)), None)
    return f"topic {retried} cannot be written once: brokers pass its messages on" if retried is not None else None


def sent_topic_problem(topic: str) -> str | None:
    """Why nothing can be sent to a topic of this name."""
    return topic_problem(topic) or (f"only brokers send to {topic}" if topic in NO_SEND_TOPICS else None)
