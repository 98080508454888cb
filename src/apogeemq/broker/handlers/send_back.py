"""CONSUMER_SEND_MSG_BACK: a message a consumer could not use comes again later, or goes to the dead letters."""

from __future__ import annotations

import random
from functools import partial

from apogeemq.broker.putting import Putter
from apogeemq.broker.state import BrokerState
from apogeemq.errors import RequestRefused
from apogeemq.filter.tags import java_hash
from apogeemq.model import properties as names
from apogeemq.model.flags import STORE_HOST_IPV6
from apogeemq.model.groups import GroupConfig
from apogeemq.model.ids import offset_id
from apogeemq.model.properties import decode_properties, encode_properties
from apogeemq.model.topics import (
    DEAD_LETTER_QUEUES,
    FLAG_UNIT_SUB,
    PERM_READ_WRITE,
    dead_letter_topic,
    is_writable,
    retry_topic,
)
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import broker as headers
from apogeemq.protocol.record import Record
from apogeemq.protocol.remarks import FAQ_HINT
from apogeemq.protocol.versions import V3_4_9
from apogeemq.store.config import SYNC_FLUSH
from apogeemq.store.message_marks import index_keys
from apogeemq.store.results import NewMessage
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher, Reply

_FIRST_RETRY_LEVEL = 3
_MAX_COUNT = 2**31 - 1  # what a record has room for


class SendBackHandlers:
    def __init__(self, state: BrokerState, putter: Putter) -> None:
        self._state = state
        self._putter = putter
        self.dead_letter_count = 0

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.CONSUMER_SEND_MSG_BACK, self.send_back)

    def send_back(self, channel: Channel, command: Command) -> Reply:
        state, header = self._state, headers.read_send_back(command)
        group = state.groups.find(header.group, state.now_ms())
        if group is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {header.group} {FAQ_HINT}"
            )
        if not is_writable(state.config.broker_permission):
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"the broker[{state.config.broker_ip1}] sending message is forbidden"
            )
        if group.retry_queue_nums <= 0:
            return encode_reply(command)  # the group wants no retries
        self._check_retry_topic(header, group)
        record = state.store.log.record_at(header.offset)
        if record is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}")
        properties = decode_properties(record.properties.decode(errors="replace"))
        properties.setdefault(names.RETRY_TOPIC, record.topic.decode(errors="replace"))
        properties[names.WAIT] = "false"
        if not properties.get(names.ORIGIN_MESSAGE_ID):
            properties[names.ORIGIN_MESSAGE_ID] = offset_id(record.store_host, record.physical_offset)
        topic, queue_id = self._where(command, header, group, record, properties)
        put = self._putter.put(self._copy(record, topic, queue_id, properties), properties)
        state.stats.send_backs.add(f"{properties[names.RETRY_TOPIC]}@{header.group}", 1, put.size)
        reply = encode_reply(command)
        if state.store_config.flush_disk_type == SYNC_FLUSH:
            # The consumer forgets the message when it has our word: it must be worth something.
            not_kept = partial(encode_reply, command, ResponseCode.SYSTEM_ERROR, "FLUSH_DISK_TIMEOUT")
            return state.promises.answer_when_kept(put.physical_offset + put.size, put.store_time, reply, not_kept)
        return reply

    def _check_retry_topic(self, header: headers.SendBack, group: GroupConfig) -> None:
        flag = FLAG_UNIT_SUB if header.unitMode else 0
        name = retry_topic(header.group)
        topics, now_ms = self._state.topics, self._state.now_ms()
        config = topics.get(name) or topics.ensure(name, group.retry_queue_nums, PERM_READ_WRITE, flag, now_ms)
        if not is_writable(config.perm):
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden")

    def _where(
        self,
        command: Command,
        header: headers.SendBack,
        group: GroupConfig,
        record: Record,
        properties: dict[str, str],
    ) -> tuple[str, int]:
        """Topic and queue of the copy; its delay is written into its properties."""
        most = group.retry_max_times
        if command.version >= V3_4_9 and header.maxReconsumeTimes is not None:
            most = header.maxReconsumeTimes
        if record.reconsume_times >= most or header.delayLevel < 0:
            self.dead_letter_count += 1
            properties[names.DELAY] = "0"
            name = dead_letter_topic(header.group)
            topics = self._state.topics
            if topics.get(name) is None:
                topics.ensure(name, DEAD_LETTER_QUEUES, PERM_READ_WRITE, 0, self._state.now_ms())
            return name, 0
        properties[names.DELAY] = str(header.delayLevel or _FIRST_RETRY_LEVEL + record.reconsume_times)
        return retry_topic(header.group), random.randrange(group.retry_queue_nums)

    def _copy(self, record: Record, topic: str, queue_id: int, properties: dict[str, str]) -> NewMessage:
        store_host = self._state.store_host
        system_flag = record.system_flag & ~STORE_HOST_IPV6 | (STORE_HOST_IPV6 if len(store_host) > 8 else 0)
        tags = properties.get(names.TAGS)
        return NewMessage(
            topic,
            queue_id,
            record.flag,
            system_flag,
            record.born_time,
            record.born_host,
            store_host,
            min(record.reconsume_times + 1, _MAX_COUNT),
            0,
            record.body,
            encode_properties(properties).encode(),
            java_hash(tags) if tags else 0,
            index_keys(properties),
        )
