"""Sends: a message, a batch, and what old consumers send to a retry topic."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from ipaddress import ip_address
from time import perf_counter
from typing import Final, TypeAlias

from apogeemq.broker.putting import Putter
from apogeemq.broker.state import BrokerState
from apogeemq.errors import ProtocolError, RequestRefused
from apogeemq.filter.tags import java_hash
from apogeemq.model import properties as names
from apogeemq.model.delays import level_of
from apogeemq.model.flags import BORN_HOST_IPV6, MULTI_TAGS, STORE_HOST_IPV6
from apogeemq.model.ids import encode_host
from apogeemq.model.properties import decode_properties, encode_properties
from apogeemq.model.topics import (
    DEAD_LETTER_QUEUES,
    FLAG_UNIT,
    FLAG_UNIT_SUB,
    MAX_TOPIC_LENGTH,
    MULTI_TAG,
    NO_SEND_TOPICS,
    PERM_READ_WRITE,
    RETRY_PREFIX,
    TopicConfig,
    dead_letter_topic,
    described,
    is_writable,
    topic_problem,
)
from apogeemq.protocol.batch import BatchEntries
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import broker as headers
from apogeemq.protocol.record import HOST_FLAGS
from apogeemq.protocol.remarks import FAQ_HINT
from apogeemq.protocol.versions import V3_4_9
from apogeemq.store.config import SYNC_FLUSH
from apogeemq.store.message_marks import index_keys
from apogeemq.store.results import NewMessage, Put, PutBatch
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import BUSY_REMARK, Dispatcher, Reply
from apogeemq.transport.later import Later

_MAX_REMEMBERED_HOSTS: Final = 10_000
_NO_SEND_TOPICS: Final = NO_SEND_TOPICS
_perf_counter: Final = perf_counter
_TIMED_EVERY: Final = 16  # of so many sends one is timed, and counts for all of them

Header: TypeAlias = headers.SendMessage | headers.SendMessageV1


class SendHandlers:
    def __init__(self, state: BrokerState, putter: Putter) -> None:
        self._state = state
        self._putter = putter
        self._topics = state.topics.topics
        self._replies = state.send_replies
        self._rules = state.property_rules
        self._store_flag = STORE_HOST_IPV6 if len(state.store_host) > 8 else 0
        self._hosts: dict[tuple[str, int], tuple[bytes, int]] = {}
        self._config = state.config
        self._store_host = state.store_host
        self._count_put = state.stats.put
        self.is_sync = state.store_config.flush_disk_type == SYNC_FLUSH
        self._count = 0
        self._make_unique_key = self._new_unique_key  # once, not for every message

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.SEND_MESSAGE, self.send_v1)
        dispatcher.register(RequestCode.SEND_MESSAGE_V2, self.send_v2, headers.decode_send)
        dispatcher.register(RequestCode.SEND_BATCH_MESSAGE, self.send_v2, headers.decode_send)
        dispatcher.before_answers = self.before_answers

    def before_answers(self) -> None:
        """Messages of one read are written together, before any of them is answered; if their senders wait for a flush,
        those of one turn of the loop, before the flush is asked for."""
        if not self.is_sync:
            self._state.store.settle()

    def send_v1(self, channel: Channel, command: Command) -> Reply:
        return self._send(channel, command, headers.read_send_message_v1(command))

    def send_v2(self, channel: Channel, command: Command) -> Reply:
        header = command.header if isinstance(command, headers.SendCommand) else None
        return self._send(channel, command, header if header is not None else headers.read_send_message(command))

    def _send(self, channel: Channel, command: Command, header: Header) -> Reply:
        self._count += 1
        started = _perf_counter() if self._count % _TIMED_EVERY == 0 else 0.0
        name, config = header.topic, self._config
        topic = self._topics.get(name)
        is_new = topic is None
        try:
            if topic is None or name in _NO_SEND_TOPICS or config.broker_permission != PERM_READ_WRITE:
                topic = self._checked_topic(channel, command, header)
            if config.start_accept_send_request_time_stamp or (
                self.is_sync and len(self._state.promises) >= config.send_thread_pool_queue_capacity
            ):
                self._check_time_and_load()
            if header.is_batch:
                reply = self._put_batch(channel, command, header, topic)
            else:
                reply = self._put_one(channel, command, header, topic)
        except RequestRefused as refusal:
            raise RequestRefused(refusal.code, refusal.remark, self._replies.fixed_fields) from None
        if started:
            self._state.stats.put_seconds.observe(_perf_counter() - started, _TIMED_EVERY)
        return reply if not is_new else asyncio.ensure_future(self._after_topic_is_kept(reply))

    async def _after_topic_is_kept(self, reply: bytes | Later) -> bytes:
        """A message is of little use after a crash that has forgotten its topic."""
        await self._state.keep_topics()
        return reply if isinstance(reply, bytes) else await reply.as_future(asyncio.get_running_loop())

    # -- one message -----------------------------------------------------------------------------------------

    def _put_one(self, channel: Channel, command: Command, header: Header, topic: TopicConfig) -> bytes | Later:
        queue_id = header.queue_id
        if not 0 <= queue_id < topic.write_queue_nums:
            queue_id = self._checked_queue(channel, header, topic)
        body = command.body
        if not body:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the message has no body")
        properties, encoded, unique_key, is_usual = self._rules.accept(header.properties or "", self._make_unique_key)
        born_host, host_flag = self._hosts.get(channel.address) or self._host_of(channel)
        system_flag = header.system_flag & ~HOST_FLAGS | host_flag
        if topic.topic_filter_type == MULTI_TAG:
            system_flag |= MULTI_TAGS
        tags = properties.get(names.TAGS)
        tags_code = java_hash(tags) if tags else 0
        waits_for_flush = self.is_sync and properties.get(names.WAIT) != "false"
        name = topic.topic_name  # the key that tables know: they need not compare it letter by letter
        if is_usual and not name.startswith(RETRY_PREFIX):
            offset, queue_offset, size, store_time = self._putter.put_usual(
                name,
                queue_id,
                header.flag,
                system_flag,
                header.born_time,
                born_host,
                self._store_host,
                header.reconsume_times or 0,
                body,
                encoded,
                tags_code,
                index_keys(properties),
                is_gathered=waits_for_flush or not self.is_sync,
            )
        else:
            name, queue_id, put = self._put_unusual(
                command, header, queue_id, system_flag, born_host, properties, encoded, tags_code
            )
            offset, queue_offset, size, store_time = put.physical_offset, put.queue_offset, put.size, put.store_time
        self._count_put(name, 1, size)
        reply = self._replies.stored(command, offset, queue_id, queue_offset, unique_key)
        if waits_for_flush:
            not_kept = partial(self._not_kept, command, [offset], queue_id, queue_offset, unique_key)
            return self._state.promises.answer_when_kept(offset + size, store_time, reply, not_kept)
        return reply

    def _put_unusual(
        self,
        command: Command,
        header: Header,
        queue_id: int,
        system_flag: int,
        born_host: bytes,
        properties: dict[str, str],
        encoded: bytes,
        tags_code: int,
    ) -> tuple[str, int, Put]:
        """One that asks for more than to be stored, or goes to a retry topic; gives the topic and queue it went to."""
        name = header.topic
        self._refuse_what_is_not_there(header, properties)
        if name.startswith(RETRY_PREFIX):
            name = self._retry_or_dead_letter(command, header, properties)
            if name != header.topic:
                queue_id = 0
                encoded = encode_properties({**decode_properties(encoded.decode()), **properties}).encode()
        message = NewMessage(
            name,
            queue_id,
            header.flag,
            system_flag,
            header.born_time,
            born_host,
            self._store_host,
            header.reconsume_times or 0,
            0,
            command.body,
            encoded,
            tags_code,
            index_keys(properties),
        )
        return name, queue_id, self._putter.put(message, properties)

    def _new_unique_key(self) -> str:
        return self._state.unique_ids.next(self._state.now_ms())

    def _not_kept(
        self, command: Command, offsets: list[int], queue_id: int, queue_offset: int, unique_key: str
    ) -> bytes:
        code = ResponseCode.FLUSH_DISK_TIMEOUT
        return self._replies.stored_but(command, code, offsets, queue_id, queue_offset, unique_key)

    # -- a batch ---------------------------------------------------------------------------------------------

    def _put_batch(self, channel: Channel, command: Command, header: Header, topic: TopicConfig) -> bytes | Later:
        queue_id = header.queue_id
        if not 0 <= queue_id < topic.write_queue_nums:
            queue_id = self._checked_queue(channel, header, topic)
        if len(header.topic) > MAX_TOPIC_LENGTH:
            raise _illegal(f"message topic length too long {len(header.topic)}")
        if header.topic.startswith(RETRY_PREFIX):
            raise _illegal(f"batch request does not support retry group {header.topic}")
        if level_of(decode_properties(header.properties or "").get(names.DELAY)) > 0:
            raise _illegal("a batch cannot be delayed")
        self._putter.check_sizes(len(command.body), 0)
        batch = self._batch(command.body)
        born_host, host_flag = self._hosts.get(channel.address) or self._host_of(channel)
        shared = NewMessage(
            header.topic,
            queue_id,
            header.flag,
            header.system_flag & ~HOST_FLAGS | host_flag | (MULTI_TAGS if topic.topic_filter_type == MULTI_TAG else 0),
            header.born_time,
            born_host,
            self._store_host,
            header.reconsume_times or 0,
            0,
            b"",
            b"",
            0,
            [],
        )
        put = self._putter.put_batch(shared, batch)
        self._count_put(header.topic, batch.count, put.size)
        reply = self._replies.stored_batch(command, put.packed_offsets, queue_id, put.queue_offset)
        if self.is_sync:
            not_kept = partial(self._batch_not_kept, command, put, queue_id)
            return self._state.promises.answer_when_kept(put.end, put.store_time, reply, not_kept)
        return reply

    def _batch_not_kept(self, command: Command, put: PutBatch, queue_id: int) -> bytes:
        return self._not_kept(command, put.physical_offsets, queue_id, put.queue_offset, "")

    def _batch(self, body: bytes) -> BatchEntries:
        """The messages as they are: the broker adds nothing to the properties of a batch."""
        try:
            batch = BatchEntries(body)
            of_all = b"".join(batch.properties)
            if 0 in of_all or not of_all.isascii():
                self._check_each(batch.properties)
        except (ProtocolError, UnicodeDecodeError) as error:
            raise _illegal(f"the batch is malformed: {error}") from None
        if not batch.properties:
            raise _illegal("the batch holds no message")
        return batch

    def _check_each(self, properties_of_each: list[bytes]) -> None:
        for properties in properties_of_each:
            self._putter.check_zeros(properties)
            properties.decode()

    # -- checks that most messages pass by -------------------------------------------------------------------

    def _checked_topic(self, channel: Channel, command: Command, header: Header) -> TopicConfig:
        state, name = self._state, header.topic
        topic = state.topics.get(name)
        if not is_writable(state.config.broker_permission) and topic is not None and topic.order:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"the broker[{state.config.broker_ip1}] sending message is forbidden"
            )
        if problem := topic_problem(name):
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, problem)
        if name in NO_SEND_TOPICS:
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden.")
        if topic is None:
            topic = self._created_topic(header)
        if topic is None:
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!{FAQ_HINT}"
            )
        return topic

    def _check_time_and_load(self) -> None:
        config, now_ms = self._config, self._state.now_ms()
        if now_ms < config.start_accept_send_request_time_stamp:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"broker unable to service, until {config.start_accept_send_request_time_stamp} ms since 1970",
            )
        if self.is_sync and len(self._state.promises) >= config.send_thread_pool_queue_capacity:
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, BUSY_REMARK)

    def _created_topic(self, header: Header) -> TopicConfig | None:
        state, name, now_ms = self._state, header.topic, self._state.now_ms()
        is_retry = name.startswith(RETRY_PREFIX)
        flag = (FLAG_UNIT_SUB if is_retry else FLAG_UNIT) if header.unit_mode else 0
        topic = state.topics.created_on_send(
            name,
            header.default_topic,
            header.default_queue_nums,
            flag,
            now_ms,
            is_auto_creation_on=state.config.auto_create_topic_enable,
        )
        if topic is None and is_retry:
            topic = state.topics.ensure(name, 1, PERM_READ_WRITE, flag, now_ms)
        elif topic is not None:
            state.topic_auto_created(topic)
        return topic

    def _checked_queue(self, channel: Channel, header: Header, topic: TopicConfig) -> int:
        queue_id = header.queue_id
        if queue_id < 0 < topic.write_queue_nums:
            return random.randrange(topic.write_queue_nums)
        if queue_id < 0 or queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{queue_id}] is illegal, {described(topic)} Producer: {channel.peer}",
            )
        return queue_id

    def _refuse_what_is_not_there(self, header: Header, properties: dict[str, str]) -> None:
        """A half message that everybody could read, or a timed one delivered at once, would be worse than a no."""
        level = level_of(properties.get(names.DELAY))
        if properties.get(names.TRANSACTION_PREPARED, "").lower() == "true" and not (
            (header.reconsume_times or 0) > 0 and level > 0
        ):
            raise RequestRefused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._state.config.broker_ip1}] sending transaction message is forbidden",
            )
        if level <= 0 and not names.TIMER_PROPERTIES.isdisjoint(properties):
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, "accurate timer message is not enabled, timerWheelEnable is false"
            )

    def _retry_or_dead_letter(self, command: Command, header: Header, properties: dict[str, str]) -> str:
        """The topic a message to a retry topic goes to: that one, or the dead letters when it was tried too often."""
        state, now_ms = self._state, self._state.now_ms()
        group = header.topic.removeprefix(RETRY_PREFIX)
        config = state.groups.find(group, now_ms)
        if config is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group} {FAQ_HINT}"
            )
        most = config.retry_max_times
        if command.version >= V3_4_9 and header.max_reconsume_times is not None:
            most = header.max_reconsume_times
        if (header.reconsume_times or 0) <= most and not state.locks.is_locking(group, now_ms):
            return header.topic
        properties[names.DELAY] = "-1"
        name = dead_letter_topic(group)
        state.topics.ensure(name, DEAD_LETTER_QUEUES, PERM_READ_WRITE, 0, now_ms)
        return name

    def _host_of(self, channel: Channel) -> tuple[bytes, int]:
        """The producer's address as records hold it, and the flags that go with both hosts."""
        if len(self._hosts) >= _MAX_REMEMBERED_HOSTS:
            self._hosts.clear()
        address = ip_address(channel.address[0].partition("%")[0])
        flag = self._store_flag | (BORN_HOST_IPV6 if address.version == 6 else 0)
        found = self._hosts[channel.address] = (encode_host(address.packed, channel.address[1]), flag)
        return found


def _illegal(remark: str) -> RequestRefused:
    return RequestRefused(ResponseCode.MESSAGE_ILLEGAL, remark)
