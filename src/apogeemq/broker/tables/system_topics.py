"""The topics every broker has from its first start."""

from __future__ import annotations

from apogeemq.broker.config import BrokerConfig
from apogeemq.model.topics import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    DEFAULT_QUEUES,
    HALF_OPERATION_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    PERM_INHERIT,
    PERM_READ_WRITE,
    REPLY_SUFFIX,
    REVIVE_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYNC_BROKER_MEMBER_PREFIX,
    TIMER_TOPIC,
    TopicConfig,
)

_BENCHMARK_QUEUES = 1024
_SCHEDULE_QUEUES = 18
_REVIVE_QUEUES = 8
_INHERITED = PERM_INHERIT | PERM_READ_WRITE


def system_topics(config: BrokerConfig) -> list[TopicConfig]:
    cluster, broker = config.broker_cluster_name, config.broker_name
    topics = [
        _topic(SELF_TEST_TOPIC, 1),
        _topic(BENCHMARK_TOPIC, _BENCHMARK_QUEUES),
        _topic(cluster, DEFAULT_QUEUES, _INHERITED if config.cluster_topic_enable else PERM_INHERIT),
        _topic(broker, 1, _INHERITED if config.broker_topic_enable else PERM_INHERIT),
        _topic(OFFSET_MOVED_TOPIC, 1),
        _topic(SCHEDULE_TOPIC, _SCHEDULE_QUEUES),
        _topic(f"{cluster}{REPLY_SUFFIX}", 1),
        _topic(f"{REVIVE_PREFIX}{cluster}", _REVIVE_QUEUES),
        _topic(f"{SYNC_BROKER_MEMBER_PREFIX}{broker}", 1, PERM_INHERIT),
        _topic(HALF_TOPIC, 1),
        _topic(HALF_OPERATION_TOPIC, 1),
        _topic(TIMER_TOPIC, 1),
    ]
    if config.auto_create_topic_enable:
        topics.append(_topic(AUTO_CREATE_TOPIC, config.default_topic_queue_nums, _INHERITED))
    if config.trace_topic_enable:
        topics.append(_topic(config.msg_trace_topic_name, 1))
    return topics


def _topic(name: str, queues: int, perm: int = PERM_READ_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
