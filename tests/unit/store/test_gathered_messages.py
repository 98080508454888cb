"""Messages that are gathered, and written together before their senders hear of it."""

from __future__ import annotations

import os
from unittest.mock import patch

import pytest

from apogeemq.protocol.batch import BatchEntries, encode_batch
from apogeemq.store.config import StoreConfig
from apogeemq.store.message_store import MessageStore
from tests.unit.disk import file_size_limit
from tests.unit.store.conftest import LOG_FILE_SIZE, OpenStore, message
from tests.unit.store.test_message_store import drain
from tests.unit.store.test_recovery import crash


def gather(store: MessageStore, number: int, now_ms: int = 0, body: bytes | None = None) -> int:
    """The physical offset it goes to."""
    return store.put(message("T", 0, number, body=body), now_ms, is_gathered=True).physical_offset


@pytest.mark.parametrize("is_for_flush", [True, False])
def test_they_are_what_single_messages_would_have_been(open_store: OpenStore, is_for_flush: bool) -> None:
    store = open_store()
    for number in range(20):
        gather(store, number, 1000)
        assert store.log.written_offset == 0
    store.settle(is_for_flush=is_for_flush)
    assert store.log.written_offset == store.log.max_offset
    for number in range(20):
        store.put(message("T", 1, number), 1000)
    assert drain(store, "T", 0) == drain(store, "T", 1) == [b"%d" % number for number in range(20)]


def test_they_can_be_read_before_they_are_written(open_store: OpenStore) -> None:
    store = open_store()
    offset = gather(store, 7)
    record = store.log.record_at(offset)
    assert record is not None and record.body == b"7"
    gather(store, 8)
    assert drain(store, "T", 0) == [b"7", b"8"]
    assert [found.body for found in store.find_by_key("T", "k8", 0, 2**62, 9)] == [b"8"]


def test_a_message_that_is_not_gathered_comes_after_those_that_are(open_store: OpenStore) -> None:
    store = open_store()
    gather(store, 1)
    store.put(message("T", 0, 2), 0)
    gather(store, 3)
    store.put_batch(message("T", 0, 4), BatchEntries(encode_batch([(0, b"4", b""), (0, b"5", b"")])), 0)
    gather(store, 6)
    assert drain(store, "T", 0) == [b"%d" % number for number in range(1, 7)]


def test_they_go_through_file_after_file(open_store: OpenStore) -> None:
    store = open_store()
    offsets = [gather(store, number, body=b"%04d" % number * 100) for number in range(500)]
    assert offsets[-1] > 3 * LOG_FILE_SIZE
    store.settle()
    crash(store)
    assert drain(open_store(), "T", 0) == [b"%04d" % number * 100 for number in range(500)]


def test_what_is_not_written_is_lost_with_the_process_and_takes_nothing_with_it(open_store: OpenStore) -> None:
    store = open_store()
    gather(store, 1)
    store.settle()
    gather(store, 2)
    store.log._gathered.clear()
    crash(store)
    store = open_store()
    assert drain(store, "T", 0) == [b"1"]
    store.put(message("T", 0, 3), 0)
    assert drain(store, "T", 0) == [b"1", b"3"]


def test_it_is_known_up_to_when_messages_are_written(open_store: OpenStore) -> None:
    store = open_store()
    store.put(message("T", 0, 1), 1000)
    assert store.last_written_time == 1000
    gather(store, 2, 2000)
    gather(store, 3, 3000)
    assert store.last_written_time == 2000
    store.settle()
    assert store.last_written_time == 3000


def test_not_too_many_are_gathered(open_store: OpenStore, config: StoreConfig) -> None:
    config.mapped_file_size_commit_log = 8 * 1024 * 1024
    store = open_store()
    for number in range(20):
        gather(store, number, body=bytes(100_000))
        assert store.log.max_offset - store.log.written_offset < 1024 * 1024
    assert store.log.written_offset > 0


def test_a_disk_that_takes_no_calls_still_has_the_map(open_store: OpenStore, caplog: pytest.LogCaptureFixture) -> None:
    """The flush that follows says whether that was enough."""
    store = open_store()
    gather(store, 1)
    with patch.object(os, "pwrite", side_effect=OSError(5, "Input/output error")):
        store.settle(is_for_flush=True)
    assert "takes no call to write" in caplog.records[-1].message
    assert store.log.written_offset == store.log.max_offset
    assert drain(store, "T", 0) == [b"1"]


def test_without_room_nothing_is_gathered(open_store: OpenStore) -> None:
    store = open_store()
    with file_size_limit(0), pytest.raises(OSError):
        gather(store, 1)
    assert store.log.max_offset == 0
    assert drain(store, "T", 0) == []
    gather(store, 2)
    assert drain(store, "T", 0) == [b"2"]
