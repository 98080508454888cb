"""Headers of what administrators ask of a broker. Field names are the wire's."""

from __future__ import annotations

import msgspec

from apogeemq.protocol.command import Int32, Int64
from apogeemq.protocol.fields import HeaderReader

_LIST_SEPARATOR = ";"


class CreateTopic(msgspec.Struct):
    topic: str
    readQueueNums: Int32
    writeQueueNums: Int32
    perm: Int32
    topicFilterType: str
    defaultTopic: str = ""
    order: bool = False
    topicSysFlag: Int32 = 0
    attributes: str | None = None


class DeleteTopic(msgspec.Struct):
    topic: str = ""


class TopicOnly(msgspec.Struct):
    """GET_TOPIC_STATS_INFO, GET_TOPIC_CONFIG, QUERY_TOPIC_CONSUME_BY_WHO."""

    topic: str


class GroupOnly(msgspec.Struct):
    """GET_SUBSCRIPTIONGROUP_CONFIG, QUERY_TOPICS_BY_CONSUMER."""

    group: str


class TopicPage(msgspec.Struct):
    """GET_ALL_TOPIC_CONFIG; without these, all topics are wanted at once."""

    dataVersion: str | None = None
    topicSeq: Int32 | None = None
    maxTopicNum: Int32 | None = None


class GroupPage(msgspec.Struct):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG, likewise."""

    dataVersion: str | None = None
    groupSeq: Int32 | None = None
    maxGroupNum: Int32 | None = None


class DeleteGroup(msgspec.Struct):
    groupName: str
    cleanOffset: bool = False
    removeOffset: bool = False  # the same, as 4.9 calls it


class GroupForbidden(msgspec.Struct):
    group: str
    topic: str
    readable: bool | None = None


class QueueEntries(msgspec.Struct):
    """QUERY_CONSUME_QUEUE."""

    topic: str
    queueId: Int32
    index: Int64
    count: Int32
    consumerGroup: str | None = None


class ConsumeStats(msgspec.Struct):
    consumerGroup: str
    topic: str | None = None
    topicList: str | None = None

    @property
    def topics(self) -> list[str]:
        return [topic for topic in (self.topicList or "").split(_LIST_SEPARATOR) if topic]


class BrokerConsumeStats(msgspec.Struct):
    isOrder: bool = False


class TopicOfGroup(msgspec.Struct):
    """QUERY_CONSUME_TIME_SPAN, QUERY_SUBSCRIPTION_BY_CONSUMER."""

    topic: str
    group: str


class CorrectionOffset(msgspec.Struct):
    topic: str
    compareGroup: str
    filterGroups: str | None = None


class CloneGroupOffset(msgspec.Struct):
    srcGroup: str
    destGroup: str
    topic: str | None = None
    offline: bool = False


class StatsData(msgspec.Struct):
    statsName: str
    statsKey: str


read_create_topic = HeaderReader(CreateTopic)
read_delete_topic = HeaderReader(DeleteTopic)
read_topic = HeaderReader(TopicOnly)
read_group = HeaderReader(GroupOnly)
read_topic_page = HeaderReader(TopicPage)
read_group_page = HeaderReader(GroupPage)
read_delete_group = HeaderReader(DeleteGroup)
read_group_forbidden = HeaderReader(GroupForbidden)
read_queue_entries = HeaderReader(QueueEntries)
read_consume_stats = HeaderReader(ConsumeStats)
read_broker_consume_stats = HeaderReader(BrokerConsumeStats)
read_topic_of_group = HeaderReader(TopicOfGroup)
read_correction_offset = HeaderReader(CorrectionOffset)
read_clone_group_offset = HeaderReader(CloneGroupOffset)
read_stats_data = HeaderReader(StatsData)
