"""Headers about the clients of a broker, and of what a broker asks its clients. Field names are the wire's."""

from __future__ import annotations

import msgspec

from apogeemq.protocol.command import Int32, Int64
from apogeemq.protocol.fields import HeaderReader


class UnregisterClient(msgspec.Struct):
    clientID: str | None = None  # the connection says who it is
    producerGroup: str | None = None
    consumerGroup: str | None = None


class ConsumerGroupOnly(msgspec.Struct):
    """GET_CONSUMER_LIST_BY_GROUP, GET_CONSUMER_CONNECTION_LIST, NOTIFY_CONSUMER_IDS_CHANGED."""

    consumerGroup: str


class ProducerGroupOnly(msgspec.Struct):
    producerGroup: str


class OneConsumer(msgspec.Struct):
    """GET_CONSUMER_RUNNING_INFO; other fields travel on to the consumer as they are."""

    consumerGroup: str
    clientId: str | None = None


class RunningInfo(msgspec.Struct):
    """GET_CONSUMER_RUNNING_INFO, as the consumer reads it."""

    consumerGroup: str
    jstackEnable: bool = False


class ConsumeDirectly(msgspec.Struct):
    consumerGroup: str
    clientId: str | None = None
    msgId: str | None = None
    topic: str | None = None
    brokerName: str = ""


class ConsumerStatus(msgspec.Struct):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS and, to clients, GET_CONSUMER_STATUS_FROM_CLIENT."""

    topic: str
    group: str
    clientAddr: str | None = None


class ResetOffset(msgspec.Struct):
    """INVOKE_BROKER_TO_RESET_OFFSET and, to clients, RESET_CONSUMER_CLIENT_OFFSET."""

    topic: str
    group: str
    timestamp: Int64
    isForce: bool = False
    queueId: Int32 = -1
    offset: Int64 | None = None


read_unregister_client = HeaderReader(UnregisterClient)
read_consumer_group = HeaderReader(ConsumerGroupOnly)
read_producer_group = HeaderReader(ProducerGroupOnly)
read_one_consumer = HeaderReader(OneConsumer)
read_running_info = HeaderReader(RunningInfo)
read_consume_directly = HeaderReader(ConsumeDirectly)
read_consumer_status = HeaderReader(ConsumerStatus)
read_reset_offset = HeaderReader(ResetOffset)
