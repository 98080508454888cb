"""Consumer groups made, changed, shown and deleted by administrators."""

from __future__ import annotations

from typing import Final

from apogeemq.broker.handlers.keeping import answer_when_kept
from apogeemq.broker.paging import page_of
from apogeemq.broker.state import BrokerState
from apogeemq.broker.tables.groups import GroupsFile
from apogeemq.errors import RequestRefused
from apogeemq.model.groups import GroupConfig, group_problem
from apogeemq.model.topics import PERM_READ, topic_problem
from apogeemq.protocol.bodies import admin as bodies
from apogeemq.protocol.codec import encode_ok, encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import admin as headers
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher, Reply

MAX_RETRY_QUEUES: Final = 1_024
_MAX_FORBIDDEN_TOPICS: Final = 10_000  # of one group


class GroupHandlers:
    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, self.create)
        dispatcher.register(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, self.create_list)
        dispatcher.register(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, self.all_groups)
        dispatcher.register(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, self.one_group)
        dispatcher.register(RequestCode.DELETE_SUBSCRIPTIONGROUP, self.delete)
        dispatcher.register(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, self.forbidden)

    # -- making and changing ---------------------------------------------------------------------------------

    def create(self, channel: Channel, command: Command) -> Reply:
        if not command.body:  # as Apache: nothing said, nothing done
            return encode_reply(command)
        return self._put(command, [bodies.decode_group(command.body)])

    def create_list(self, channel: Channel, command: Command) -> Reply:
        """All of them or, when one is not as it should be, none."""
        return self._put(command, bodies.decode_groups(command.body))

    def _put(self, command: Command, wanted: list[GroupConfig]) -> Reply:
        groups = self._state.groups
        for config in wanted:
            _check(config)
            current = groups.get(config.group_name)
            config.attributes = current.attributes if current is not None else {}
        by_name = {config.group_name: config for config in wanted}
        new_count = sum(name not in groups.groups for name in by_name)
        most = self._state.config.max_groups
        if new_count and len(groups.groups) + new_count > most:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"this broker keeps at most {most} groups")
        changed = [config for name, config in by_name.items() if config != groups.get(name)]
        if changed:
            groups.put_all(changed, self._state.now_ms())
        return answer_when_kept(self._state.keep_groups, encode_reply(command))

    def delete(self, channel: Channel, command: Command) -> Reply:
        """A group that is not there is as good as deleted. Its offsets stay, unless they are to go, too."""
        header = headers.read_delete_group(command)
        state = self._state
        state.groups.delete(header.groupName, state.now_ms())
        if header.cleanOffset or header.removeOffset:
            state.offsets.remove_group(header.groupName)
        state.stats.remove_group(header.groupName)
        return answer_when_kept(state.keep_groups, encode_reply(command))

    def forbidden(self, channel: Channel, command: Command) -> Reply:
        """Whether a group may read a topic: said, after it was changed if that is wanted."""
        header = headers.read_group_forbidden(command)
        groups = self._state.groups
        topics = groups.forbidden.get(header.group, {})
        bits = topics.get(header.topic, 0)
        if header.readable is not None:
            is_new = header.topic not in topics
            if is_new and not header.readable:
                self._check_can_be_forbidden(header, len(topics))
            wanted = bits & ~PERM_READ if header.readable else bits | PERM_READ
            if wanted != bits:
                groups.forbid(header.group, header.topic, wanted, self._state.now_ms())
                bits = wanted
        answer = bodies.GroupForbidden(header.group, not bits & PERM_READ, header.topic)
        return answer_when_kept(self._state.keep_groups, encode_ok(command, bodies.encode(answer)))

    def _check_can_be_forbidden(self, header: headers.GroupForbidden, topic_count: int) -> None:
        """Of a group that is there; the topic may come later."""
        if self._state.groups.get(header.group) is None:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.group} does not exist")
        problem = topic_problem(header.topic)
        if problem is not None:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, problem)
        if topic_count >= _MAX_FORBIDDEN_TOPICS:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"{_MAX_FORBIDDEN_TOPICS} topics are forbidden to the group already"
            )

    # -- showing ---------------------------------------------------------------------------------------------

    def all_groups(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_group_page(command)
        groups = self._state.groups
        page = page_of(groups.groups, groups.data_version, header.dataVersion, header.groupSeq, header.maxGroupNum)
        forbidden = {name: topics for name, topics in groups.forbidden.items() if name in page}
        body = bodies.encode(GroupsFile(groups.data_version, forbidden, page))
        return encode_reply(command, fields={"totalGroupNum": str(len(groups.groups))}, body=body)

    def one_group(self, channel: Channel, command: Command) -> bytes:
        """Made by being asked for, if groups may be made by being used."""
        config = self._state.groups.find(headers.read_group(command).group, self._state.now_ms())
        if config is None:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        return encode_ok(command, bodies.encode(config))


def _check(wanted: GroupConfig) -> None:
    problem = group_problem(wanted.group_name)
    if problem is None and not 0 <= wanted.retry_queue_nums <= MAX_RETRY_QUEUES:
        problem = f"retryQueueNums={wanted.retry_queue_nums}: expected 0 to {MAX_RETRY_QUEUES}"
    if problem is not None:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, problem)
    for key in wanted.attributes:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"unsupported key: {key[1:]}")
