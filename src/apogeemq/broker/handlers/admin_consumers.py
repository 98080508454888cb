"""How far consumer groups have read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from apogeemq.broker.services.stat_windows import StatWindows
from apogeemq.broker.state import BrokerState
from apogeemq.broker.tables.offsets import SEPARATOR
from apogeemq.errors import RequestRefused
from apogeemq.model.queues import MessageQueue
from apogeemq.model.topics import TopicConfig
from apogeemq.protocol.bodies import admin as bodies
from apogeemq.protocol.codec import encode_ok
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import admin as headers
from apogeemq.store import look_ups
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher

_QUEUES_AT_ONCE: Final = 500  # looked at before others have their turn


class ConsumeStatusHandlers:
    def __init__(self, state: BrokerState, windows: StatWindows) -> None:
        self._state = state
        self._windows = windows

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.GET_CONSUME_STATS, self.consume_stats)
        dispatcher.register(RequestCode.GET_BROKER_CONSUME_STATS, self.all_consume_stats)
        dispatcher.register(RequestCode.QUERY_CONSUME_TIME_SPAN, self.time_spans)

    # -- offsets ---------------------------------------------------------------------------------------------

    def consume_stats(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_consume_stats(command)
        group = header.consumerGroup
        topics: Iterable[str] = header.topics
        if not topics:
            wanted = (header.topic or "").strip()
            asked = [wanted] if wanted else sorted(self._state.offsets.topics_of(group))
            topics = [topic for topic in asked if self._is_read(group, topic)]
        total = bodies.ConsumeStats(0.0, [])
        for topic in topics:
            config = self._state.topics.get(topic)
            if config is not None:
                stats = self._stats(group, config, config.read_queue_nums)
                for queue, offset in stats.queues:
                    pulled = self._state.offsets.pull_offset(group, topic, queue.queue_id)
                    offset.pullOffset = max(offset.consumerOffset, pulled)
                total.queues += stats.queues
                total.tps += stats.tps
        return encode_ok(command, total.encoded())

    def all_consume_stats(self, channel: Channel, command: Command) -> asyncio.Future[bytes]:
        is_ordered_only = headers.read_broker_consume_stats(command).isOrder

        async def answer() -> bytes:
            told = await self._stats_of_all(is_ordered_only)
            return encode_ok(command, await asyncio.to_thread(self._encoded, told))

        return asyncio.ensure_future(answer())

    async def _stats_of_all(self, is_ordered_only: bool) -> dict[str, list[bodies.ConsumeStats]]:
        """Others are served in between: there may be many thousand queues to look at."""
        topics_by_group: dict[str, list[str]] = {}
        for topic, group, _ in self._state.offsets.pairs():
            topics_by_group.setdefault(group, []).append(topic)
        told: dict[str, list[bodies.ConsumeStats]] = {}
        looked_at = 0
        for group in sorted(self._state.groups.groups):
            told[group] = []
            for topic in sorted(topics_by_group.get(group, ())):
                config = self._state.topics.get(topic)
                if config is None or (is_ordered_only and not config.order) or not self._is_read(group, topic):
                    continue
                told[group].append(self._stats(group, config, config.write_queue_nums))
                looked_at += config.write_queue_nums
                if looked_at >= _QUEUES_AT_ONCE:
                    looked_at = 0
                    await asyncio.sleep(0)
        return told

    def _encoded(self, told: dict[str, list[bodies.ConsumeStats]]) -> bytes:
        offsets = [offset for group in told.values() for stats in group for _, offset in stats.queues]
        behind = sum(offset.brokerOffset - offset.consumerOffset for offset in offsets)
        # How far ahead pulls are is not said here, so that this comes out below zero; Apache's tools expect it so.
        inflight = sum(offset.pullOffset - offset.consumerOffset for offset in offsets)
        return bodies.encode_all_consume_stats(self._state.address, told, behind, inflight)

    def _is_read(self, group: str, topic: str) -> bool:
        """A group that is connected reads what it subscribes to; else what it has read before."""
        members = self._state.clients.consumer_group(group)
        return members is None or not members.subscriptions or topic in members.subscriptions

    def _stats(self, group: str, config: TopicConfig, queue_count: int) -> bodies.ConsumeStats:
        state, topic = self._state, config.topic_name
        queues = []
        for queue_id in range(queue_count):
            queue = state.store.queues.get((topic, queue_id))
            end = queue.max_offset if queue is not None else 0
            consumed = max(state.offsets.query(group, topic, queue_id), 0)
            time = look_ups.store_time_at(state.store, topic, queue_id, consumed - 1) if consumed else 0
            key = MessageQueue(state.config.broker_name, queue_id, topic)
            queues.append((key, bodies.OffsetOfGroup(end, consumed, max(time, 0))))
        rate = self._windows.gets.messages_per_second(f"{topic}{SEPARATOR}{group}")
        return bodies.ConsumeStats(rate, queues)

    # -- times -----------------------------------------------------------------------------------------------

    def time_spans(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_topic_of_group(command)
        config = self._state.topics.get(header.topic)
        if config is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        now_ms = self._state.now_ms()
        spans = [
            self._time_span(header.group, header.topic, queue_id, now_ms) for queue_id in range(config.write_queue_nums)
        ]
        return encode_ok(command, bodies.encode(bodies.TimeSpans(spans)))

    def _time_span(self, group: str, topic: str, queue_id: int, now_ms: int) -> bodies.QueueTimeSpan:
        store = self._state.store
        queue = store.queues.get((topic, queue_id))
        low, high = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
        consumed = self._state.offsets.query(group, topic, queue_id)
        first_time = look_ups.earliest_time(store, topic, queue_id)
        consumed_time = look_ups.store_time_at(store, topic, queue_id, consumed - 1) if consumed > 0 else first_time
        delay_ms = 0
        if consumed < high:  # of the oldest message not consumed yet
            delay_ms = now_ms - look_ups.store_time_at(store, topic, queue_id, max(consumed, low))
        return bodies.QueueTimeSpan(
            consumeTimeStamp=consumed_time,
            delayTime=delay_ms,
            maxTimeStamp=look_ups.store_time_at(store, topic, queue_id, high - 1),
            messageQueue=MessageQueue(self._state.config.broker_name, queue_id, topic),
            minTimeStamp=first_time,
        )
