"""Offsets of consumer groups, moved and copied by administrators."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from apogeemq.broker.notices import notify_offsets_reset
from apogeemq.broker.state import BrokerState
from apogeemq.errors import RequestRefused
from apogeemq.model.groups import group_problem
from apogeemq.model.queues import MessageQueue
from apogeemq.model.topics import TopicConfig
from apogeemq.protocol import javajson
from apogeemq.protocol.bodies.admin import encode_correction_offsets
from apogeemq.protocol.bodies.clients import encode_reset_offsets
from apogeemq.protocol.codec import encode_ok, encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import admin as headers
from apogeemq.protocol.headers.clients import ResetOffset, read_reset_offset
from apogeemq.protocol.versions import V3_0_7_SNAPSHOT
from apogeemq.store import look_ups
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher

log = logging.getLogger(__name__)

_NEVER = 2**63 - 1  # of a queue in which the compared group is behind all others
_BY_TIME = -1  # in place of an offset


class OffsetAdminHandlers:
    """`delay_offsets` gives the text of the file they are kept in."""

    def __init__(self, state: BrokerState, delay_offsets: Callable[[], bytes]) -> None:
        self._state = state
        self._delay_offsets = delay_offsets

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, self.reset)
        dispatcher.register(RequestCode.CLONE_GROUP_OFFSET, self.clone)
        dispatcher.register(RequestCode.QUERY_CORRECTION_OFFSET, self.correction)
        dispatcher.register(RequestCode.GET_ALL_CONSUMER_OFFSET, self.all_offsets)
        dispatcher.register(RequestCode.GET_ALL_DELAY_OFFSET, self.all_delay_offsets)

    # -- resetting -------------------------------------------------------------------------------------------

    def reset(self, channel: Channel, command: Command) -> bytes:
        """To a time, or one queue to an offset."""
        header = read_reset_offset(command)
        if self._state.config.use_server_side_reset_offset:
            offsets = self._reset_here(header)
        else:
            offsets = self._reset_at_clients(header)
        told = {MessageQueue(self._state.config.broker_name, queue, header.topic): at for queue, at in offsets.items()}
        log.info("%s has offsets of group %s in topic %s set: %s", channel.peer, header.group, header.topic, offsets)
        return encode_ok(command, encode_reset_offsets(told))

    def _reset_here(self, header: ResetOffset) -> dict[int, int]:
        """Kept by the broker; the next pull of each queue is sent there."""
        state = self._state
        topic = state.topics.get(header.topic)
        if topic is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist")
        if state.groups.get(header.group) is None:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.group} does not exist")
        offsets = self._targets(header, topic)
        if not offsets:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
        for queue_id, offset in offsets.items():
            state.offsets.reset(header.group, header.topic, queue_id, offset)
        state.wake_pulls(header.topic)
        return offsets

    def _targets(self, header: ResetOffset, topic: TopicConfig) -> dict[int, int]:
        if header.queueId < 0:
            return {queue: self._offset_at(header, queue) for queue in range(topic.read_queue_nums)}
        if header.queueId >= topic.read_queue_nums:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{header.queueId}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}]",
            )
        if header.offset is None or header.offset == _BY_TIME:
            return {header.queueId: self._offset_at(header, header.queueId)}
        queue = self._state.store.queues.get((header.topic, header.queueId))
        low, high = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
        if not low <= header.offset <= high:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"Target offset {header.offset} not in consume queue range [{low}-{high}]",
            )
        return {header.queueId: header.offset}

    def _offset_at(self, header: ResetOffset, queue_id: int) -> int:
        """Before any time is after every message."""
        store = self._state.store
        if header.timestamp < 0:
            queue = store.queues.get((header.topic, queue_id))
            return queue.max_offset if queue is not None else 0
        return look_ups.offset_at_time(store, header.topic, queue_id, header.timestamp)

    def _reset_at_clients(self, header: ResetOffset) -> dict[int, int]:
        """As 4.9: connected consumers are told to go on from there, and commit."""
        state = self._state
        topic = state.topics.get(header.topic)
        if topic is None:
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST,
                f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}",
            )
        members = state.clients.consumer_group(header.group)
        offsets: dict[int, int] = {}
        for queue_id in range(topic.write_queue_nums):
            consumed = state.offsets.query(header.group, header.topic, queue_id)
            if consumed < 0:
                raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist")
            target = self._offset_at(header, queue_id)
            offsets[queue_id] = target if header.isForce else min(target, consumed)
        if members is None:
            raise RequestRefused(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {header.group} "
                f"Topic: {header.topic} Timestamp: {header.timestamp}",
            )
        clients = list(members.clients.values())
        for client in clients:
            if client.version < V3_0_7_SNAPSHOT:
                raise RequestRefused(
                    ResponseCode.SYSTEM_ERROR, f"the client does not support this feature. version={client.version}"
                )
        told = {MessageQueue(state.config.broker_name, queue, header.topic): at for queue, at in offsets.items()}
        notify_offsets_reset(clients, ResetOffset(header.topic, header.group, header.timestamp), told)
        return offsets

    # -- copying and comparing -------------------------------------------------------------------------------

    def clone(self, channel: Channel, command: Command) -> bytes:
        """Of all topics the group has read, unless one is named; a connected one's only where it is subscribed."""
        header = headers.read_clone_group_offset(command)
        problem = group_problem(header.destGroup)
        if problem is not None:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, problem)
        state = self._state
        named = (header.topic or "").strip()
        members = None if header.offline else state.clients.consumer_group(header.srcGroup)
        for topic in [named] if named else sorted(state.offsets.topics_of(header.srcGroup)):
            is_read = members is None or not members.subscriptions or topic in members.subscriptions
            if is_read and state.topics.get(topic) is not None:
                state.offsets.copy(header.srcGroup, header.destGroup, topic)
        return encode_reply(command)

    def correction(self, channel: Channel, command: Command) -> bytes:
        """The least offset of each queue that any group but the filtered ones is at.

        Where the compared group is behind that, there is no such offset. Apache forgets the offsets of the groups it
        is told to filter; here they are only passed over.
        """
        header = headers.read_correction_offset(command)
        filtered = {name for name in (header.filterGroups or "").split(",") if name}
        least: dict[int, int] = {}
        for topic, group, queues in self._state.offsets.pairs():
            if topic == header.topic and group not in filtered:
                for queue_id, offset in queues.items():
                    queue = self._state.store.queues.get((topic, queue_id))
                    if offset >= (queue.min_offset if queue is not None else 0):
                        least[queue_id] = min(offset, least.get(queue_id, offset))
        compared = self._state.offsets.table.get(f"{header.topic}@{header.compareGroup}", {})
        for queue_id, offset in compared.items():
            if queue_id in least and least[queue_id] > offset:
                least[queue_id] = _NEVER
        return encode_ok(command, encode_correction_offsets(least))

    # -- all of them, as slaves ask --------------------------------------------------------------------------

    def all_offsets(self, channel: Channel, command: Command) -> bytes:
        offsets = self._state.offsets
        topics_by_group: dict[str, list[str]] = {}
        for topic, group, _ in offsets.pairs():
            topics_by_group.setdefault(group, []).append(topic)
        body = {
            "dataVersion": msgspec.to_builtins(offsets.data_version),
            "groupTopicMap": {group: sorted(topics) for group, topics in topics_by_group.items()},
            "offsetTable": offsets.table,
            "pullOffsetTable": offsets.pulled,
        }
        return encode_ok(command, javajson.dumps(body))

    def all_delay_offsets(self, channel: Channel, command: Command) -> bytes:
        return encode_ok(command, self._delay_offsets())
