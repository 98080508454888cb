"""What can be asked and told of one name server, Apache's or ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from apogeemq.errors import ProtocolError, RemoteRefused, RequestTimedOut
from apogeemq.model.routes import BrokerGroup, TopicRoute
from apogeemq.model.topics import ORDER_TOPIC_NAMESPACE
from apogeemq.protocol import javajson
from apogeemq.protocol.bodies import routes as bodies
from apogeemq.protocol.bodies.journal import JournalLine
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers import nameserver as headers
from apogeemq.runtime.config import edit_properties
from apogeemq.transport.pool import ConnectionPool
from apogeemq.transport.route_watch import WatchedRoute, watch_routes

REQUEST_SECONDS: Final = 5.0
CONCURRENT_REQUESTS: Final = 32  # enough to hide the network, not enough to be a burden

Progress: TypeAlias = Callable[[int, int], None]  # answers that came, answers in all

_NOTHING = headers.KvNamespace()


class ClusterInfo(msgspec.Struct, frozen=True):
    """The broker groups by name, and the names in each cluster."""

    brokers: dict[str, BrokerGroup]
    clusters: dict[str, list[str]]


class JournalPage(msgspec.Struct, frozen=True):
    """Some lines of JSON, where the next ones begin, and what the journal holds at all."""

    lines: list[bytes]
    next_sequence: int
    first_sequence: int
    last_sequence: int

    def entries(self) -> list[JournalLine]:
        try:
            return [msgspec.json.decode(line, type=JournalLine) for line in self.lines]
        except msgspec.MsgspecError as error:
            raise ProtocolError(f"journal line: {error}") from None


class _KvTables(msgspec.Struct):
    configTable: dict[str, dict[str, str]] = {}  # the wire's name


class _MemberGroup(msgspec.Struct):
    brokerMemberGroup: bodies.WireBroker | None = None


class NameServerAdmin:
    """One name server at `address`. Every method raises RemoteRefused when it says no, or the pool's errors."""

    def __init__(self, pool: ConnectionPool, address: str, *, timeout_seconds: float = REQUEST_SECONDS) -> None:
        self.address = address
        self._pool = pool
        self._timeout_seconds = timeout_seconds

    # -- routes ----------------------------------------------------------------------------------------------

    async def route(self, topic: str) -> TopicRoute | None:
        header = headers.GetRouteInfo(topic, acceptStandardJsonOnly=True)
        answer = await self._ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, also=ResponseCode.TOPIC_NOT_EXIST)
        return bodies.decode_route(answer.body) if answer.code == ResponseCode.SUCCESS else None

    async def routes(
        self, topics: Sequence[str], on_progress: Progress = lambda done, total: None
    ) -> dict[str, TopicRoute | None]:
        """The routes of many topics, several asked for at once."""
        routes: dict[str, TopicRoute | None] = dict.fromkeys(topics)
        waiting = iter(tuple(routes))
        done = 0

        async def ask() -> None:
            nonlocal done
            for topic in waiting:
                routes[topic] = await self.route(topic)
                done += 1
                on_progress(done, len(routes))

        try:
            async with asyncio.TaskGroup() as askers:
                for _ in range(min(CONCURRENT_REQUESTS, len(routes))):
                    askers.create_task(ask())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return routes

    async def cluster_info(self) -> ClusterInfo:
        answer = await self._ask(RequestCode.GET_BROKER_CLUSTER_INFO)
        wire = javajson.loads(answer.body, bodies.WireClusterInfo)
        return ClusterInfo(
            {name: _group(broker) for name, broker in wire.brokerAddrTable.items()}, wire.clusterAddrTable
        )

    async def member_group(self, cluster: str, broker_name: str) -> dict[int, str]:
        """Broker id to address."""
        header = headers.BrokerMemberGroup(cluster, broker_name)
        answer = await self._ask(RequestCode.GET_BROKER_MEMBER_GROUP, header)
        group = javajson.loads(answer.body, _MemberGroup).brokerMemberGroup
        return group.brokerAddrs if group is not None else {}

    async def topics(self) -> list[str]:
        return await self._topic_list(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)

    async def topics_of_cluster(self, cluster: str) -> list[str]:
        return await self._topic_list(RequestCode.GET_TOPICS_BY_CLUSTER, headers.ClusterOnly(cluster))

    async def system_topics(self) -> list[str]:
        return await self._topic_list(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)

    async def unit_topics(self) -> list[str]:
        return await self._topic_list(RequestCode.GET_UNIT_TOPIC_LIST)

    async def unit_sub_topics(self) -> list[str]:
        return await self._topic_list(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST)

    async def unit_sub_topics_outside_units(self) -> list[str]:
        return await self._topic_list(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST)

    async def register_topic(self, topic: str, route: TopicRoute) -> None:
        """Add the topic's queues on brokers that are known; others are ignored."""
        body = bodies.encode(bodies.topic_route(route), standard=True)
        await self._ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, headers.TopicOnly(topic), body)

    async def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget the topic's route, or only its part in one cluster; brokers may bring it back."""
        await self._ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, headers.DeleteTopic(topic, cluster))

    async def wipe_write_permission(self, broker_name: str) -> int:
        """Gives the number of topics changed."""
        return await self._count_changed(RequestCode.WIPE_WRITE_PERM_OF_BROKER, broker_name, "wipeTopicCount")

    async def add_write_permission(self, broker_name: str) -> int:
        """Gives the number of topics changed; their permission is read and write whatever it was."""
        return await self._count_changed(RequestCode.ADD_WRITE_PERM_OF_BROKER, broker_name, "addTopicCount")

    # -- key-value configuration -----------------------------------------------------------------------------

    async def get_kv(self, namespace: str, key: str) -> str | None:
        header = headers.KvKey(namespace, key)
        answer = await self._ask(RequestCode.GET_KV_CONFIG, header, also=ResponseCode.QUERY_NOT_FOUND)
        return answer.fields().get("value", "") if answer.code == ResponseCode.SUCCESS else None

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        await self._ask(RequestCode.PUT_KV_CONFIG, headers.KvKey(namespace, key, value))

    async def delete_kv(self, namespace: str, key: str) -> None:
        await self._ask(RequestCode.DELETE_KV_CONFIG, headers.KvKey(namespace, key))

    async def list_kv(self, namespace: str) -> dict[str, str] | None:
        """None for a namespace never used."""
        header = headers.KvNamespace(namespace)
        answer = await self._ask(RequestCode.GET_KVLIST_BY_NAMESPACE, header, also=ResponseCode.QUERY_NOT_FOUND)
        return javajson.loads(answer.body, bodies.KvTable).table if answer.code == ResponseCode.SUCCESS else None

    async def whole_kv(self) -> dict[str, dict[str, str]] | None:
        """Every namespace; None from a server that cannot tell which there are, such as Apache's."""
        try:
            answer = await self._ask(RequestCode.GET_ALL_KV_CONFIG, also=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        except RequestTimedOut:
            return None  # Apache 4.9 says nothing to a code it does not know
        return javajson.loads(answer.body, _KvTables).configTable if answer.code == ResponseCode.SUCCESS else None

    async def all_kv(self, namespaces: Iterable[str] = ()) -> dict[str, dict[str, str]]:
        """Every namespace; of a server that cannot tell which there are, the given ones and that of ordered topics."""
        whole = await self.whole_kv()
        if whole is not None:
            return whole
        tables = {name: await self.list_kv(name) for name in dict.fromkeys((ORDER_TOPIC_NAMESPACE, *namespaces))}
        return {name: table for name, table in tables.items() if table is not None}

    # -- configuration ---------------------------------------------------------------------------------------

    async def config(self) -> dict[str, str]:
        answer = await self._ask(RequestCode.GET_NAMESRV_CONFIG)
        lines = answer.body.decode(errors="replace").splitlines()
        return {key: value for key, separator, value in (line.partition("=") for line in lines) if separator}

    async def update_config(self, changes: Mapping[str, str]) -> None:
        await self._ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=edit_properties("", changes).encode())

    # -- beyond Apache ---------------------------------------------------------------------------------------

    async def watch_routes(self, known: Mapping[str, str], timeout_seconds: float) -> dict[str, WatchedRoute]:
        """The topics of `known` (name to digest, "" if none is known) whose route is another; waits until there is
        one, or gives nothing when the time is over."""
        return await watch_routes(self._pool, self.address, known, timeout_seconds)

    async def read_journal(self, from_sequence: int = 1, max_lines: int = 1_000) -> JournalPage:
        answer = await self._ask(RequestCode.READ_ROUTE_JOURNAL, headers.ReadJournal(from_sequence, max_lines))
        fields = answer.fields()
        try:
            numbers = [int(fields[f"{name}Sequence"]) for name in ("next", "first", "last")]
        except (KeyError, ValueError) as error:
            raise ProtocolError(f"journal of {self.address}: {error!r}") from None
        return JournalPage(answer.body.splitlines(), *numbers)

    # -- asking ----------------------------------------------------------------------------------------------

    async def _ask(
        self,
        code: RequestCode,
        header: msgspec.Struct = _NOTHING,
        body: bytes = b"",
        *,
        also: ResponseCode = ResponseCode.SUCCESS,
        timeout_seconds: float | None = None,
    ) -> Command:
        """The answer, when its code is success or `also`."""
        answer = await self._pool.request(
            self.address,
            code,
            write_fields(header),
            body,
            timeout_seconds=self._timeout_seconds if timeout_seconds is None else timeout_seconds,
        )
        if answer.code not in (ResponseCode.SUCCESS, also):
            raise RemoteRefused(answer.code, answer.remark, self.address)
        return answer

    async def _topic_list(self, code: RequestCode, header: msgspec.Struct = _NOTHING) -> list[str]:
        answer = await self._ask(code, header)
        return javajson.loads(answer.body, bodies.WireTopicList).topicList if answer.body else []

    async def _count_changed(self, code: RequestCode, broker_name: str, field: str) -> int:
        answer = await self._ask(code, headers.BrokerNameOnly(broker_name))
        return int(answer.fields().get(field, "0"))


def _group(wire: bodies.WireBroker) -> BrokerGroup:
    return BrokerGroup(wire.cluster, wire.brokerName, wire.brokerAddrs, wire.zoneName, wire.enableActingMaster)
