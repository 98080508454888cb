"""The index of deadlines, with time as an argument."""

from __future__ import annotations

from apogeemq.nameserver.liveness import BrokerKey, DeadlineIndex

A: BrokerKey = ("c", "a:1")
B: BrokerKey = ("c", "b:1")


class Brokers(dict[BrokerKey, int]):
    """Present deadlines, and the index over them."""

    def __init__(self) -> None:
        super().__init__()
        self.index = DeadlineIndex(self.get)

    def appear(self, key: BrokerKey, deadline_ms: int) -> None:
        self[key] = deadline_ms
        self.index.track(key, deadline_ms)


def test_nobody_expires_before_or_at_the_deadline() -> None:
    brokers = Brokers()
    brokers.appear(A, 100)
    assert brokers.index.expired(99) == []
    assert brokers.index.expired(100) == []
    assert brokers.index.expired(101) == [A]


def test_each_expires_once_and_in_order() -> None:
    brokers = Brokers()
    brokers.appear(B, 200)
    brokers.appear(A, 100)
    assert brokers.index.expired(1_000) == [A, B]
    assert brokers.index.expired(2_000) == []


def test_refreshed_broker_is_found_alive_when_its_old_deadline_comes_up() -> None:
    brokers = Brokers()
    brokers.appear(A, 100)
    brokers[A] = 500  # a heartbeat: no call to the index
    assert brokers.index.expired(300) == []
    assert brokers.index.next_deadline_ms() == 500
    assert brokers.index.expired(501) == [A]


def test_shorter_time_out_counts_at_once() -> None:
    brokers = Brokers()
    brokers.appear(A, 1_000)
    brokers.appear(A, 50)
    assert brokers.index.expired(51) == [A]
    del brokers[A]
    assert brokers.index.expired(2_000) == []


def test_longer_time_out_counts_too() -> None:
    brokers = Brokers()
    brokers.appear(A, 50)
    brokers.appear(A, 1_000)
    assert brokers.index.expired(500) == []
    assert brokers.index.expired(1_001) == [A]


def test_broker_that_left_does_not_expire() -> None:
    brokers = Brokers()
    brokers.appear(A, 100)
    del brokers[A]
    assert brokers.index.expired(1_000) == []
    assert brokers.index.next_deadline_ms() is None


def test_broker_that_left_and_came_back_expires_by_its_new_deadline() -> None:
    brokers = Brokers()
    brokers.appear(A, 100)
    del brokers[A]
    brokers.appear(A, 700)
    assert brokers.index.expired(600) == []
    assert brokers.index.expired(701) == [A]


def test_next_deadline_is_known_before_anything_expires() -> None:
    brokers = Brokers()
    assert brokers.index.next_deadline_ms() is None
    brokers.appear(B, 200)
    brokers.appear(A, 100)
    assert brokers.index.next_deadline_ms() == 100


def test_index_does_not_grow_with_brokers_that_come_and_go() -> None:
    """Their deadlines may be ages away."""
    brokers = Brokers()
    for number in range(10_000):
        key = ("c", f"host-{number}:1")
        brokers.appear(key, 2**62 - number)
        del brokers[key]
        brokers.index.forget(key)
    assert brokers.index.size < 1_000


def test_index_does_not_grow_with_ever_shorter_time_outs() -> None:
    brokers = Brokers()
    for number in range(10_000):
        brokers.appear(A, 2**62 - number)
    assert brokers.index.size < 1_000
    assert brokers.index.expired(2**62) == [A]
