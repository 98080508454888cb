"""The routes of the topics this client uses: fetched when first needed, fetched again, and told of where it can be.

What a name server does not know any more is kept, as Apache's clients keep it: a name server that has just begun knows
nothing until the brokers have told it. Only one that knows the brokers of a route may say that their topic is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from apogeemq.client.no_route import no_route, registered_brokers
from apogeemq.client.route_info import for_a_new_topic, is_same_route, stand_in
from apogeemq.errors import ApogeeError, NoNameServer, NoRoute, RemoteRefused, RouteCause, WrongState
from apogeemq.model.routes import TopicRoute
from apogeemq.model.topics import MASTER_ID
from apogeemq.protocol.bodies.routes import decode_route
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.transport.name_servers import NameServerClient
from apogeemq.transport.pool import ConnectionPool
from apogeemq.transport.route_watch import watch_routes

log = logging.getLogger(__name__)

_SUSPECT_SECONDS: Final = 1.0  # between two questions that failures give reason for
_WATCH_SECONDS: Final = 60.0
_WATCH_PAUSE_SECONDS: Final = 1.0
_ELSEWHERE_SECONDS: Final = 5.0  # how often to see whether another name server is asked now
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
        self._routes: dict[str, TopicRoute] = {}  # the one that changed last is the last
        self._addresses: dict[str, dict[int, str]] = {}  # of the brokers that a route names, by name and id
        self.masters: dict[str, str] = {}  # addresses of the masters among them, by name
        self._is_borrowed: set[str] = set()  # topics whose route is that of the one they will be made like
        self._wanted: dict[str, NewTopic | None] = {}
        self._fetching: dict[str, asyncio.Task[TopicRoute]] = {}
        self._suspected_at: dict[str, float] = {}
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
        if route is not None:
            return route
        is_asked_for = topic in self._fetching  # perhaps by somebody who would not make the topic
        try:
            return await self.refresh(topic)
        except NoRoute:
            if new_topic is None or not is_asked_for:
                raise
            return await self.refresh(topic)

    def address(self, broker_name: str, broker_id: int = MASTER_ID, *, only_this: bool = False) -> str | None:
        """Of a broker that a route names."""
        return stand_in(self._addresses.get(broker_name, {}), broker_id, only_this=only_this)

    def broker_addresses(self, *, only_masters: bool) -> set[str]:
        """Of all brokers that serve a topic this client uses."""
        return {
            address
            for addresses in self._addresses.values()
            for broker_id, address in addresses.items()
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
        if fetching is None or fetching.done():
            fetching = self._begin_fetch(topic)
        try:
            return await asyncio.shield(fetching)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if fetching.cancelled() and not (task is not None and task.cancelling()):  # by `close`, not by our caller
                raise WrongState(f"no route of topic {topic} any more: the client has ended") from None
            raise

    def refresh_soon(self, topic: str) -> None:
        """Somebody has reason to think that a route is stale. Asked at once, but not for each of many failures."""
        now = asyncio.get_running_loop().time()
        if now - self._suspected_at.get(topic, -_SUSPECT_SECONDS) >= _SUSPECT_SECONDS:
            self._suspected_at[topic] = now
            self._fetch_soon(topic)

    def _fetch_soon(self, topic: str) -> None:
        if topic not in self._fetching:
            self._begin_fetch(topic)

    def topic_made(self, topic: str) -> None:
        """It may be known to name servers in a moment: a route that was borrowed for it need not serve on."""
        if topic in self._wanted:
            self._fetch_soon(topic)

    async def refresh_all(self) -> None:
        for topic in self.topics:
            try:
                await self.refresh(topic)
            except NoRoute as error:
                if error.cause is RouteCause.NO_NAME_SERVER:
                    return  # nor would they answer for the others; what was known stays
            except ApogeeError as error:
                log.warning("the route of %s is not refreshed: %s", topic, error)

    async def close(self) -> None:
        """Nothing is fetched any more when this returns."""
        fetching = tuple(self._fetching.values())
        for task in fetching:
            task.cancel()
        await asyncio.gather(*fetching, return_exceptions=True)

    def _begin_fetch(self, topic: str) -> asyncio.Task[TopicRoute]:
        fetching = self._fetching[topic] = asyncio.get_running_loop().create_task(self._fetch(topic))
        fetching.add_done_callback(lambda task: self._fetched(topic, task))
        return fetching

    def _fetched(self, topic: str, task: asyncio.Task[TopicRoute]) -> None:
        if self._fetching.get(topic) is task:
            del self._fetching[topic]
        if self._is_watch_idle:
            self._topics_changed.set()  # perhaps a name server is known now
        if not task.cancelled():
            task.exception()

    async def _fetch(self, topic: str) -> TopicRoute:
        try:
            route = await self._ask(topic)
            if route is not None:
                self._take(topic, route, is_borrowed=False)
                return route
            return await self._without_route(topic)
        except NoNameServer as error:
            raise NoRoute(f"no route of topic {topic}: {error}", RouteCause.NO_NAME_SERVER) from None

    async def _without_route(self, topic: str) -> TopicRoute:
        """A name server knows none: what was known may still hold, or the topic may be made by the first message."""
        known = self._routes.get(topic)
        if known is not None and topic not in self._is_borrowed:
            if not set(known.queues) & await registered_brokers(self._name_servers):
                return known
            self._forget(topic)
        new_topic = self._wanted.get(topic)
        default = await self._ask(new_topic.like) if new_topic is not None else None
        if new_topic is None or default is None:
            self._forget(topic)
            raise await no_route(topic, self._pool, self._name_servers, new_topic.like if new_topic else None)
        route = for_a_new_topic(default, new_topic.queue_nums)
        self._take(topic, route, is_borrowed=True)
        return route

    async def ask(self, topic: str) -> TopicRoute:
        """The route a name server knows now; nothing is kept of it. Raises NoRoute."""
        try:
            route = await self._ask(topic)
            if route is not None:
                return route
            raise await no_route(topic, self._pool, self._name_servers)
        except NoNameServer as error:
            raise NoRoute(f"no route of topic {topic}: {error}", RouteCause.NO_NAME_SERVER) from None

    async def _ask(self, topic: str) -> TopicRoute | None:
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = await self._name_servers.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteRefused(answer.code, answer.remark, self._name_servers.book.current or "")
        return decode_route(answer.body)

    def _take(self, topic: str, route: TopicRoute, *, is_borrowed: bool) -> None:
        (self._is_borrowed.add if is_borrowed else self._is_borrowed.discard)(topic)
        if is_same_route(self._routes.get(topic), route):
            return
        self._routes.pop(topic, None)
        self._routes[topic] = route
        log.info("route of %s: %s", topic, ", ".join(sorted(route.queues)) or "no broker")
        self._changed(topic)

    def _forget(self, topic: str) -> None:
        self._is_borrowed.discard(topic)
        self._suspected_at.pop(topic, None)
        if self._routes.pop(topic, None) is not None:
            log.info("the topic %s is gone", topic)
            self._changed(topic)

    def _changed(self, topic: str) -> None:
        """Brokers that no route names any more are forgotten with their addresses; what changed last counts."""
        self._addresses = {group.name: group.addresses for route in self._routes.values() for group in route.brokers}
        self.masters = {name: ids[MASTER_ID] for name, ids in self._addresses.items() if MASTER_ID in ids}
        self._on_change(topic)

    # -- watching --------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Until cancelled. While the name server is one that knows no watch, nothing is heard."""
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
                    await self._until_elsewhere(address)
                else:
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
        elif topic in self._routes and topic not in self._is_borrowed:
            self._fetch_soon(topic)

    async def _until_elsewhere(self, address: str) -> None:
        while self._name_servers.book.current == address:
            await asyncio.sleep(_ELSEWHERE_SECONDS)

    async def _until_topics_change(self) -> None:
        self._topics_changed.clear()
        self._is_watch_idle = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WATCH_PAUSE_SECONDS):
                await self._topics_changed.wait()
        self._is_watch_idle = False
