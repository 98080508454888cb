"""Pulls: messages of a queue from an offset on, at once or as soon as there are some."""

from __future__ import annotations

from collections.abc import Container
from time import perf_counter
from typing import Final

from apogeemq.broker.services.held_pulls import HeldPulls
from apogeemq.broker.state import BrokerState
from apogeemq.errors import BadExpression, RequestRefused
from apogeemq.filter.subscriptions import subscription_of
from apogeemq.model.groups import GroupConfig
from apogeemq.model.subscriptions import TAG, SubscriptionData
from apogeemq.model.topics import MASTER_ID, PERM_READ, TopicConfig
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import broker as headers
from apogeemq.protocol.remarks import FAQ_HINT
from apogeemq.protocol.replies import encode_pull_reply
from apogeemq.store.results import GetStatus, Got
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher, Reply

_FORBIDDEN_READ: Final = 4
_MAX_HOLD_MS: Final = 110_000  # below the 120 s after which either side closes a silent connection
_TIMED_EVERY: Final = 16  # of so many pulls one is timed, and counts for all of them

# Who forbids a pull, as the answer's field forbiddenType says it.
_BY_BROKER, _BY_GROUP, _BY_TOPIC, _BY_BROADCAST, _BY_SUBSCRIPTION = 1, 2, 3, 4, 5

# A queue of a topic that exists is there, even if nothing was ever put into it.
_EMPTY: Final = GetStatus.NO_MESSAGE_IN_QUEUE.name

_CODES: Final = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}


