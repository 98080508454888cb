"""Who of a group reads which queues: every member computes the same answer from the same lists. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from hashlib import md5
from typing import Final, TypeAlias

from apogeemq.model.queues import MessageQueue
from apogeemq.model.topics import RETRY_PREFIX

# (own client id, all queues of the topic, all client ids of the group) -> the queues of this client
Strategy: TypeAlias = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]

_VIRTUAL_NODES: Final = 10


def sorted_queues(queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """In the order all clients agree on."""
    return sorted(queues, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))


def sorted_ids(client_ids: Sequence[str]) -> list[str]:
    """In Java's order of strings: by UTF-16 units."""
    return sorted(client_ids, key=lambda client_id: client_id.encode("utf-16-be", "surrogatepass"))


def averagely(own_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Neighbouring queues together; the first clients get one more where it does not come out even."""
    index, count = _position(own_id, client_ids)
    if index is None:
        return []
    share, more = divmod(len(queues), count)
    start = index * share + min(index, more)
    return list(queues[start : start + share + (index < more)])


def averagely_by_circle(own_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """Dealt out like cards."""
    index, count = _position(own_id, client_ids)
    return [] if index is None else list(queues[index::count])


def by_config(chosen: Sequence[MessageQueue]) -> Strategy:
    """The same queues always, whoever else is there. Where no queue of the group's retries is chosen, they are shared
    averagely: without that, what failed would never come again."""

    def strategy(own_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
        topics = {queue.topic for queue in queues}
        own = [queue for queue in chosen if queue.topic in topics]
        is_retry = any(topic.startswith(RETRY_PREFIX) for topic in topics)
        return averagely(own_id, queues, client_ids) if is_retry and not own else own

    return strategy


def consistent_hash(own_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> list[MessageQueue]:
    """A client that comes or goes moves few queues: each belongs to the next client on a ring of hashes."""
    if own_id not in client_ids:
        return []
    ring = sorted(
        (_ring_hash(f"{client_id}-{node}"), client_id) for client_id in client_ids for node in range(_VIRTUAL_NODES)
    )
    hashes = [point for point, _ in ring]
    return [
        queue for queue in queues if ring[bisect_left(hashes, _ring_hash(_java_text(queue))) % len(ring)][1] == own_id
    ]


def _position(own_id: str, client_ids: Sequence[str]) -> tuple[int | None, int]:
    """A client that the broker does not know yet gets nothing: others would not know of it."""
    return (client_ids.index(own_id) if own_id in client_ids else None), len(client_ids)


def _ring_hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4])


def _java_text(queue: MessageQueue) -> str:
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


STRATEGIES: Final[dict[str, Strategy]] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": averagely_by_circle,
    "CONSISTENT_HASH": consistent_hash,
}
