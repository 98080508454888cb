"""What administrators send to a broker, and what it tells them. Members in the order Apache writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from apogeemq.errors import ProtocolError
from apogeemq.model.groups import GroupConfig
from apogeemq.model.queues import MessageQueue
from apogeemq.model.routes import DataVersion
from apogeemq.model.subscriptions import SubscriptionData
from apogeemq.model.topics import TopicConfig
from apogeemq.protocol import javajson
from apogeemq.protocol.command import Int32, Int64

MAX_LIST_LENGTH = 10_000  # topics or groups made by one request
MAX_RETRY_POLICY_SIZE = 4_096

# Sets are written in one order, so that equal answers are equal bytes.
_encode = msgspec.json.Encoder(order="deterministic").encode


# -- given ---------------------------------------------------------------------------------------------------


class _WireTopic(msgspec.Struct):
    attributes: dict[str, str] | None = None
    order: bool | None = None
    perm: Int32 | None = None
    readQueueNums: Int32 | None = None
    topicFilterType: str | None = None
    topicName: str | None = None
    topicSysFlag: Int32 | None = None
    writeQueueNums: Int32 | None = None


class _WireTopics(msgspec.Struct):
    topicConfigList: list[_WireTopic]


class _WireGroup(msgspec.Struct):
    attributes: dict[str, str] | None = None
    brokerId: Int64 | None = None
    consumeBroadcastEnable: bool | None = None
    consumeEnable: bool | None = None
    consumeFromMinEnable: bool | None = None
    consumeMessageOrderly: bool | None = None
    consumeTimeoutMinute: Int32 | None = None
    groupName: str | None = None
    groupRetryPolicy: dict[str, Any] | None = None
    groupSysFlag: Int32 | None = None
    notifyConsumerIdsChangedEnable: bool | None = None
    retryMaxTimes: Int32 | None = None
    retryQueueNums: Int32 | None = None
    whichBrokerWhenConsumeSlowly: Int64 | None = None


class _WireGroups(msgspec.Struct):
    groupConfigList: list[_WireGroup]


def decode_topics(body: bytes) -> list[TopicConfig]:
    """UPDATE_AND_CREATE_TOPIC_LIST; the attributes are changes, each with its sign. What is left out is default."""
    return _checked([_given(topic, TopicConfig) for topic in javajson.loads(body, _WireTopics).topicConfigList])


def decode_group(body: bytes) -> GroupConfig:
    return _group(javajson.loads(body, _WireGroup))


def decode_groups(body: bytes) -> list[GroupConfig]:
    return _checked([_group(group) for group in javajson.loads(body, _WireGroups).groupConfigList])


def _group(wire: _WireGroup) -> GroupConfig:
    if wire.groupRetryPolicy is not None and len(_encode(wire.groupRetryPolicy)) > MAX_RETRY_POLICY_SIZE:
        raise ProtocolError(f"body: a retry policy is longer than {MAX_RETRY_POLICY_SIZE} bytes")
    return _given(wire, GroupConfig)


_ConfigT = TypeVar("_ConfigT", TopicConfig, GroupConfig)


def _given(wire: msgspec.Struct, config_type: type[_ConfigT]) -> _ConfigT:
    """The configuration with its defaults for what the sender left out or gave as null."""
    config = config_type()
    for field in msgspec.structs.fields(config_type):
        value = getattr(wire, field.encode_name)
        if value is not None:
            setattr(config, field.name, value)
    return config


def _checked(configs: list[_ConfigT]) -> list[_ConfigT]:
    if len(configs) > MAX_LIST_LENGTH:
        raise ProtocolError(f"body: more than {MAX_LIST_LENGTH} entries at once")
    return configs


class RequestMode(msgspec.Struct):
    """SET_MESSAGE_REQUEST_MODE, and what GET_ALL_MESSAGE_REQUEST_MODE tells of it."""

    consumerGroup: str
    mode: str
    topic: str
    popShareQueueNum: Int32 = 0


class AssignmentQuestion(msgspec.Struct):
    """QUERY_ASSIGNMENT."""

    topic: str
    consumerGroup: str
    clientId: str
    strategyName: str | None = None
    messageModel: str | None = None


def decode_request_mode(body: bytes) -> RequestMode:
    return javajson.loads(body, RequestMode)


def decode_assignment_question(body: bytes) -> AssignmentQuestion:
    return javajson.loads(body, AssignmentQuestion)


# -- told ----------------------------------------------------------------------------------------------------


class TopicTable(msgspec.Struct):
    """GET_ALL_TOPIC_CONFIG. This broker has no topics whose queues are mapped."""

    dataVersion: DataVersion
    mappingDataVersion: DataVersion
    topicConfigTable: Mapping[str, TopicConfig]
    topicQueueMappingDetailMap: dict[str, Any] = {}
    topicQueueMappingInfoMap: dict[str, Any] = {}


class TopicList(msgspec.Struct, omit_defaults=True):
    topicList: Sequence[str]
    brokerAddr: str | None = None


class GroupList(msgspec.Struct):
    groupList: Sequence[str]


class SubscriptionAnswer(msgspec.Struct, omit_defaults=True, kw_only=True):
    group: str
    subscriptionData: SubscriptionData | None = None
    topic: str


class GroupForbidden(msgspec.Struct):
    group: str
    readable: bool
    topic: str


class QueueEntry(msgspec.Struct):
    physicOffset: int
    physicSize: int
    tagsCode: int
    eval: bool = False


class QueueEntries(msgspec.Struct, omit_defaults=True, kw_only=True):
    """QUERY_CONSUME_QUEUE."""

    filterData: str | None = None
    maxQueueIndex: int
    minQueueIndex: int
    queueData: list[QueueEntry]
    subscriptionData: SubscriptionData | None = None


class TopicOffset(msgspec.Struct):
    lastUpdateTimestamp: int
    maxOffset: int
    minOffset: int


class OffsetOfGroup(msgspec.Struct):
    brokerOffset: int
    consumerOffset: int
    lastTimestamp: int = 0
    pullOffset: int = 0


class ConsumeStats(msgspec.Struct):
    """Of a group, in some topics; `queues` become the keys of a map."""

    tps: float
    queues: list[tuple[MessageQueue, OffsetOfGroup]]

    def encoded(self) -> bytes:
        return b'{"consumeTps":%b,"offsetTable":%b}' % (_encode(self.tps), _keyed_by_queue(self.queues))


class QueueTimeSpan(msgspec.Struct):
    """QUERY_CONSUME_TIME_SPAN; times are milliseconds."""

    consumeTimeStamp: int
    delayTime: int
    maxTimeStamp: int
    messageQueue: MessageQueue
    minTimeStamp: int


class TimeSpans(msgspec.Struct):
    consumeTimeSpanSet: list[QueueTimeSpan]


class StatsItem(msgspec.Struct):
    avgpt: float
    sum: int
    tps: float


class StatsData(msgspec.Struct):
    """VIEW_BROKER_STATS_DATA."""

    statsDay: StatsItem
    statsHour: StatsItem
    statsMinute: StatsItem


class KvTable(msgspec.Struct):
    table: Mapping[str, str]


class Assignment(msgspec.Struct):
    messageQueue: MessageQueue
    mode: str


class Assignments(msgspec.Struct, omit_defaults=True):
    """None: the client is to keep what it has."""

    messageQueueAssignments: list[Assignment] | None = None


class RequestModes(msgspec.Struct):
    """By topic and group."""

    messageRequestModeMap: Mapping[str, Mapping[str, RequestMode]]


class MasterReplication(msgspec.Struct):
    """GET_BROKER_HA_STATUS of a master."""

    masterCommitLogMaxOffset: int
    haClientRuntimeInfo: dict[str, int] = msgspec.field(
        default_factory=lambda: dict.fromkeys(
            ("lastReadTimestamp", "lastWriteTimestamp", "masterFlushOffset", "maxOffset", "transferredByteInSecond"), 0
        )
    )
    haConnectionInfo: list[Any] = []
    inSyncSlaveNums: int = 0
    master: bool = True


def encode(body: msgspec.Struct) -> bytes:
    return _encode(body)


def encode_topic_stats(offsets: Iterable[tuple[MessageQueue, TopicOffset]], put_tps: float) -> bytes:
    return b'{"offsetTable":%b,"topicPutTps":%b}' % (_keyed_by_queue(offsets), _encode(put_tps))


def encode_all_consume_stats(
    broker_address: str, stats: Mapping[str, Sequence[ConsumeStats]], total_diff: int, total_inflight_diff: int
) -> bytes:
    groups = (
        b"{%b:[%b]}" % (_encode(group), b",".join(topic.encoded() for topic in topics))
        for group, topics in stats.items()
    )
    return b'{"brokerAddr":%b,"consumeStatsList":[%b],"totalDiff":%d,"totalInflightDiff":%d}' % (
        _encode(broker_address),
        b",".join(groups),
        total_diff,
        total_inflight_diff,
    )


def encode_correction_offsets(offsets: Mapping[int, int]) -> bytes:
    return javajson.dumps({"correctionOffsets": dict(offsets)})


def _keyed_by_queue(rows: Iterable[tuple[MessageQueue, msgspec.Struct]]) -> bytes:
    """A map whose keys are objects. There may be many thousand rows, so this does not go through `javajson`."""
    return b"{%b}" % b",".join(b"%b:%b" % (_encode(queue), _encode(row)) for queue, row in rows)
