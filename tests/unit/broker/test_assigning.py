"""Which queues each consumer of a group gets."""

from __future__ import annotations

import pytest

from apogeemq.broker.assigning import AVERAGE, BY_CIRCLE, STRATEGIES, assigned, readable_queues
from apogeemq.model.queues import MessageQueue
from apogeemq.model.routes import QueueSettings, TopicRoute

QUEUES = [MessageQueue("a", number, "T") for number in range(7)]


def ids(strategy: str, client: str, clients: list[str]) -> list[int]:
    return [queue.queue_id for queue in assigned(strategy, client, QUEUES, clients)]


def test_shares_differ_by_one_at_most() -> None:
    clients = ["c3", "c1", "c2"]
    assert [ids(AVERAGE, client, clients) for client in sorted(clients)] == [[0, 1, 2], [3, 4], [5, 6]]
    assert [ids(BY_CIRCLE, client, clients) for client in sorted(clients)] == [[0, 3, 6], [1, 4], [2, 5]]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("count", range(1, 12))
def test_every_queue_has_one_consumer(strategy: str, count: int) -> None:
    clients = [f"c{number:02}" for number in range(count)]
    shares = [assigned(strategy, client, QUEUES, clients) for client in clients]
    assert sorted(queue.queue_id for share in shares for queue in share) == list(range(7))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_stranger_gets_nothing() -> None:
    assert ids(AVERAGE, "c9", ["c1"]) == []


def test_queues_of_all_brokers_that_may_be_read() -> None:
    route = TopicRoute(
        {"b": QueueSettings(2, 4, 6, 0), "a": QueueSettings(1, 1, 4, 0), "c": QueueSettings(3, 3, 2, 0)}, [], {}
    )
    assert [(queue.broker_name, queue.queue_id) for queue in readable_queues("T", route)] == [
        ("a", 0),
        ("b", 0),
        ("b", 1),
    ]
