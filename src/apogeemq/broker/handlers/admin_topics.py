"""Topics made, changed, shown and deleted by administrators."""

from __future__ import annotations

from asyncio import Future
from typing import Final

import msgspec

from apogeemq.broker.handlers.keeping import answer_when_kept
from apogeemq.broker.paging import page_of
from apogeemq.broker.state import BrokerState
from apogeemq.errors import RequestRefused
from apogeemq.model import topic_attributes
from apogeemq.model.routes import DataVersion
from apogeemq.model.topics import FILTER_TYPES, RETRY_PREFIX, TopicConfig, topic_problem
from apogeemq.protocol.bodies import admin as bodies
from apogeemq.protocol.codec import encode_ok, encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import admin as headers
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher, Reply

MAX_QUEUES: Final = 16_384  # of one topic; a status answer has a line for each
_MAX_PERM: Final = 7
_POP_RETRY_SEPARATORS: Final = ("+", "_")  # in the two names a retry topic of one topic and group has had


class TopicHandlers:
    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.UPDATE_AND_CREATE_TOPIC, self.create)
        dispatcher.register(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, self.create_list)
        dispatcher.register(RequestCode.GET_ALL_TOPIC_CONFIG, self.all_topics)
        dispatcher.register(RequestCode.GET_TOPIC_CONFIG, self.one_topic)
        dispatcher.register(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, self.system_topics)
        dispatcher.register(RequestCode.DELETE_TOPIC_IN_BROKER, self.delete)

    # -- making and changing ---------------------------------------------------------------------------------

    def create(self, channel: Channel, command: Command) -> Reply:
        header = headers.read_create_topic(command)
        try:
            changes = topic_attributes.parse_changes(header.attributes)
        except ValueError as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        wanted = TopicConfig(
            attributes=changes,
            order=header.order,
            perm=header.perm,
            read_queue_nums=header.readQueueNums,
            topic_filter_type=header.topicFilterType,
            topic_name=header.topic,
            topic_sys_flag=header.topicSysFlag,
            write_queue_nums=header.writeQueueNums,
        )
        return self._put(command, [wanted])

    def create_list(self, channel: Channel, command: Command) -> Reply:
        """All of them or, when one is not as it should be, none."""
        return self._put(command, bodies.decode_topics(command.body))

    def _put(self, command: Command, wanted: list[TopicConfig]) -> Reply:
        """The attributes of those wanted are changes to what there is."""
        topics = self._state.topics
        checked = {config.topic_name: self._checked(config) for config in wanted}
        new_count = sum(name not in topics.topics for name in checked)
        most = self._state.config.max_topics
        if new_count and len(topics.topics) + new_count > most:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"this broker keeps at most {most} topics")
        changed = [config for name, config in checked.items() if config != topics.get(name)]
        if changed:
            topics.put_all(changed, self._state.now_ms())
        return answer_when_kept(self._state.keep_topics, encode_reply(command))

    def _checked(self, wanted: TopicConfig) -> TopicConfig:
        name, config = wanted.topic_name, self._state.config
        problem = topic_problem(name) or _shape_problem(wanted)
        if problem is not None:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, problem)
        if wanted.topic_filter_type not in FILTER_TYPES:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"topicFilterType = [{wanted.topic_filter_type}] value invalid"
            )
        self._check_not_system(name)
        sign = topic_attributes.SET_SIGN
        message_type = wanted.attributes.get(f"{sign}{topic_attributes.MESSAGE_TYPE}")
        if message_type == topic_attributes.MIXED and not config.enable_mixed_message_type:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
        current = self._state.topics.get(name)
        try:
            attributes = topic_attributes.altered(
                current.attributes if current is not None else None, wanted.attributes
            )
        except ValueError as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        return msgspec.structs.replace(wanted, attributes=attributes)

    def _check_not_system(self, name: str) -> None:
        if self._state.config.validate_system_topic_when_update_topic and self._state.topics.is_system(name):
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")

    # -- showing ---------------------------------------------------------------------------------------------

    def all_topics(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_topic_page(command)
        topics = self._state.topics
        page = page_of(topics.topics, topics.data_version, header.dataVersion, header.topicSeq, header.maxTopicNum)
        never_changed = DataVersion(timestamp=self._state.start_time_ms)
        body = bodies.encode(bodies.TopicTable(topics.data_version, never_changed, page))
        return encode_reply(command, fields={"totalTopicNum": str(len(topics.topics))}, body=body)

    def one_topic(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_topic(command)
        config = self._state.topics.get(header.topic)
        if config is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {header.topic}")
        return encode_ok(command, bodies.encode(config))

    def system_topics(self, channel: Channel, command: Command) -> bytes:
        return encode_ok(command, bodies.encode(bodies.TopicList(sorted(self._state.topics.system_topics))))

    # -- deleting --------------------------------------------------------------------------------------------

    def delete(self, channel: Channel, command: Command) -> Future[bytes]:
        """With its queues and the offsets of its groups; a topic that is not there is as good as deleted."""
        topic = headers.read_delete_topic(command).topic
        if not topic.strip():
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
        self._check_not_system(topic)
        doomed = [topic]
        if self._state.config.clear_retry_topic_when_delete_topic:
            doomed += self._retry_topics_of(topic)
        for name in doomed:
            self._delete(name)
        return answer_when_kept(self._state.keep_topics, encode_reply(command))

    def _retry_topics_of(self, topic: str) -> list[str]:
        """Those in which consumers that pop messages keep what failed of this topic alone."""
        names = [
            f"{RETRY_PREFIX}{group}{separator}{topic}"
            for group in sorted(self._state.offsets.groups_of(topic))
            for separator in _POP_RETRY_SEPARATORS
        ]
        return [name for name in names if self._state.topics.get(name) is not None]

    def _delete(self, topic: str) -> None:
        state = self._state
        state.topics.delete(topic, state.now_ms())
        state.offsets.remove_topic(topic)
        state.store.delete_topic(topic)
        state.stats.remove_topic(topic)
        state.wake_pulls(topic)  # whoever waits there is told at once that the topic is gone


def _shape_problem(wanted: TopicConfig) -> str | None:
    """Beyond Apache, which takes any number."""
    for key, count in (("readQueueNums", wanted.read_queue_nums), ("writeQueueNums", wanted.write_queue_nums)):
        if not 0 <= count <= MAX_QUEUES:
            return f"{key}={count}: expected 0 to {MAX_QUEUES}"
    if not 0 <= wanted.perm <= _MAX_PERM:
        return f"perm={wanted.perm}: expected 0 to {_MAX_PERM}"
    return None
