"""Offsets: how far a group is, where a queue begins and ends, and which offset a time is at."""

from __future__ import annotations

from apogeemq.broker.state import BrokerState
from apogeemq.broker.tables.offsets import NO_OFFSET
from apogeemq.errors import RequestRefused
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import broker as headers
from apogeemq.store import look_ups
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher

_UPPER = "UPPER"


class OffsetHandlers:
    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.QUERY_CONSUMER_OFFSET, self.query_consumer_offset)
        dispatcher.register(RequestCode.UPDATE_CONSUMER_OFFSET, self.update_consumer_offset)
        dispatcher.register(RequestCode.GET_MAX_OFFSET, self.max_offset)
        dispatcher.register(RequestCode.GET_MIN_OFFSET, self.min_offset)
        dispatcher.register(RequestCode.GET_EARLIEST_MSG_STORETIME, self.earliest_time)
        dispatcher.register(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, self.search_offset)

    def query_consumer_offset(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_query_consumer_offset(command)
        offset = self._state.offsets.query(header.consumerGroup, header.topic, header.queueId)
        if offset <= NO_OFFSET:
            if header.setZeroIfNotFound is False:
                raise RequestRefused(
                    ResponseCode.QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first"
                )
            # A group never seen begins at the first message, as long as the queue still has it.
            queue = self._state.store.queues.get((header.topic, header.queueId))
            if queue is None or not queue.min_offset <= 0 < queue.max_offset:
                raise RequestRefused(
                    ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
                )
            offset = 0
        return encode_reply(command, fields={"offset": str(offset)})

    def update_consumer_offset(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_update_consumer_offset(command)
        state = self._state
        if state.groups.get(header.consumerGroup) is None:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.consumerGroup} not exist!")
        if state.topics.get(header.topic) is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} not exist!")
        queue_id, offset = header.queueId, header.commitOffset
        if queue_id is None or queue_id < 0:
            problem = "null" if queue_id is None else f"negative ({queue_id})"
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"QueueId is {problem}, topic is {header.topic}")
        if offset is None or offset < 0:
            problem = "null" if offset is None else f"negative ({offset})"
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"Offset is {problem}, topic is {header.topic}")
        if state.offsets.has_reset(header.consumerGroup, header.topic, queue_id):
            return encode_reply(command, remark="Offset has been previously reset")
        state.offsets.commit(header.consumerGroup, header.topic, queue_id, offset)
        return encode_reply(command)

    def max_offset(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_queue_only(command)
        queue = self._state.store.queues.get((header.topic, header.queueId))
        return encode_reply(command, fields={"offset": str(queue.max_offset if queue is not None else 0)})

    def min_offset(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_queue_only(command)
        queue = self._state.store.queues.get((header.topic, header.queueId))
        return encode_reply(command, fields={"offset": str(queue.min_offset if queue is not None else 0)})

    def earliest_time(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_queue_only(command)
        moment = look_ups.earliest_time(self._state.store, header.topic, header.queueId)
        return encode_reply(command, fields={"timestamp": str(moment)})

    def search_offset(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_search_offset(command)
        is_upper = (header.boundaryType or "").upper() == _UPPER
        offset = look_ups.offset_at_time(
            self._state.store, header.topic, header.queueId, header.timestamp, upper=is_upper
        )
        return encode_reply(command, fields={"offset": str(offset)})
