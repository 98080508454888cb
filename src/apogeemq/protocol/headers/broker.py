"""Headers of what producers and consumers ask of a broker. Field names are the wire's where nothing else is said."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import field

from apogeemq.protocol.command import NO_FIELDS, Command, Int32, Int64
from apogeemq.protocol.fields import HeaderReader

# Bits of a pull's system flag.
PULL_COMMITS: Final = 1
PULL_SUSPENDS: Final = 2
PULL_SUBSCRIBES: Final = 4
PULL_LITE: Final = 16

UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"


class SendMessage(msgspec.Struct, gc=False):
    """SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: one letter per field, because every message carries them."""

    topic: str = field(name="b")
    queue_id: Int32 = field(name="e")
    system_flag: Int32 = field(name="f")
    born_time: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    producer_group: str = field(default="", name="a")
    default_topic: str = field(default="", name="c")
    default_queue_nums: Int32 = field(default=0, name="d")
    properties: str | None = field(default=None, name="i")
    reconsume_times: Int32 | None = field(default=None, name="j")
    unit_mode: bool = field(default=False, name="k")
    max_reconsume_times: Int32 | None = field(default=None, name="l")
    is_batch: bool = field(default=False, name="m")
    # Of whom it is asked, as in the headers below: those who stand between clients and brokers need it.
    broker_name: str | None = field(default=None, name="n")


class SendCommand(Command, rename={"header": "extFields"}):
    """A command read together with its header: half of what it costs to read one after the other."""

    ext_json: msgspec.Raw = field(default=NO_FIELDS, name="#extFields")
    header: SendMessage | None = None


class SendMessageV1(msgspec.Struct, gc=False):
    """SEND_MESSAGE: the same fields by their whole names."""

    topic: str
    queue_id: Int32 = field(name="queueId")
    system_flag: Int32 = field(name="sysFlag")
    born_time: Int64 = field(name="bornTimestamp")
    flag: Int32
    producer_group: str = field(default="", name="producerGroup")
    default_topic: str = field(default="", name="defaultTopic")
    default_queue_nums: Int32 = field(default=0, name="defaultTopicQueueNums")
    properties: str | None = None
    reconsume_times: Int32 | None = field(default=None, name="reconsumeTimes")
    unit_mode: bool = field(default=False, name="unitMode")
    max_reconsume_times: Int32 | None = field(default=None, name="maxReconsumeTimes")
    is_batch: bool = field(default=False, name="batch")


class SendResult(msgspec.Struct, gc=False):
    """What a broker answers to a send; several ids, with commas between, to a batch."""

    msgId: str
    queueId: Int32
    queueOffset: Int64
    transactionId: str | None = None


PULL_OFFSET: Final = "queueOffset"


class PullMessage(msgspec.Struct, gc=False):
    consumer_group: str = field(name="consumerGroup")
    topic: str
    queue_id: Int32 = field(name="queueId")
    queue_offset: Int64 = field(name=PULL_OFFSET)
    max_messages: Int32 = field(name="maxMsgNums")
    system_flag: Int32 = field(name="sysFlag")
    commit_offset: Int64 = field(default=0, name="commitOffset")
    suspend_ms: Int64 = field(default=0, name="suspendTimeoutMillis")
    subscription_version: Int64 = field(default=0, name="subVersion")
    subscription: str | None = None
    expression_type: str | None = field(default=None, name="expressionType")
    max_bytes: Int32 | None = field(default=None, name="maxMsgBytes")
    broker_name: str | None = field(default=None, name="bname")


class PullResult(msgspec.Struct, gc=False):
    """What a broker answers to a pull, with whatever messages there are."""

    nextBeginOffset: Int64
    minOffset: Int64
    maxOffset: Int64
    suggestWhichBrokerId: Int64


class QueueOnly(msgspec.Struct):
    """GET_MAX_OFFSET, GET_MIN_OFFSET, GET_EARLIEST_MSG_STORETIME."""

    topic: str
    queueId: Int32
    bname: str | None = None


class SearchOffset(msgspec.Struct):
    topic: str
    queueId: Int32
    timestamp: Int64
    boundaryType: str | None = None
    bname: str | None = None


class QueryConsumerOffset(msgspec.Struct):
    consumerGroup: str
    topic: str
    queueId: Int32
    setZeroIfNotFound: bool | None = None
    bname: str | None = None


class UpdateConsumerOffset(msgspec.Struct):
    consumerGroup: str = "null"
    topic: str = "null"
    queueId: Int32 | None = None
    commitOffset: Int64 | None = None
    bname: str | None = None


class SendBack(msgspec.Struct):
    offset: Int64
    group: str
    delayLevel: Int32
    originMsgId: str | None = None
    originTopic: str | None = None
    unitMode: bool = False
    maxReconsumeTimes: Int32 | None = None
    bname: str | None = None


class QueryMessage(msgspec.Struct):
    maxNum: Int32
    beginTimestamp: Int64
    endTimestamp: Int64
    topic: str = "null"
    key: str = "null"
    is_unique_key: bool = field(default=False, name=UNIQUE_KEY_QUERY)


class ViewMessage(msgspec.Struct):
    offset: Int64
    topic: str | None = None


decode_send = msgspec.json.Decoder(SendCommand, strict=False).decode
read_send_message = HeaderReader(SendMessage, is_strict=True)
read_send_message_v1 = HeaderReader(SendMessageV1, is_strict=True)
read_send_result = HeaderReader(SendResult)
read_pull_message = HeaderReader(PullMessage, is_strict=True)
read_pull_result = HeaderReader(PullResult)
read_queue_only = HeaderReader(QueueOnly)
read_search_offset = HeaderReader(SearchOffset)
read_query_consumer_offset = HeaderReader(QueryConsumerOffset)
read_update_consumer_offset = HeaderReader(UpdateConsumerOffset)
read_send_back = HeaderReader(SendBack)
read_query_message = HeaderReader(QueryMessage)
read_view_message = HeaderReader(ViewMessage)
