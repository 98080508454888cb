"""Topics: their settings on a broker, permission bits, system flags, reserved names, and which names are allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

PERM_INHERIT: Final = 1
PERM_WRITE: Final = 2
PERM_READ: Final = 4
PERM_PRIORITY: Final = 8
PERM_READ_WRITE: Final = PERM_READ | PERM_WRITE

FLAG_UNIT: Final = 1
FLAG_UNIT_SUB: Final = 2

MASTER_ID: Final = 0

# A route of such a topic is never rewritten for an acting master: slaves use it to find each other.
SYNC_BROKER_MEMBER_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"

ORDER_TOPIC_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"

AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_OPERATION_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
HALF_EXHAUSTED_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
REPLY_SUFFIX: Final = "_REPLY_TOPIC"
SYSTEM_PREFIX: Final = "rmq_sys_"

SYSTEM_TOPICS: Final = frozenset(
    (
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        TRACE_TOPIC,
        HALF_OPERATION_TOPIC,
        HALF_EXHAUSTED_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        CHECKPOINT_TOPIC,
    )
)
# The broker alone writes to these.
NO_SEND_TOPICS: Final = frozenset(
    (SCHEDULE_TOPIC, HALF_TOPIC, HALF_OPERATION_TOPIC, HALF_EXHAUSTED_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC)
)

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
DEAD_LETTER_QUEUES: Final = 1

MAX_TOPIC_LENGTH: Final = 127
MAX_GROUP_TOPIC_LENGTH: Final = 255  # of a retry or dead letter topic: a group's name may be longer than a topic's
ALLOWED_CHARACTERS: Final = "^[%|a-zA-Z0-9_-]+$"
DEFAULT_QUEUES: Final = 16

SINGLE_TAG: Final = "SINGLE_TAG"
MULTI_TAG: Final = "MULTI_TAG"
FILTER_TYPES: Final = (SINGLE_TAG, MULTI_TAG)

_ALLOWED: Final = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)
_find_control: Final = re.compile(r"[\x00-\x1f\x7f]").search


class TopicConfig(msgspec.Struct, rename="camel"):
    """What a broker keeps of a topic; the names are those of `topics.json` and of the wire."""

    attributes: dict[str, str] = {}
    order: bool = False
    perm: int = PERM_READ_WRITE
    read_queue_nums: int = DEFAULT_QUEUES
    topic_filter_type: str = SINGLE_TAG
    topic_name: str = ""
    topic_sys_flag: int = 0
    write_queue_nums: int = DEFAULT_QUEUES


def is_system_topic(topic: str) -> bool:
    """By name alone; a broker has a few more, named after itself and its cluster."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)


def topic_problem(topic: str | None) -> str | None:
    """Why a topic cannot have this name, in Apache's words; None if it can. No allowed name leaves its folder."""
    if not topic or not topic.strip():
        return "The specified topic is blank."
    if not has_allowed_characters(topic):
        return f"The specified topic: {topic}, contains illegal characters, allowing only {ALLOWED_CHARACTERS}"
    if is_of_group(topic):
        if len(topic) > MAX_GROUP_TOPIC_LENGTH:
            return (
                f"The specified topic is DLQ or Retry topic: {topic}, "
                f"and it's longer than topic max length: {MAX_GROUP_TOPIC_LENGTH}"
            )
    elif len(topic) > MAX_TOPIC_LENGTH:
        return f"The specified topic: {topic}, is longer than topic max length: {MAX_TOPIC_LENGTH}"
    return None


def could_be_stored(topic: bytes) -> bool:
    """Whether a broker may have messages of a topic of this name. Brokers make names of their own, of characters that
    nobody else may use: Apache's keep a message that was popped to be tried again in `%RETRY%group+topic`, and name
    topics after their cluster."""
    try:
        name = topic.decode()
    except UnicodeDecodeError:
        return False
    return bool(name.strip()) and len(topic) <= MAX_GROUP_TOPIC_LENGTH and _find_control(name) is None


def is_of_group(topic: str) -> bool:
    """Retries and dead letters."""
    return topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def has_allowed_characters(name: str) -> bool:
    """Of a topic's or a group's name."""
    return _ALLOWED.fullmatch(name) is not None


def retry_topic(group: str) -> str:
    return group if group.startswith(RETRY_PREFIX) else RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    return DEAD_LETTER_PREFIX + group


def described(topic: TopicConfig) -> str:
    """As Apache's brokers print a topic in their remarks."""
    return (
        f"TopicConfig [topicName={topic.topic_name}, readQueueNums={topic.read_queue_nums}, "
        f"writeQueueNums={topic.write_queue_nums}, perm={perm_text(topic.perm)}, "
        f"topicFilterType={topic.topic_filter_type}, topicSysFlag={topic.topic_sys_flag}, "
        f"order={'true' if topic.order else 'false'}, attributes={_java_map(topic.attributes)}]"
    )


def _java_map(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}={value}" for name, value in values.items()) + "}"


def is_writable(perm: int) -> bool:
    return perm & PERM_WRITE != 0


def perm_text(perm: int) -> str:
    """`RW-` and the like, as people read permissions."""
    return "".join(
        letter if perm & bit else "-" for letter, bit in (("R", PERM_READ), ("W", PERM_WRITE), ("X", PERM_INHERIT))
    )
