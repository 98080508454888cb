"""The routes of the topics this client uses: fetched when first needed, fetched again, and told of where it can be."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from apogeemq.client.route_info import broker_address, for_a_new_topic, is_same_route
from apogeemq.errors import ApogeeError, NoNameServer, NoRoute, RemoteRefused
from apogeemq.model.routes import TopicRoute
from apogeemq.model.topics import MASTER_ID
from apogeemq.protocol import javajson
from apogeemq.protocol.bodies.routes import WireClusterInfo, decode_route
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.transport.name_servers import NameServerClient
from apogeemq.transport.pool import ConnectionPool
from apogeemq.transport.route_watch import watch_routes

log = logging.getLogger(__name__)

_WATCH_SECONDS: Final = 60.0
_WATCH_PAUSE_SECONDS: Final = 1.0
_UNKNOWN_CODE: Final = ResponseCode.REQUEST_CODE_NOT_SUPPORTED


class NewTopic(NamedTuple):
    """How a topic that does not exist is going to be made: like which one, and with how many queues."""

    like: str
    queue_nums: int


class RouteCache:
    """`on_change(topic)` is called when a route is another one than before."""

    def __init__(self, pool: ConnectionPool, name_servers: NameServerClient, on_change: Callable[[str], None]) -> None:
        self._pool = pool
        self._name_servers = name_servers
        self._on_change = on_change
        self._routes: dict[str, TopicRoute] = {}
        self._is_borrowed: set[str] = set()  # topics whose route is that of the one they will be made like
        self._wanted: dict[str, NewTopic | None] = {}
        self._fetching: dict[str, asyncio.Task[TopicRoute]] = {}
        self._digests: dict[str, str] = {}
        self._topics_changed = asyncio.Event()
        self._is_watch_idle = False

    # -- questions -------------------------------------------------------------------------------------------

    def known(self, topic: str) -> TopicRoute | None:
        return self._routes.get(topic)

    async def get(self, topic: str, new_topic: NewTopic | None = None) -> TopicRoute:
        """From now on the topic's route is kept fresh. Raises NoRoute, saying why there is none."""
        if new_topic is not None or topic not in self._wanted:
            self._wanted[topic] = new_topic or self._wanted.get(topic)
            self._topics_changed.set()
        route = self._routes.get(topic)
        return route if route is not None else await self.refresh(topic)

    def address(self, broker_name: str, broker_id: int = MASTER_ID, *, only_this: bool = False) -> str | None:
        """Of a broker in any of the routes."""
        for route in self._routes.values():
            found = broker_address(route, broker_name, broker_id, only_this=only_this)
            if found is not None:
                return found
        return None

    def broker_addresses(self, *, only_masters: bool) -> set[str]:
        """Of all brokers that serve a topic this client uses."""
        return {
            address
            for route in self._routes.values()
            for group in route.brokers
            for broker_id, address in group.addresses.items()
            if broker_id == MASTER_ID or not only_masters
        }

    def masters_of(self, topic: str) -> list[str]:
        """Addresses of the brokers that serve a topic; a slave where there is no master."""
        route = self._routes.get(topic)
        if route is None:
            return []
        return [group.addresses[min(group.addresses)] for group in route.brokers if group.addresses]

    @property
    def topics(self) -> list[str]:
        return list(self._wanted)

    # -- fetching --------------------------------------------------------------------------------------------

    async def refresh(self, topic: str) -> TopicRoute:
        """Ask a name server now; those who ask at the same time share the answer. Raises NoRoute."""
        fetching = self._fetching.get(topic)
        if fetching is None:
            fetching = self._fetching[topic] = asyncio.get_running_loop().create_task(self._fetch(topic))
            fetching.add_done_callback(lambda task: self._fetched(topic, task))
        return await asyncio.shield(fetching)

    def refresh_soon(self, topic: str) -> None:
        """Somebody has reason to think that a route is stale."""
        if topic not in self._fetching:
            task = asyncio.ensure_future(self.refresh(topic))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def refresh_all(self) -> None:
        for topic in self.topics:
            with contextlib.suppress(ApogeeError):  # what was known stays: brokers may well serve on
                await self.refresh(topic)

    def _fetched(self, topic: str, task: asyncio.Task[TopicRoute]) -> None:
        self._fetching.pop(topic, None)
        if self._is_watch_idle:
            self._topics_changed.set()  # perhaps a name server is known now
        if not task.cancelled():
            task.exception()

    async def _fetch(self, topic: str) -> TopicRoute:
        try:
            route = await self._ask(topic)
            is_borrowed = route is None
            if route is None:
                route = await self._borrowed(topic)
        except NoNameServer as error:
            raise NoRoute(f"no route of topic {topic}: {error}") from None
        self._take(topic, route, is_borrowed=is_borrowed)
        return route

    async def _borrowed(self, topic: str) -> TopicRoute:
        new_topic = self._wanted.get(topic)
        if new_topic is not None:
            default = await self._ask(new_topic.like)
            if default is not None:
                return for_a_new_topic(default, new_topic.queue_nums)
        self._forget(topic)
        raise NoRoute(f"no route of topic {topic}: {await self._reason(new_topic)}")

    async def _reason(self, new_topic: NewTopic | None) -> str:
        answer = await self._name_servers.request(RequestCode.GET_BROKER_CLUSTER_INFO)
        brokers = javajson.loads(answer.body, WireClusterInfo).brokerAddrTable if answer.body else {}
        if not brokers:
            return f"no broker is registered at the name server {self._name_servers.book.current}"
        if new_topic is None:
            return "the topic does not exist, or its brokers have not told the name server of it yet"
        return (
            f"the topic does not exist, and no broker makes topics on the way "
            f"(no route of {new_topic.like}: autoCreateTopicEnable is off); create it first"
        )

    async def _ask(self, topic: str) -> TopicRoute | None:
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = await self._name_servers.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteRefused(answer.code, answer.remark, self._name_servers.book.current or "")
        return decode_route(answer.body)

    def _take(self, topic: str, route: TopicRoute, *, is_borrowed: bool) -> None:
        before = self._routes.get(topic)
        self._routes[topic] = route
        (self._is_borrowed.add if is_borrowed else self._is_borrowed.discard)(topic)
        if not is_same_route(before, route):
            log.info("route of %s: %s", topic, ", ".join(sorted(route.queues)) or "no broker")
            self._on_change(topic)

    def _forget(self, topic: str) -> None:
        if self._routes.pop(topic, None) is not None:
            self._on_change(topic)

    # -- watching --------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Until cancelled, or until a name server says that it knows no watch."""
        while True:
            address = self._name_servers.book.current
            if address is None or not self._wanted:
                await self._until_topics_change()
                continue
            self._topics_changed.clear()
            known = {topic: self._digests.get(topic, "") for topic in self._wanted}
            watching = asyncio.ensure_future(watch_routes(self._pool, address, known, _WATCH_SECONDS))
            changing = asyncio.ensure_future(self._topics_changed.wait())
            try:
                await asyncio.wait((watching, changing), return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    for topic, changed in watching.result().items():
                        self._digests[topic] = changed.digest
                        self._hear_of(topic, changed.route)
            except RemoteRefused as error:
                if error.code == _UNKNOWN_CODE:
                    log.info("the name server %s knows no route watch; routes are polled", address)
                    return
                await asyncio.sleep(_WATCH_PAUSE_SECONDS)
            except ApogeeError:
                self._name_servers.book.mark_bad(address)
                self._digests.clear()  # the next name server may have seen other changes
                await asyncio.sleep(_WATCH_PAUSE_SECONDS)
            finally:
                watching.cancel()
                changing.cancel()

    def _hear_of(self, topic: str, route: TopicRoute | None) -> None:
        if route is not None:
            self._take(topic, route, is_borrowed=False)
        elif topic not in self._is_borrowed:
            self._forget(topic)

    async def _until_topics_change(self) -> None:
        self._topics_changed.clear()
        self._is_watch_idle = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WATCH_PAUSE_SECONDS):
                await self._topics_changed.wait()
        self._is_watch_idle = False
