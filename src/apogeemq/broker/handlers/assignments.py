"""Queues dealt out by the broker, for clients that leave it to the broker to share them."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from apogeemq.broker.assigning import STRATEGIES, assigned, readable_queues
from apogeemq.broker.state import BrokerState
from apogeemq.errors import RequestRefused
from apogeemq.model.queues import MessageQueue
from apogeemq.model.routes import QueueSettings, TopicRoute
from apogeemq.model.subscriptions import BROADCASTING
from apogeemq.model.topics import RETRY_PREFIX
from apogeemq.protocol.bodies import admin as bodies
from apogeemq.protocol.codec import encode_ok, encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher

PULL: Final = "PULL"
POP: Final = "POP"

_MAX_MODES: Final = 10_000


class RouteSource(Protocol):
    """The name servers, if there are any."""

    @property
    def has_name_servers(self) -> bool: ...

    async def find_route(self, topic: str) -> TopicRoute | None:
        """None when they do not know the topic."""


class AssignmentHandlers:
    def __init__(self, state: BrokerState, routes: RouteSource) -> None:
        self._state = state
        self._routes = routes
        # Only for show: pulling is what every group does.
        self._modes: dict[str, dict[str, bodies.RequestMode]] = {}

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.QUERY_ASSIGNMENT, self.assignment)
        dispatcher.register(RequestCode.SET_MESSAGE_REQUEST_MODE, self.set_mode)
        dispatcher.register(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, self.all_modes)

    def assignment(self, channel: Channel, command: Command) -> asyncio.Future[bytes]:
        question = bodies.decode_assignment_question(command.body)

        async def answer() -> bytes:
            queues = await self._assigned(question)
            told = None if queues is None else [bodies.Assignment(queue, PULL) for queue in queues]
            return encode_ok(command, bodies.encode(bodies.Assignments(told)))

        return asyncio.ensure_future(answer())

    async def _assigned(self, question: bodies.AssignmentQuestion) -> list[MessageQueue] | None:
        """None: nothing is known that the client could act upon; it keeps what it has."""
        members = self._state.clients.consumer_group(question.consumerGroup)
        strategy = question.strategyName
        if members is None or strategy is None or strategy not in STRATEGIES:
            return None
        route = await self._route(question.topic)
        if route is None:
            return None
        queues = readable_queues(question.topic, route)
        if question.messageModel == BROADCASTING:
            return queues
        return assigned(strategy, question.clientId, queues, members.client_ids)

    async def _route(self, topic: str) -> TopicRoute | None:
        """A broker without name servers knows of its own queues only."""
        if self._routes.has_name_servers:
            return await self._routes.find_route(topic)
        config = self._state.topics.get(topic)
        if config is None:
            return None
        settings = QueueSettings(config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag)
        return TopicRoute({self._state.config.broker_name: settings}, [], {})

    # -- modes -----------------------------------------------------------------------------------------------

    def set_mode(self, channel: Channel, command: Command) -> bytes:
        wanted = bodies.decode_request_mode(command.body)
        if wanted.topic.startswith(RETRY_PREFIX):
            raise RequestRefused(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if self._state.topics.get(wanted.topic) is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{wanted.topic}] not exist")
        if self._state.groups.find(wanted.consumerGroup, self._state.now_ms()) is None:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
        if wanted.mode != PULL:
            problem = "this broker does not have it yet" if wanted.mode == POP else f"expected {PULL}"
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"mode={wanted.mode[:100]}: {problem}")
        groups = self._modes.setdefault(wanted.topic, {})
        if sum(map(len, self._modes.values())) < _MAX_MODES or wanted.consumerGroup in groups:
            groups[wanted.consumerGroup] = wanted
        return encode_reply(command)

    def all_modes(self, channel: Channel, command: Command) -> bytes:
        return encode_ok(command, bodies.encode(bodies.RequestModes(self._modes)))
