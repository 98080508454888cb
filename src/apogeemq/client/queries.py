"""Questions about topics, offsets and stored messages that producers and consumers alike may ask (Apache's MQAdmin)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from apogeemq.client.consuming.incoming import message_of
from apogeemq.client.instance import ClientInstance
from apogeemq.client.namespaces import with_namespace, without_namespace
from apogeemq.client.options import ClientOptions
from apogeemq.client.route_info import nowhere_to_send, publish_info, readable_queues
from apogeemq.errors import ApogeeError, ConfigError, NoRoute, RemoteRefused, RouteCause
from apogeemq.model.ids import parse_offset_id
from apogeemq.model.queues import MessageQueue
from apogeemq.model.received import ReceivedMessage
from apogeemq.model.routes import BrokerGroup, TopicRoute
from apogeemq.model.topics import (
    AUTO_CREATE_TOPIC,
    MASTER_ID,
    PERM_READ_WRITE,
    SINGLE_TAG,
    is_system_topic,
    topic_problem,
)
from apogeemq.protocol import javajson
from apogeemq.protocol.bodies.routes import WireTopicList
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.headers.admin import CreateTopic
from apogeemq.protocol.headers.broker import QueryMessage
from apogeemq.protocol.record import Record
from apogeemq.transport.addresses import format_address

log = logging.getLogger(__name__)

_CREATE_ATTEMPTS: Final = 5
_END_OF_TIME_MS: Final = 2**63 - 1
_MAX_PORT: Final = 65_535


class TopicQueries:
    """A part of producers and consumers. Topics are named, and come back, without the namespace."""

    _client: ClientOptions

    @property
    def _running(self) -> ClientInstance:
        """Raises WrongState when it is not running."""
        raise NotImplementedError

    # -- topics ----------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        topic: str,
        queues: int = 4,
        *,
        like: str = AUTO_CREATE_TOPIC,
        attributes: Mapping[str, str] | None = None,
        system_flag: int = 0,
    ) -> None:
        """Make a topic on every master that serves the topic `like`; where there is one already, it is changed.

        `like` may be the name of a cluster. Succeeds when one broker has made it; name servers hear of it a moment
        later. Raises ConfigError for a name no topic may have, NoRoute when nobody serves `like`.
        """
        name = with_namespace(topic, self._client.namespace)
        if problem := topic_problem(name) or (f"{name} is a topic of the system" if is_system_topic(name) else None):
            raise ConfigError(problem)
        if queues < 1:
            raise ConfigError(f"a topic needs at least one queue, not {queues}")
        masters = _masters(await self._running.routes.ask(like))
        if not masters:
            raise NoRoute(f"no master of the topic {like} is registered", RouteCause.NO_MASTER)
        header = CreateTopic(
            topic=name,
            readQueueNums=queues,
            writeQueueNums=queues,
            perm=PERM_READ_WRITE,
            topicFilterType=SINGLE_TAG,
            defaultTopic=like,
            topicSysFlag=system_flag,
            attributes=_attribute_changes(attributes or {}),
        )
        failures = [await self._create_at(address, header) for address in masters]
        told = [failure for failure in failures if failure is not None]
        if len(told) == len(failures):
            raise told[0]
        for failure in told:
            log.warning("the topic %s is not made everywhere: %s", name, failure)
        self._running.routes.topic_made(name)

    async def _create_at(self, address: str, header: CreateTopic) -> ApogeeError | None:
        failure: ApogeeError | None = None
        for _ in range(_CREATE_ATTEMPTS):
            try:
                await self._running.calls.create_topic(address, header)
                return None
            except ApogeeError as error:
                failure = error
                if not error.retriable:
                    break
        return failure

    async def list_topics(self) -> tuple[str, ...]:
        """Those of the namespace that a name server knows now, the system's among them, by name.

        Raises NoNameServer, or RemoteRefused.
        """
        servers, namespace = self._running.name_servers, self._client.namespace
        answer = await servers.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteRefused(answer.code, answer.remark, servers.book.current or "")
        names = javajson.loads(answer.body, WireTopicList).topicList if answer.body else []
        return tuple(
            sorted(without_namespace(name, namespace) for name in names if with_namespace(name, namespace) == name)
        )

    async def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues a producer may send to, as a name server knows them now. Raises NoRoute."""
        name = with_namespace(topic, self._client.namespace)
        route = await self._running.routes.ask(name)
        if not (found := publish_info(topic, route).queues):
            raise nowhere_to_send(name, route)
        return found

    async def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues a consumer may read, as a name server knows them now. Raises NoRoute."""
        name = with_namespace(topic, self._client.namespace)
        route = await self._running.routes.ask(name)
        if not (found := readable_queues(topic, route)):
            cause = RouteCause.NOT_READABLE if route.queues else RouteCause.NO_BROKER
            raise NoRoute(f"no queue of topic {name} can be read", cause)
        return found

    # -- offsets ---------------------------------------------------------------------------------------------

    async def search_offset(self, queue: MessageQueue, time_ms: int, *, is_upper: bool = False) -> int:
        """The offset of the first message stored at that time or later; of the last of several with `is_upper`."""
        own = self._own(queue)
        return await self._running.calls.search_offset(await self._master(own), own, time_ms, is_upper=is_upper)

    async def min_offset(self, queue: MessageQueue) -> int:
        """Of the oldest message that is still there."""
        own = self._own(queue)
        return await self._running.calls.min_offset(await self._master(own), own)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The one the next message will have."""
        own = self._own(queue)
        return await self._running.calls.max_offset(await self._master(own), own)

    async def earliest_message_time(self, queue: MessageQueue) -> int:
        """When the oldest message that is still there was stored, in ms; -1 when there is none."""
        own = self._own(queue)
        return await self._running.calls.earliest_time(await self._master(own), own)

    async def broker_figures(self, queue: MessageQueue) -> dict[str, str]:
        """What the master of a queue says of itself, in its own words (Apache's runtime info)."""
        return await self._running.calls.runtime_info(await self._master(self._own(queue)))

    async def topic_attributes(self, queue: MessageQueue) -> dict[str, str]:
        """Those that the master of a queue has of its topic, such as `cleanup.policy`; most topics have none. Raises
        RemoteRefused where the broker is too old to tell."""
        own = self._own(queue)
        return await self._running.calls.topic_attributes(await self._master(own), own.topic)

    def _own(self, queue: MessageQueue) -> MessageQueue:
        namespace = self._client.namespace
        if not namespace:
            return queue
        return MessageQueue(queue.broker_name, queue.queue_id, with_namespace(queue.topic, namespace))

    async def _master(self, queue: MessageQueue) -> str:
        return await self._running.find_master(queue.broker_name, queue.topic)

    # -- messages --------------------------------------------------------------------------------------------

    async def view_message(self, topic: str, message_id: str) -> ReceivedMessage | None:
        """By the id its producer gave it or by the one that says where it is stored; None when there is none."""
        name = with_namespace(topic, self._client.namespace)
        route = await self._running.routes.get(name)
        place = _place(message_id)
        is_of_the_topic = place is not None and place[0] in _names_by_address(route)
        if place is not None and is_of_the_topic and (found := await self._at(name, route, *place)) is not None:
            return found
        named_so = await self._ask_all(name, message_id, 32, 0, _END_OF_TIME_MS, is_unique_key=True)
        if named_so:
            return named_so[0]
        return None if place is None or is_of_the_topic else await self._at(name, route, *place)

    async def _at(self, topic: str, route: TopicRoute, address: str, offset: int) -> ReceivedMessage | None:
        """None also when nobody is there: both kinds of ids look alike, and one of them holds no address."""
        try:
            record = await self._running.calls.view_message(address, topic, offset)
        except ApogeeError as error:
            log.debug("no message at %s: %s", address, error)
            return None
        return self._message(record, _names_by_address(route).get(address, "")) if _topic(record) == topic else None

    async def query_messages(
        self, topic: str, key: str, *, max_count: int = 32, begin_ms: int = 0, end_ms: int = _END_OF_TIME_MS
    ) -> list[ReceivedMessage]:
        """Messages with this key that were stored between these times, the oldest first, of all brokers of the topic.

        A broker that does not answer is left out when another has some; RemoteRefused, ConnectFailed … when none has.
        """
        name = with_namespace(topic, self._client.namespace)
        await self._running.routes.get(name)
        return await self._ask_all(name, key, max_count, begin_ms, end_ms, is_unique_key=False)

    async def _ask_all(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, *, is_unique_key: bool
    ) -> list[ReceivedMessage]:
        header = QueryMessage(max_count, begin_ms, end_ms, topic, key, is_unique_key)
        route = await self._running.routes.get(topic)
        asked = [(group.name, _any_of(group)) for group in route.brokers if group.addresses]
        answers = await asyncio.gather(
            *(self._running.calls.query_messages(address, header) for _, address in asked), return_exceptions=True
        )
        found: list[ReceivedMessage] = []
        failures: list[BaseException] = []
        for (broker_name, _), answer in zip(asked, answers, strict=True):
            if isinstance(answer, BaseException):
                failures.append(answer)
                log.warning("%s was not asked for messages of %s: %s", broker_name, topic, answer)
                continue
            messages = (self._message(record, broker_name) for record in answer if _topic(record) == topic)
            # Brokers compare hashes.
            found += (one for one in messages if (one.message_id == key if is_unique_key else key in one.keys))
        if failures and not found:
            raise failures[0]
        return sorted(found, key=lambda message: message.store_time_ms)[:max_count]

    def _message(self, record: Record, broker_name: str) -> ReceivedMessage:
        namespace = self._client.namespace
        known_as = without_namespace(_topic(record), namespace) if namespace else _topic(record)
        return message_of(record, MessageQueue(broker_name, record.queue_id, known_as), namespace)


