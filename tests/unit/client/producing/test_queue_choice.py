"""Which queue the next message goes to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apogeemq.client.producing.queue_choice import ISOLATION_MS, LatencyFaults, Turn, pause_ms
from apogeemq.model.queues import MessageQueue


def queues(**counts: int) -> list[MessageQueue]:
    return [MessageQueue(name, queue_id, "T") for name, count in counts.items() for queue_id in range(count)]


@given(st.integers(0, 10_000), st.integers(1, 9))
def test_each_queue_has_its_turn(start: int, count: int) -> None:
    turn, all_queues = Turn(start), queues(a=count)
    first, second = ([turn.pick(all_queues) for _ in all_queues] for _ in range(2))
    assert first == second
    assert set(first) == set(all_queues)


@given(st.integers(0, 100), st.integers(1, 4), st.integers(1, 4))
def test_a_broker_is_avoided_while_there_is_another(start: int, some: int, others: int) -> None:
    turn = Turn(start)
    picked = [turn.pick(queues(a=some, b=others), frozenset("a")) for _ in range(10)]
    assert {queue.broker_name for queue in picked} == {"b"}


def test_when_all_are_avoided_any_will_do() -> None:
    turn = Turn(0)
    assert {turn.pick(queues(a=2, b=2), frozenset("ab")).broker_name for _ in range(8)} == {"a", "b"}


def test_fewer_queues_than_before() -> None:
    turn = Turn(0)
    for _ in range(7):
        turn.pick(queues(a=8))
    assert turn.pick(queues(a=2)) in queues(a=2)


@pytest.mark.parametrize(
    ("latency", "pause"),
    [
        (0, 0),
        (50, 0),
        (100, 0),
        (549, 0),
        (550, 2000),
        (1799, 2000),
        (1800, 5000),
        (3000, 6000),
        (4999.5, 6000),
        (5000, 10_000),
        (ISOLATION_MS, 10_000),
        (15_000, 30_000),
        (1e9, 30_000),
    ],
)
def test_the_pauses_are_those_of_the_java_client(latency: float, pause: int) -> None:
    assert pause_ms(latency) == pause


def test_a_slow_broker_is_left_alone_for_a_while() -> None:
    faults = LatencyFaults()
    faults.report("slow", 600, now_ms=1000)
    faults.report("quick", 10, now_ms=1000)
    assert faults.unavailable(2999) == {"slow"}
    assert faults.unavailable(3000) == frozenset()


def test_a_failure_counts_more_than_the_time_it_took() -> None:
    faults = LatencyFaults()
    faults.report("a", 1, now_ms=0, has_failed=True)
    assert faults.unavailable(9_999) == {"a"}
    faults.report("a", 1, now_ms=5_000)  # one quick answer does not heal it
    assert faults.unavailable(9_999) == {"a"}
    assert faults.unavailable(10_000) == frozenset()


def test_forgotten() -> None:
    faults = LatencyFaults()
    faults.report("a", 1, now_ms=0, has_failed=True)
    faults.forget("a")
    faults.forget("never seen")
    assert faults.unavailable(0) == frozenset()
