"""Who reads which queues: as every other client computes it, and each queue by exactly one."""

from __future__ import annotations

from hashlib import md5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.client.consuming.rebalance import (
    STRATEGIES,
    Strategy,
    averagely,
    averagely_by_circle,
    by_config,
    consistent_hash,
    sorted_ids,
    sorted_queues,
)
from apogeemq.model.queues import MessageQueue

CLIENT_IDS = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=12, unique=True).map(sorted_ids)
COUNTS = st.integers(0, 40)
ALL = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES.keys())


def queues(count: int, broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue(broker, queue_id, "T") for queue_id in range(count)]


def ids_of(found: list[MessageQueue]) -> list[int]:
    return [queue.queue_id for queue in found]


def as_java_divides(index: int, count: int, clients: int) -> list[int]:
    """The formula as it is documented for AllocateMessageQueueAveragely."""
    mod = count % clients
    size = 1 if count <= clients else (count // clients + 1 if mod > 0 and index < mod else count // clients)
    start = index * size if mod > 0 and index < mod else index * size + mod
    return list(range(start, start + max(min(size, count - start), 0)))


@ALL
@given(count=COUNTS, client_ids=CLIENT_IDS)
def test_together_the_members_read_each_queue_exactly_once(
    strategy: Strategy, count: int, client_ids: list[str]
) -> None:
    shares = [strategy(client_id, queues(count), client_ids) for client_id in client_ids]
    assert sorted(queue.queue_id for share in shares for queue in share) == list(range(count))


@given(COUNTS, CLIENT_IDS)
def test_averagely_is_javas_formula(count: int, client_ids: list[str]) -> None:
    for index, client_id in enumerate(client_ids):
        assert ids_of(averagely(client_id, queues(count), client_ids)) == as_java_divides(index, count, len(client_ids))


@given(COUNTS, CLIENT_IDS)
def test_by_circle_is_every_nth(count: int, client_ids: list[str]) -> None:
    for index, client_id in enumerate(client_ids):
        expected = [number for number in range(count) if number % len(client_ids) == index]
        assert ids_of(averagely_by_circle(client_id, queues(count), client_ids)) == expected


@pytest.mark.parametrize("strategy", [averagely, averagely_by_circle])
@given(count=COUNTS, client_ids=CLIENT_IDS)
def test_shares_differ_by_one_at_most(strategy: Strategy, count: int, client_ids: list[str]) -> None:
    sizes = [len(strategy(client_id, queues(count), client_ids)) for client_id in client_ids]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(0, 30), st.lists(st.text("abc123@#", min_size=1), min_size=1, max_size=6, unique=True))
def test_consistent_hash_is_the_next_node_of_the_ring(count: int, client_ids: list[str]) -> None:
    def ring_hash(text: str) -> int:
        digest = md5(text.encode()).digest()
        return digest[0] << 24 | digest[1] << 16 | digest[2] << 8 | digest[3]

    ring = {ring_hash(f"{client_id}-{node}"): client_id for client_id in client_ids for node in range(10)}
    owned: dict[str, list[int]] = {client_id: [] for client_id in client_ids}
    for number in range(count):
        point = ring_hash(f"MessageQueue [topic=T, brokerName=b, queueId={number}]")
        owned[ring[min((node for node in ring if node >= point), default=min(ring))]].append(number)
    for client_id in client_ids:
        assert ids_of(consistent_hash(client_id, queues(count), client_ids)) == owned[client_id]


@given(st.integers(1, 40), st.lists(st.text(min_size=1), min_size=2, max_size=8, unique=True))
def test_who_leaves_a_ring_moves_only_their_own_queues(count: int, client_ids: list[str]) -> None:
    *staying, _ = client_ids
    for client_id in staying:
        before = consistent_hash(client_id, queues(count), client_ids)
        assert set(before) <= set(consistent_hash(client_id, queues(count), staying))


@ALL
def test_a_client_the_broker_does_not_know_yet_gets_nothing(strategy: Strategy) -> None:
    assert strategy("me", queues(4), ["another"]) == []
    assert strategy("me", queues(4), []) == []


def test_by_configuration() -> None:
    chosen = [MessageQueue("x", 1, "T"), MessageQueue("x", 0, "U")]
    strategy = by_config(chosen)
    assert strategy("me", [MessageQueue("x", number, "T") for number in range(4)], ["me", "you"]) == chosen[:1]
    assert strategy("me", [MessageQueue("x", number, "U") for number in range(4)], ["you"]) == chosen[1:]
    assert strategy("me", [MessageQueue("x", 0, "V")], ["me"]) == []
    retries = [MessageQueue(name, 0, "%RETRY%G") for name in ("a", "b")]
    assert strategy("me", retries, ["me", "you"]) == retries[:1]  # what failed comes again


def test_queues_are_sorted_by_topic_broker_and_number() -> None:
    ordered = [
        MessageQueue("b", 0, "A"),
        MessageQueue("a", 2, "T"),
        MessageQueue("a", 10, "T"),
        MessageQueue("b", 1, "T"),
    ]
    assert sorted_queues(ordered[::-1]) == ordered


def test_ids_are_sorted_as_java_sorts_strings() -> None:
    supplementary, private = "\U0001f600", "\ue000"  # by code points the other way round
    assert sorted_ids([private, supplementary, "b", "a", "B"]) == ["B", "a", "b", supplementary, private]
    assert sorted_ids(["10.0.0.1@9", "10.0.0.1@10"]) == ["10.0.0.1@10", "10.0.0.1@9"]
