"""Which queues of a topic each consumer of a group gets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from apogeemq.model.queues import MessageQueue
from apogeemq.model.routes import TopicRoute
from apogeemq.model.topics import PERM_READ

AVERAGE: Final = "AVG"
BY_CIRCLE: Final = "AVG_BY_CIRCLE"
STRATEGIES: Final = (AVERAGE, BY_CIRCLE)


def readable_queues(topic: str, route: TopicRoute) -> list[MessageQueue]:
    return in_order(
        MessageQueue(broker, queue_id, topic)
        for broker, queues in route.queues.items()
        if queues.perm & PERM_READ
        for queue_id in range(queues.read_queues)
    )


def in_order(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """The order in which every client and broker deals them out."""
    return sorted(queues, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))


def assigned(
    strategy: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Iterable[str]
) -> list[MessageQueue]:
    """What one client gets of queues in their order; nothing when it is not among the clients."""
    clients = sorted(client_ids)
    if client_id not in clients:
        return []
    index, count = clients.index(client_id), len(clients)
    if strategy == BY_CIRCLE:
        return list(queues[index::count])
    share, rest = divmod(len(queues), count)
    start = index * share + min(index, rest)
    return list(queues[start : start + share + (1 if index < rest else 0)])
