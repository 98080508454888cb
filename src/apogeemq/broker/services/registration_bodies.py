"""What name servers are told of this broker's topics, encoded."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from apogeemq.broker.config import BrokerConfig
from apogeemq.model.routes import DataVersion, QueueSettings, TopicRoute
from apogeemq.model.topics import PERM_READ_WRITE, TopicConfig
from apogeemq.protocol.bodies.registration import encode_topic_table, pack_topic_table
from apogeemq.protocol.bodies.routes import encode, topic_route

# The topics and their version, both as they are at this moment.
Snapshot: TypeAlias = Callable[[], tuple[Mapping[str, TopicConfig], DataVersion]]

_COMPRESSION_LEVEL: Final = 9  # as Apache's
_THREAD_FROM_BYTES: Final = 64 * 1024  # below, compressing takes less than going to a thread and back


class Body(NamedTuple):
    content: bytes
    is_compressed: bool
    data_version: DataVersion
    topic_count: int


class RegistrationBodies:
    """The table as it is told to name servers: with the broker's permission applied to every topic.

    All name servers are told the same at the same time, so the last full body is kept until `forget`.
    """

    def __init__(self, broker_name: str, snapshot: Snapshot, config: Callable[[], BrokerConfig]) -> None:
        self._broker_name = broker_name
        self._snapshot = snapshot
        self._config = config
        self._last: tuple[tuple[DataVersion, int, bool], Body] | None = None

    @property
    def data_version(self) -> DataVersion:
        return self._snapshot()[1]

    async def of_all(self) -> Body:
        topics, data_version = self._snapshot()
        config = self._config()
        key = (data_version, config.broker_permission, config.compressed_register)
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        body = await self._encoded(topics, data_version)
        self._last = (key, body)
        return body

    async def of(self, names: Iterable[str]) -> Body:
        """Of some topics alone; those that are gone meanwhile are left out."""
        topics, data_version = self._snapshot()
        return await self._encoded({name: topics[name] for name in names if name in topics}, data_version)

    def route_of(self, name: str) -> bytes | None:
        """One topic as a route that names this broker alone; None if it is gone."""
        topic = self._snapshot()[0].get(name)
        if topic is None:
            return None
        told = self._permitted({name: topic})[name]
        queues = QueueSettings(told.read_queue_nums, told.write_queue_nums, told.perm, told.topic_sys_flag)
        return encode(topic_route(TopicRoute({self._broker_name: queues}, [], {})), standard=True)

    def forget(self) -> None:
        self._last = None

    async def _encoded(self, topics: Mapping[str, TopicConfig], data_version: DataVersion) -> Body:
        told, is_compressed = self._permitted(topics), self._config().compressed_register
        if not is_compressed:
            return Body(encode_topic_table(told, data_version), False, data_version, len(told))
        packed = pack_topic_table(told, data_version)
        if len(packed) < _THREAD_FROM_BYTES:
            content = zlib.compress(packed, _COMPRESSION_LEVEL)
        else:
            content = await asyncio.to_thread(zlib.compress, packed, _COMPRESSION_LEVEL)
        return Body(content, True, data_version, len(told))

    def _permitted(self, topics: Mapping[str, TopicConfig]) -> Mapping[str, TopicConfig]:
        permission = self._config().broker_permission
        if permission & PERM_READ_WRITE == PERM_READ_WRITE:
            return topics
        return {name: msgspec.structs.replace(topic, perm=topic.perm & permission) for name, topic in topics.items()}
