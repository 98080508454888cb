"""Functions of the program that are told when a topic has other queues than before."""

from __future__ import annotations

import logging
from collections.abc import Callable

from apogeemq.client.instance import ClientInstance
from apogeemq.client.namespaces import with_namespace, without_namespace
from apogeemq.client.route_info import readable_queues
from apogeemq.model.queues import MessageQueue

log = logging.getLogger(__name__)

# Told of a topic and its queues: all that can be read, or those that are read here.
QueueListener = Callable[[str, frozenset[MessageQueue]], None]


class _Listening:
    def __init__(self, listener: QueueListener) -> None:
        self.listener = listener
        self.queues: frozenset[MessageQueue] | None = None  # None: not known yet


class QueueListeners:
    """One for each topic, by the name the program knows it by."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._by_topic: dict[str, _Listening] = {}

    def add(self, topic: str, listener: QueueListener) -> None:
        self._by_topic[topic] = _Listening(listener)

    async def begin(self, instance: ClientInstance) -> None:
        """From now on changes are told, to those that were not begun yet. Raises NoRoute."""
        for topic, listening in tuple(self._by_topic.items()):
            if listening.queues is None:
                route = await instance.routes.get(with_namespace(topic, self._namespace))
                listening.queues = frozenset(readable_queues(topic, route))

    def route_changed(self, instance: ClientInstance, name: str) -> None:
        topic = without_namespace(name, self._namespace)
        listening = self._by_topic.get(topic)
        if listening is None or listening.queues is None:
            return
        route = instance.routes.known(name)
        queues = frozenset(readable_queues(topic, route)) if route is not None else frozenset()
        if queues != listening.queues:
            listening.queues = queues
            tell(listening.listener, topic, queues)


def tell(listener: QueueListener, topic: str, queues: frozenset[MessageQueue]) -> None:
    try:
        listener(topic, queues)
    except Exception:  # it is the program's; we go on
        log.exception("a listener to the queues of %s failed", topic)