class PullHandlers:
    def __init__(self, state: BrokerState, held: HeldPulls) -> None:
        self._state = state
        self._held = held
        self._groups = state.groups.groups
        self._topics = state.topics.topics
        self._count = 0

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.PULL_MESSAGE, self.pull)
        dispatcher.register(RequestCode.LITE_PULL_MESSAGE, self.pull)

    def pull(self, channel: Channel, command: Command) -> Reply:
        self._count += 1
        started = perf_counter() if self._count % _TIMED_EVERY == 0 else 0.0
        header = headers.read_pull_message(command)
        group, topic = self._checked_names(command, header)
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{channel.peer}]",
            )
        wanted_tags = self._wanted_tags(header, group)
        got = self._get(header, wanted_tags)
        code = _code(got.status, header.queue_offset)
        offsets = self._state.offsets
        offsets.set_pull_offset(header.consumer_group, header.topic, header.queue_id, got.next_offset)
        if header.system_flag & headers.PULL_COMMITS and got.status is not GetStatus.OFFSET_RESET:
            offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        if code == ResponseCode.PULL_NOT_FOUND and header.system_flag & headers.PULL_SUSPENDS:
            return self._hold(command, header, topic, group, wanted_tags)
        reply = self._reply(command, header, topic, group, got, code)
        if started:
            self._state.stats.get_seconds.observe(perf_counter() - started, _TIMED_EVERY)
        return reply

    # -- looking ---------------------------------------------------------------------------------------------

    def _get(self, header: headers.PullMessage, wanted_tags: Container[int] | None) -> Got:
        state = self._state
        if state.offsets.resets:
            reset = state.offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
            if reset is not None:
                queue = state.store.queue(header.topic, header.queue_id)
                return Got(GetStatus.OFFSET_RESET, reset, queue.min_offset, queue.max_offset)
        limits = state.store_config
        most = min(max(header.max_messages, 1), limits.max_transfer_count_on_message_in_memory)
        max_bytes = limits.max_transfer_bytes_on_message_in_memory
        if header.max_bytes is not None and header.max_bytes > 0:
            max_bytes = min(max_bytes, header.max_bytes)
        return state.store.get(header.topic, header.queue_id, header.queue_offset, most, max_bytes, wanted_tags)

    def _reply(
        self,
        command: Command,
        header: headers.PullMessage,
        topic: TopicConfig,
        group: GroupConfig,
        got: Got,
        code: int,
    ) -> bytes:
        stats = self._state.stats
        if code == ResponseCode.SUCCESS:
            stats.got(f"{header.topic}@{header.consumer_group}", got.message_count, len(got.records))
        else:
            stats.get_miss_count += 1
        return encode_pull_reply(
            command,
            code,
            got.status.name if got.status is not GetStatus.NO_MATCHED_LOGIC_QUEUE else _EMPTY,
            got.next_offset,
            got.min_offset,
            got.max_offset,
            group.broker_id if self._state.config.slave_read_enable else MASTER_ID,
            topic.topic_sys_flag,
            group.group_sys_flag,
            [got.records],
        )

    def _hold(
        self,
        command: Command,
        header: headers.PullMessage,
        topic: TopicConfig,
        group: GroupConfig,
        wanted_tags: Container[int] | None,
    ) -> Reply:
        config = self._state.config
        hold_ms = header.suspend_ms if config.long_polling_enable else config.short_polling_time_mills

        def answer_again(is_last: bool) -> bytes | None:
            got = self._get(header, wanted_tags)
            code = _code(got.status, header.queue_offset)
            if code == ResponseCode.PULL_NOT_FOUND and not is_last:
                return None
            self._state.offsets.set_pull_offset(header.consumer_group, header.topic, header.queue_id, got.next_offset)
            return self._reply(command, header, topic, group, got, code)

        key = (header.topic, header.queue_id)
        seconds = min(max(hold_ms, 0), _MAX_HOLD_MS) / 1000
        answer = self._held.hold(key, header.queue_offset, wanted_tags, seconds, answer_again)
        return answer if answer is not None else answer_again(True)

    # -- may it? ---------------------------------------------------------------------------------------------

    def _checked_names(self, command: Command, header: headers.PullMessage) -> tuple[GroupConfig, TopicConfig]:
        state, config = self._state, self._state.config
        if not config.broker_permission & PERM_READ:
            raise _forbidden(_BY_BROKER, f"the broker[{config.broker_ip1}] pulling message is forbidden")
        if command.code == RequestCode.LITE_PULL_MESSAGE and not config.lite_pull_message_enable:
            raise _forbidden(_BY_BROKER, f"the broker[{config.broker_ip1}] for lite pull consumer is forbidden")
        group = self._groups.get(header.consumer_group) or state.groups.find(header.consumer_group, state.now_ms())
        if group is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{header.consumer_group}] does not exist, {FAQ_HINT}",
            )
        if not group.consume_enable:
            raise _forbidden(_BY_GROUP, f"subscription group no permission, {header.consumer_group}")
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist, apply first please! {FAQ_HINT}"
            )
        if not topic.perm & PERM_READ:
            raise _forbidden(_BY_TOPIC, f"the topic[{header.topic}] pulling message is forbidden")
        return group, topic

    def _wanted_tags(self, header: headers.PullMessage, group: GroupConfig) -> Container[int] | None:
        """Hashes of the tags the consumer wants; None for all."""
        if header.system_flag & headers.PULL_SUBSCRIBES:
            try:
                subscription = subscription_of(header.topic, header.subscription, header.expression_type)
            except BadExpression:
                raise RequestRefused(
                    ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"
                ) from None
        else:
            subscription = self._subscription(header, group)
        if subscription.expression_type != TAG:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {subscription.expression_type}",
            )
        return subscription.wanted_tags

    def _subscription(self, header: headers.PullMessage, group: GroupConfig) -> SubscriptionData:
        """What the group's heartbeats said it wants of the topic."""
        members = self._state.clients.consumers.get(header.consumer_group)
        if members is None:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist{FAQ_HINT}")
        if not group.consume_broadcast_enable and members.is_broadcasting:
            raise _forbidden(
                _BY_BROADCAST, f"the consumer group[{header.consumer_group}] can not consume by broadcast way"
            )
        forbidden = self._state.groups.forbidden
        if forbidden and forbidden.get(header.consumer_group, {}).get(header.topic, 0) & _FORBIDDEN_READ:
            raise _forbidden(
                _BY_SUBSCRIPTION, f"the consumer group[{header.consumer_group}] is forbidden for topic[{header.topic}]"
            )
        found = members.subscriptions.get(header.topic)
        if found is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist{FAQ_HINT}"
            )
        if found.sub_version < header.subscription_version:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        return found


def _code(status: GetStatus, asked_offset: int) -> int:
    """An empty queue has nothing, or has lost what the consumer had come to."""
    code = _CODES.get(status)
    if code is None:
        return ResponseCode.PULL_OFFSET_MOVED if asked_offset != 0 else ResponseCode.PULL_NOT_FOUND
    return code


def _forbidden(by: int, remark: str) -> RequestRefused:
    return RequestRefused(ResponseCode.NO_PERMISSION, remark, {"forbiddenType": str(by)})
