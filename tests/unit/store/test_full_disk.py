"""A disk without room is an error to the sender; what was there stays, and the store goes on when there is room."""

from __future__ import annotations

import pytest

from apogeemq.store.config import StoreConfig
from tests.unit.disk import file_size_limit
from tests.unit.store.conftest import LOG_FILE_SIZE, QUEUE_FILE_SIZE, OpenStore, message
from tests.unit.store.test_message_store import drain


def test_a_log_file_that_cannot_be_made(open_store: OpenStore) -> None:
    store = open_store()
    numbers = iter(range(10_000))
    while store.log.max_offset < LOG_FILE_SIZE - 300:
        store.put(message("T", 0, next(numbers)), 0)
    count, end = store.queue("T", 0).max_offset, store.log.max_offset
    with file_size_limit(LOG_FILE_SIZE - 1):
        for _ in range(3):
            with pytest.raises(OSError, match="File too large"):
                store.put(message("T", 0, count, body=bytes(1000)), 0)
    assert (store.queue("T", 0).max_offset, store.log.max_offset) == (count, end)
    for number in range(count, count + 500):
        store.put(message("T", 0, number), 0)
    store.close()
    assert drain(open_store(), "T", 0) == [b"%d" % number for number in range(count + 500)]


def test_a_queue_file_that_cannot_be_made_leaves_nothing_in_the_log(open_store: OpenStore) -> None:
    store = open_store()
    store.put(message("T", 0, 0), 0)
    end = store.log.max_offset
    with file_size_limit(QUEUE_FILE_SIZE - 1), pytest.raises(OSError, match="File too large"):
        store.put(message("T", 1, 1), 0)
    assert store.log.max_offset == end
    assert store.put(message("T", 1, 1), 0).queue_offset == 0
    assert drain(store, "T", 1) == [b"1"]


def test_a_key_index_that_cannot_be_made_costs_only_the_look_up(open_store: OpenStore, config: StoreConfig) -> None:
    config.max_index_num = 100_000  # its file is the largest of all
    store = open_store()
    with file_size_limit(LOG_FILE_SIZE):
        store.put(message("T", 0, 7), 0)
    assert store.index_failure_count == 1
    assert drain(store, "T", 0) == [b"7"]
    assert store.find_by_key("T", "k7", 0, 2**62, 9) == []