def _masters(route: TopicRoute) -> list[str]:
    groups = sorted(route.brokers, key=lambda group: group.name)
    return [group.addresses[MASTER_ID] for group in groups if MASTER_ID in group.addresses]


def _any_of(group: BrokerGroup) -> str:
    """The master; a slave where there is none."""
    return group.addresses[min(group.addresses)]


def _names_by_address(route: TopicRoute) -> dict[str, str]:
    return {address: group.name for group in route.brokers for address in group.addresses.values()}


def _topic(record: Record) -> str:
    return record.topic.decode(errors="replace")


def _place(message_id: str) -> tuple[str, int] | None:
    """Broker address and position, when the id may be one that says so."""
    try:
        found = parse_offset_id(message_id)
    except ValueError:
        return None
    if not 0 < found.port <= _MAX_PORT or found.physical_offset < 0:
        return None
    return format_address(str(ip_address(found.address)), found.port), found.physical_offset


def _attribute_changes(attributes: Mapping[str, str]) -> str | None:
    """`+name=value`, as brokers read it; a name may have its sign already (`-name` takes it away)."""
    signed: Sequence[str] = [
        (name if name[:1] in "+-" else f"+{name}") + (f"={value}" if value else "")
        for name, value in attributes.items()
    ]
    return ",".join(signed) or None
