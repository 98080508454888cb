"""Locks of queues: taken, renewed, given back, expired."""

from __future__ import annotations

from apogeemq.broker.tables.queue_locks import LOCK_LIFE_MS, QueueLocks
from apogeemq.model.queues import MessageQueue

Q0, Q1, Q2 = (MessageQueue("broker-a", number, "T") for number in range(3))


def test_the_first_to_ask_holds_a_queue() -> None:
    locks = QueueLocks()
    assert locks.lock_batch("G", "a", [Q0, Q1], 0) == [Q0, Q1]
    assert locks.lock_batch("G", "b", [Q0, Q2], 0) == [Q2]
    assert locks.lock_batch("G", "a", [Q0, Q1, Q2], 0) == [Q0, Q1]
    assert locks.lock_batch("H", "b", [Q0], 0) == [Q0]  # of another group
    assert locks.lock_count == 4


def test_lock_is_given_back_by_its_holder_only() -> None:
    locks = QueueLocks()
    locks.lock_batch("G", "a", [Q0, Q1], 0)
    locks.unlock_batch("G", "b", [Q0])
    assert locks.lock_batch("G", "b", [Q0], 0) == []
    locks.unlock_batch("G", "a", [Q0, Q2])
    assert locks.lock_batch("G", "b", [Q0, Q1], 0) == [Q0]
    locks.unlock_batch("no group", "a", [Q0])


def test_asking_again_renews_a_lock() -> None:
    locks = QueueLocks()
    locks.lock_batch("G", "a", [Q0], 0)
    locks.lock_batch("G", "a", [Q0], LOCK_LIFE_MS)
    assert locks.lock_batch("G", "b", [Q0], 2 * LOCK_LIFE_MS) == []
    assert locks.lock_batch("G", "b", [Q0], 2 * LOCK_LIFE_MS + 1) == [Q0]
    assert locks.lock_batch("G", "a", [Q0], 2 * LOCK_LIFE_MS + 1) == []


def test_whether_a_group_consumes_in_order() -> None:
    locks = QueueLocks()
    assert not locks.is_locking("G", 0)
    locks.lock_batch("G", "a", [Q0], 0)
    assert locks.is_locking("G", LOCK_LIFE_MS)
    assert not locks.is_locking("H", 0)
    assert not locks.is_locking("G", LOCK_LIFE_MS + 1)
    locks.lock_batch("G", "a", [Q0], LOCK_LIFE_MS)
    locks.unlock_batch("G", "a", [Q0])
    assert not locks.is_locking("G", LOCK_LIFE_MS)


def test_nothing_stays_of_what_is_over() -> None:
    locks = QueueLocks()
    locks.lock_batch("G", "a", [Q0], 0)
    locks.lock_batch("G", "a", [Q1], 10)
    locks.lock_batch("H", "a", [Q0], 0)
    assert locks.lock_batch("I", "a", [], 0) == []
    locks.expire(LOCK_LIFE_MS + 5)
    assert {group: list(held) for group, held in locks.groups.items()} == {"G": [Q1]}
    assert locks.lock_count == 1
    locks.unlock_batch("G", "a", [Q1])
    assert (locks.groups, locks.lock_count) == ({}, 0)


def test_locks_are_limited() -> None:
    locks = QueueLocks(max_locks=2)
    assert locks.lock_batch("G", "a", [Q0, Q1, Q2], 0) == [Q0, Q1]
    assert locks.lock_batch("H", "a", [Q0], 0) == []
    assert locks.lock_batch("G", "a", [Q1, Q2], 0) == [Q1]
    assert list(locks.groups) == ["G"]
    locks.unlock_batch("G", "a", [Q0])
    assert locks.lock_batch("H", "a", [Q0], 0) == [Q0]
