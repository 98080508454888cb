"""Which message was stored when, with several stored in the same moment, across files, and with some expired."""

from __future__ import annotations

import pytest

from apogeemq.store.look_ups import NO_TIME, earliest_log_time, earliest_time, offset_at_time, store_time_at
from apogeemq.store.message_store import MessageStore
from tests.unit.store.conftest import OpenStore, message

TIMES = [1000, 1000, 1000, 2000, 3000, 3000, 5000]


def filled(open_store: OpenStore, times: list[int]) -> MessageStore:
    store = open_store()
    for number, time in enumerate(times):
        store.put(message("T", 1, number), time)
        store.put(message("other", 0, number), time)
    return store


@pytest.mark.parametrize(
    ("timestamp", "lower", "upper"),
    [
        (0, 0, 0),
        (999, 0, 0),
        (1000, 0, 2),
        (1500, 3, 2),
        (2000, 3, 3),
        (3000, 4, 5),
        (4000, 6, 5),
        (5000, 6, 6),
        (5001, 7, 6),
        (2**62, 7, 6),
    ],
)
def test_the_first_from_a_time_on_and_the_last_up_to_it(
    open_store: OpenStore, timestamp: int, lower: int, upper: int
) -> None:
    store = filled(open_store, TIMES)
    assert offset_at_time(store, "T", 1, timestamp) == lower
    assert offset_at_time(store, "T", 1, timestamp, upper=True) == upper


def test_every_time_is_found_in_every_file(open_store: OpenStore) -> None:
    store = filled(open_store, [1000 + 10 * number for number in range(350)])
    for number in range(350):
        assert offset_at_time(store, "T", 1, 1000 + 10 * number) == number
        assert offset_at_time(store, "T", 1, 1000 + 10 * number, upper=True) == number
        assert store_time_at(store, "T", 1, number) == 1000 + 10 * number


def test_without_messages_there_is_no_time(open_store: OpenStore) -> None:
    store = open_store()
    assert earliest_log_time(store) == NO_TIME
    assert earliest_time(store, "T", 0) == NO_TIME
    assert offset_at_time(store, "T", 0, 1000) == 0
    store.queue("T", 0)
    assert earliest_time(store, "T", 0) == NO_TIME
    assert offset_at_time(store, "T", 0, 1000) == offset_at_time(store, "T", 0, 1000, upper=True) == 0
    store.put(message("T", 0, 0), 1234)
    assert earliest_log_time(store) == earliest_time(store, "T", 0) == store_time_at(store, "T", 0, 0) == 1234
    assert store_time_at(store, "T", 0, 1) == NO_TIME


def test_messages_that_expired_from_the_log_are_older_than_any(open_store: OpenStore) -> None:
    store = filled(open_store, [1000 + number for number in range(1000)])
    for file in store.log.files.take_before(store.log.files.files[1].end):
        file.delete()
    first = next(offset for offset in range(1000) if store_time_at(store, "T", 1, offset) != NO_TIME)
    assert first > 300
    assert offset_at_time(store, "T", 1, 1001) == first
    store.queue("T", 1).begin_at(store.log.min_offset)
    assert store.queue("T", 1).min_offset == first
    assert earliest_time(store, "T", 1) == 1000 + first
    assert offset_at_time(store, "T", 1, 0, upper=True) == first
