"""What is in topics and who reads them, and the broom for what nobody needs any more."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from apogeemq.broker.services.stat_windows import StatWindows
from apogeemq.broker.state import BrokerState
from apogeemq.errors import RequestRefused
from apogeemq.model.queues import MessageQueue
from apogeemq.model.topics import TopicConfig
from apogeemq.protocol.bodies import admin as bodies
from apogeemq.protocol.codec import encode_ok, encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import admin as headers
from apogeemq.store import look_ups
from apogeemq.store.layout import QUEUE_ENTRY
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher

log = logging.getLogger(__name__)

_MAX_ENTRIES: Final = 10_000  # of a queue, in one answer


class TopicStatusHandlers:
    def __init__(self, state: BrokerState, windows: StatWindows) -> None:
        self._state = state
        self._windows = windows

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.GET_TOPIC_STATS_INFO, self.topic_stats)
        dispatcher.register(RequestCode.QUERY_CONSUME_QUEUE, self.queue_entries)
        dispatcher.register(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, self.groups_of_topic)
        dispatcher.register(RequestCode.QUERY_TOPICS_BY_CONSUMER, self.topics_of_group)
        dispatcher.register(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, self.subscription)
        dispatcher.register(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, self.clean_expired_queues)
        dispatcher.register(RequestCode.CLEAN_UNUSED_TOPIC, self.clean_unused_topics)
        dispatcher.register(RequestCode.DELETE_EXPIRED_COMMITLOG, self.delete_expired_log)

    # -- what is there ---------------------------------------------------------------------------------------

    def topic_stats(self, channel: Channel, command: Command) -> bytes:
        topic = headers.read_topic(command).topic
        config = self._state.topics.get(topic)
        if config is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        rate = self._windows.puts.messages_per_second(topic)
        return encode_ok(command, bodies.encode_topic_stats(self._offsets(config), rate))

    def _offsets(self, config: TopicConfig) -> Iterator[tuple[MessageQueue, bodies.TopicOffset]]:
        store, topic, broker_name = self._state.store, config.topic_name, self._state.config.broker_name
        for queue_id in range(max(config.read_queue_nums, config.write_queue_nums)):
            queue = store.queues.get((topic, queue_id))
            low, high = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
            time = look_ups.store_time_at(store, topic, queue_id, high - 1) if high > 0 else 0
            yield MessageQueue(broker_name, queue_id, topic), bodies.TopicOffset(time, high, low)

    def queue_entries(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_queue_entries(command)
        queue = self._state.store.queues.get((header.topic, header.queueId))
        if queue is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{header.queueId}@{header.topic} is not exist!")
        if not queue.min_offset <= header.index < queue.max_offset:
            remark = f"Index {header.index} of {header.queueId}@{header.topic} is not exist!"
            return encode_reply(command, remark=remark)
        data = queue.entries(header.index, max(0, min(header.count, _MAX_ENTRIES)))
        subscription = None
        note = None
        if header.consumerGroup is not None:
            subscription = self._state.clients.subscription(header.consumerGroup, header.topic)
            note = "null" if subscription is not None else f"{header.consumerGroup}@{header.topic} is not online!"
        answer = bodies.QueueEntries(
            filterData=note,
            maxQueueIndex=queue.max_offset,
            minQueueIndex=queue.min_offset,
            queueData=[bodies.QueueEntry(*entry) for entry in QUEUE_ENTRY.iter_unpack(data)],
            subscriptionData=subscription,
        )
        return encode_ok(command, bodies.encode(answer))

    # -- who reads what --------------------------------------------------------------------------------------

    def groups_of_topic(self, channel: Channel, command: Command) -> bytes:
        topic = headers.read_topic(command).topic
        groups = self._state.clients.groups_consuming(topic) | self._state.offsets.groups_of(topic)
        return encode_ok(command, bodies.encode(bodies.GroupList(sorted(groups))))

    def topics_of_group(self, channel: Channel, command: Command) -> bytes:
        topics = self._state.offsets.topics_of(headers.read_group(command).group)
        return encode_ok(command, bodies.encode(bodies.TopicList(sorted(topics), self._state.address)))

    def subscription(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_topic_of_group(command)
        found = self._state.clients.subscription(header.group, header.topic)
        answer = bodies.SubscriptionAnswer(group=header.group, subscriptionData=found, topic=header.topic)
        return encode_ok(command, bodies.encode(answer))

    # -- cleaning --------------------------------------------------------------------------------------------

    def clean_expired_queues(self, channel: Channel, command: Command) -> bytes:
        """Queues all of whose messages have expired."""
        log.info("%s has expired queues deleted", channel.peer)
        self._state.opened.delete_expired_queues(self._state.topics.is_system)
        return encode_reply(command)

    def clean_unused_topics(self, channel: Channel, command: Command) -> bytes:
        """Queues of topics this broker does not know any more."""
        state = self._state
        kept = state.topics.topics
        unused = {topic for topic, _ in state.store.queues if topic not in kept and not state.topics.is_system(topic)}
        log.info("%s has the queues of %d unused topics deleted", channel.peer, len(unused))
        for topic in sorted(unused):
            state.store.delete_topic(topic)
        return encode_reply(command)

    def delete_expired_log(self, channel: Channel, command: Command) -> bytes:
        log.info("%s has expired files of the commit log deleted", channel.peer)
        self._state.opened.delete_expired_log(self._state.now_ms())
        return encode_reply(command)
