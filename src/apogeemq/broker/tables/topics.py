"""The topics of this broker. Kept in `config/topics.json`, and what the broker tells name servers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import msgspec

from apogeemq.model.routes import DataVersion
from apogeemq.model.topics import (
    AUTO_CREATE_TOPIC,
    PERM_INHERIT,
    SYSTEM_TOPICS,
    TopicConfig,
    is_system_topic,
)
from apogeemq.protocol import javajson

log = logging.getLogger(__name__)


class TopicsFile(msgspec.Struct, rename="camel"):
    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = {}


class TopicTable:
    """`on_change` is told of every topic that is new or different; deletions only change the data version."""

    def __init__(self, max_topics: int = 500_000) -> None:
        self.topics: dict[str, TopicConfig] = {}
        self.data_version = DataVersion()
        self.own_system_topics: set[str] = set()  # named after this broker and its cluster
        self.on_change: Callable[[list[TopicConfig]], None] = lambda changed: None
        self._max_topics = max_topics

    def get(self, name: str) -> TopicConfig | None:
        return self.topics.get(name)

    def is_system(self, name: str) -> bool:
        return name in self.own_system_topics or is_system_topic(name)

    @property
    def system_topics(self) -> set[str]:
        return self.own_system_topics | SYSTEM_TOPICS

    # -- changing --------------------------------------------------------------------------------------------

    def put(self, config: TopicConfig, now_ms: int) -> None:
        """Create or replace."""
        self.put_all([config], now_ms)

    def put_all(self, configs: list[TopicConfig], now_ms: int) -> None:
        for config in configs:
            log.info("topic %s: %s", "changed" if config.topic_name in self.topics else "created", config)
            self.topics[config.topic_name] = config
        self._next_version(now_ms)
        self.on_change(configs)

    def delete(self, name: str, now_ms: int) -> bool:
        if self.topics.pop(name, None) is None:
            return False
        log.info("topic deleted: %s", name)
        self._next_version(now_ms)
        self.on_change([])
        return True

    def created_on_send(
        self,
        topic: str,
        default_topic: str,
        default_queue_nums: int,
        system_flag: int,
        now_ms: int,
        *,
        is_auto_creation_on: bool,
    ) -> TopicConfig | None:
        """A topic inherits from the default topic a producer names, if that one allows it."""
        default = self.topics.get(default_topic)
        if default is None or len(self.topics) >= self._max_topics:
            return None
        if default_topic == AUTO_CREATE_TOPIC and not is_auto_creation_on:
            return None  # it may be there from a time when this was on
        if not default.perm & PERM_INHERIT:
            return None
        queue_nums = max(0, min(default_queue_nums, default.write_queue_nums))
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queue_nums,
            write_queue_nums=queue_nums,
            perm=default.perm & ~PERM_INHERIT,
            topic_sys_flag=system_flag,
            topic_filter_type=default.topic_filter_type,
        )
        self.put(config, now_ms)
        return config

    def ensure(
        self, topic: str, queue_nums: int, perm: int, system_flag: int, now_ms: int, *, order: bool = False
    ) -> TopicConfig:
        """The topic as it is, or a new one: for retry and dead letter topics."""
        config = self.topics.get(topic)
        if config is None:
            config = TopicConfig(
                topic_name=topic,
                read_queue_nums=queue_nums,
                write_queue_nums=queue_nums,
                perm=perm,
                topic_sys_flag=system_flag,
                order=order,
            )
            self.put(config, now_ms)
        elif config.order != order:
            config.order = order
            self.put(config, now_ms)
        return config

    def set_ordered(self, ordered: Iterable[str], now_ms: int) -> None:
        """What name servers say of ordered topics; a topic they do not name stays as it is."""
        changed = [self.topics[name] for name in ordered if name in self.topics and not self.topics[name].order]
        for config in changed:
            config.order = True
        if changed:
            self._next_version(now_ms)

    def renew_version(self, now_ms: int) -> None:
        """Something that concerns every topic has changed."""
        self._next_version(now_ms)
        self.on_change([])

    def _next_version(self, now_ms: int) -> None:
        previous = self.data_version
        self.data_version = DataVersion(previous.counter + 1, previous.stateVersion, now_ms)

    # -- keeping ---------------------------------------------------------------------------------------------

    def load(self, content: bytes) -> None:
        """ProtocolError when it is not the file."""
        file = javajson.loads(content, TopicsFile)
        self.topics.update(file.topic_config_table)
        for name, config in file.topic_config_table.items():
            config.topic_name = name
        self.data_version = file.data_version

    def content(self) -> bytes:
        return msgspec.json.format(
            msgspec.json.encode(TopicsFile(self.data_version, dict(sorted(self.topics.items())))), indent=2
        )
