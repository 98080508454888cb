"""Where the messages of a producer go: the queues of a topic, the one that is next, its broker's address."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from apogeemq.client.instance import ClientInstance
from apogeemq.client.namespaces import without_namespace
from apogeemq.client.options import ProducerOptions
from apogeemq.client.producing.queue_choice import LatencyFaults, Turn
from apogeemq.client.route_cache import NewTopic
from apogeemq.client.route_info import PublishInfo, nowhere_to_send, publish_info
from apogeemq.errors import ApogeeError, NoRoute, RemoteRefused, RouteCause
from apogeemq.filter.tags import java_hash
from apogeemq.model.messages import Message
from apogeemq.model.queues import MessageQueue

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]

_NOBODY: Final[frozenset[str]] = frozenset()


class Destinations:
    """Topics are named as brokers know them, with the namespace."""

    def __init__(self, instance: ClientInstance, options: ProducerOptions, faults: LatencyFaults) -> None:
        self._instance = instance
        self._routes = instance.routes
        self._options = options
        self._faults = faults
        self._namespace = instance.options.namespace
        self._publish: dict[str, tuple[object, PublishInfo]] = {}
        self._turns: dict[str, Turn] = {}

    async def queues(self, topic: str, deadline: float | None = None) -> PublishInfo:
        info = self.known(topic)
        if info is not None and info.queues:
            return info
        routes = self._instance.routes
        new_topic = NewTopic(self._options.create_topic_key, self._options.default_topic_queues)
        try:
            async with asyncio.timeout_at(deadline):
                route = await (routes.get(topic, new_topic) if info is None else routes.refresh(topic))
        except TimeoutError:
            raise NoRoute(
                f"no route of topic {topic}: no name server answered in the time of the send: "
                f"{self._instance.name_servers.describe()}",
                RouteCause.NO_NAME_SERVER,
            ) from None
        info = self.known(topic)
        if info is None or not info.queues:
            raise nowhere_to_send(topic, route)
        return info

    def known(self, topic: str) -> PublishInfo | None:
        """Worked out once for each route."""
        route = self._routes.known(topic)
        if route is None:
            return None
        known = self._publish.get(topic)
        if known is None or known[0] is not route:
            known = self._publish[topic] = (route, publish_info(topic, route))
        return known[1]

    def next(self, topic: str, info: PublishInfo, last_broker: str = "") -> MessageQueue:
        """Away from the broker that just failed; away from slow ones if that is wanted."""
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._turns[topic] = Turn(random.randrange(1024))
        if not last_broker and not self._options.avoids_slow_brokers:
            return turn.pick(info.queues)
        last = frozenset((last_broker,)) if last_broker else _NOBODY
        if self._options.avoids_slow_brokers:
            slow = self._faults.unavailable(time.monotonic() * 1000)
            return turn.pick(info.queues, slow | last, self._faults.unreachable() | last)
        return turn.pick(info.queues, last)

    def chosen(self, queue: MessageQueue | QueueSelector | None, message: Message, info: PublishInfo) -> MessageQueue:
        if queue is None:
            return info.queues[abs(java_hash(message.sharding_key)) % len(info.queues)]
        if isinstance(queue, MessageQueue):
            return queue
        namespace = self._namespace
        if not namespace:
            return queue(info.queues, message)
        known_as = msgspec.structs.replace(message, topic=without_namespace(message.topic, namespace))
        return queue([queue_without_namespace(one, namespace) for one in info.queues], known_as)

    async def look_for_broker(self, queue: MessageQueue, topic: str, deadline: float) -> None:
        """A caller's queue may be one of a newer route than is known here."""
        if self._instance.master_of(queue.broker_name) is not None:  # as nearly always; a timeout has its price
            return
        with contextlib.suppress(TimeoutError, NoRoute):  # without a master, `address` says that there is none
            async with asyncio.timeout_at(deadline):
                await self._instance.find_master(queue.broker_name, topic)

    def address(self, queue: MessageQueue) -> str:
        address = self._routes.masters.get(queue.broker_name)
        if address is None:
            raise NoRoute(f"the broker {queue.broker_name} has no master that is known")
        return address

    def report(self, queue: MessageQueue, started: float, error: ApogeeError | None) -> None:
        """As Apache's clients count: what is not the broker's fault is not held against it."""
        if self._options.avoids_slow_brokers:
            latency_ms = (asyncio.get_running_loop().time() - started) * 1000
            self._faults.report(
                queue.broker_name,
                latency_ms,
                time.monotonic() * 1000,
                has_failed=error is not None and not isinstance(error, NoRoute),
                is_reachable=self._is_reachable_after(error),
            )

    def _is_reachable_after(self, error: ApogeeError | None) -> bool:
        """One that is not there is only paused, unless somebody looks whether it is back."""
        if error is None or isinstance(error, NoRoute):
            return True
        return not (isinstance(error, RemoteRefused) or self._options.detects_brokers)

    def queue_of(self, broker_name: str) -> MessageQueue | None:
        """Any that messages may go to."""
        queues = (queue for _, info in self._publish.values() for queue in info.queues)
        return next((queue for queue in queues if queue.broker_name == broker_name), None)


def queue_without_namespace(queue: MessageQueue, namespace: str) -> MessageQueue:
    """Programs know topics by their own names."""
    if not namespace:
        return queue
    return MessageQueue(queue.broker_name, queue.queue_id, without_namespace(queue.topic, namespace))
