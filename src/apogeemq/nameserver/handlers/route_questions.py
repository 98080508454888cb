"""What everybody asks: the route of a topic, the cluster, lists of topics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from apogeemq.errors import RequestRefused
from apogeemq.model.routes import TopicRoute
from apogeemq.nameserver import route_queries
from apogeemq.nameserver.registry import Registry
from apogeemq.protocol.bodies import routes
from apogeemq.protocol.codec import encode_ok, encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command, Shortcut
from apogeemq.protocol.headers import nameserver as headers
from apogeemq.protocol.remarks import FAQ_HINT
from apogeemq.protocol.versions import V4_9_4
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher, Reply

RESTORED_FIELD = "restored"  # marks an answer that stands on the snapshot of the last run

# Asks another environment for a route this one lacks.
AskProduct = Callable[[str], Awaitable[TopicRoute | None]]


class RouteHandlers:
    def __init__(self, registry: Registry, ask_product: AskProduct | None = None) -> None:
        self._registry = registry
        self._ask_product = ask_product
        self._cached_standard = registry.cache.get_standard
        self._cached_bare = registry.cache.get_bare

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.GET_ROUTEINFO_BY_TOPIC, self.get_route)
        dispatcher.register(RequestCode.GET_BROKER_CLUSTER_INFO, self.cluster_info)
        dispatcher.register(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, self.all_topics)
        dispatcher.register(RequestCode.GET_TOPICS_BY_CLUSTER, self.topics_by_cluster)
        dispatcher.register(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, self.system_topics)
        dispatcher.register(RequestCode.GET_UNIT_TOPIC_LIST, self.unit_topics)
        dispatcher.register(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, self.unit_sub_topics)
        dispatcher.register(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, self.unit_sub_topics_without_unit)

    def get_route(self, channel: Channel, command: Command) -> Reply:
        """The hot request: one look-up of ready-encoded bytes, unless something is special about it."""
        header = headers.read_get_route_info(command)
        topic = header.topic or "null"
        is_standard = command.version >= V4_9_4 or header.acceptStandardJsonOnly
        look_up = self._cached_standard if is_standard else self._cached_bare
        body = look_up(topic)
        if body is not None and header.zone_mode is None and not self._registry.table.restored_count:
            command.shortcut = Shortcut((look_up, topic))
            return encode_ok(command, body)
        return self._get_route_slowly(command, header, topic, is_standard)

    def _get_route_slowly(self, command: Command, header: headers.GetRouteInfo, topic: str, is_standard: bool) -> Reply:
        registry = self._registry
        body = registry.cache.answer(topic, is_standard)
        if body is None:
            if self._ask_product is not None:
                return asyncio.ensure_future(self._answer_from_product(command, topic, self._ask_product))
            raise _no_route(topic)
        if header.zone_mode is not None and header.zone_mode.lower() == "true" and (header.zone or "").strip():
            route = routes.decode_route(body)
            within = route_queries.within_zone(route, header.zone or "")
            body = routes.encode(routes.topic_route(within), standard=False)
        if registry.table.restored_count:
            queues = registry.table.topics.get(topic, {})
            if not queues.keys().isdisjoint(route_queries.restored_names(registry.table)):
                return encode_reply(command, fields={RESTORED_FIELD: "true"}, body=body)
        return encode_ok(command, body)

    async def _answer_from_product(self, command: Command, topic: str, ask: AskProduct) -> bytes:
        route = await ask(topic)
        if route is None:
            raise _no_route(topic)
        return encode_ok(command, routes.encode(routes.topic_route(route), standard=False))

    def cluster_info(self, channel: Channel, command: Command) -> bytes:
        table = self._registry.table
        return encode_ok(command, routes.encode(routes.cluster_info(table.brokers, table.clusters), standard=False))

    def all_topics(self, channel: Channel, command: Command) -> bytes:
        self._check_allowed(self._registry.config.enable_all_topic_list)
        return self._topic_list(command, list(self._registry.table.topics))

    def topics_by_cluster(self, channel: Channel, command: Command) -> bytes:
        self._check_allowed(self._registry.config.enable_topic_list)
        header = headers.read_cluster_only(command)
        return self._topic_list(command, route_queries.topics_of_cluster(self._registry.table, header.cluster))

    def system_topics(self, channel: Channel, command: Command) -> bytes:
        table = self._registry.table
        wire = routes.topic_list(route_queries.system_topics(table), route_queries.some_broker_address(table))
        return encode_ok(command, routes.encode(wire, standard=True))

    def unit_topics(self, channel: Channel, command: Command) -> bytes:
        self._check_allowed(self._registry.config.enable_topic_list)
        return self._topic_list(command, route_queries.unit_topics(self._registry.table))

    def unit_sub_topics(self, channel: Channel, command: Command) -> bytes:
        self._check_allowed(self._registry.config.enable_topic_list)
        return self._topic_list(command, route_queries.unit_sub_topics(self._registry.table))

    def unit_sub_topics_without_unit(self, channel: Channel, command: Command) -> bytes:
        self._check_allowed(self._registry.config.enable_topic_list)
        return self._topic_list(command, route_queries.unit_sub_topics_without_unit(self._registry.table))

    def _check_allowed(self, is_enabled: bool) -> None:
        if not is_enabled:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "disable")

    def _topic_list(self, command: Command, topics: list[str]) -> bytes:
        return encode_ok(command, routes.encode(routes.topic_list(topics), standard=True))


def _no_route(topic: str) -> RequestRefused:
    return RequestRefused(
        ResponseCode.TOPIC_NOT_EXIST,
        f"No topic route info in name server for the topic: {topic}{FAQ_HINT}",
    )
