"""A store from open to close, and what the next process finds."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from time import sleep

import pytest

from apogeemq.errors import StorageFailed
from apogeemq.store.config import StoreConfig
from apogeemq.store.opening import OpenStore
from apogeemq.store.recovery import ABORT_FILE, CHECKPOINT_FILE
from apogeemq.store.upkeep.checkpoint import read_checkpoint
from tests.unit.store.conftest import message, tags_code_of
from tests.unit.store.test_message_store import drain

WAIT_SECONDS = 30


class Opener:
    """Opens the store of a test; remembers what its threads said."""

    def __init__(self, config: StoreConfig) -> None:
        self.config = config
        self.root = Path(config.store_path_root_dir)
        self.flushed: Queue[int] = Queue()
        self.failed: Queue[OSError] = Queue()
        self.opened: list[OpenStore] = []

    def __call__(self) -> OpenStore:
        opened = OpenStore.open(self.config, tags_code_of, self.flushed.put, self.failed.put)
        self.opened.append(opened)
        return opened

    def close(self, opened: OpenStore) -> None:
        self.opened.remove(opened)
        opened.close()


@pytest.fixture
def opener(config: StoreConfig) -> Iterator[Opener]:
    config.flush_interval_commit_log = config.flush_interval_consume_queue = 10
    opener = Opener(config)
    yield opener
    for opened in opener.opened:
        opened.close()


def wait_for(condition: Callable[[], bool], opener: Opener) -> None:
    """Until the flush thread has made it true; it speaks up each time."""
    while not condition():
        opener.flushed.get(timeout=WAIT_SECONDS)


def poll(condition: Callable[[], bool]) -> None:
    """Until another thread has made it true; the test's time limit ends it otherwise."""
    while not condition():
        sleep(0.002)


def test_it_is_marked_as_running_until_it_is_closed(opener: Opener) -> None:
    opened = opener()
    assert (opener.root / ABORT_FILE).read_text() == str(os.getpid())
    assert opened.recovered.was_clean
    assert opened.store.why_not_writable() is None
    opener.close(opened)
    assert not (opener.root / ABORT_FILE).exists()
    assert opener().recovered.was_clean


def test_a_folder_has_one_owner_at_a_time(opener: Opener) -> None:
    opened = opener()
    with pytest.raises(StorageFailed, match="in use by another process"):
        opener()
    assert (opener.root / ABORT_FILE).exists()
    opener.close(opened)
    opener()


def test_what_was_put_is_flushed_in_time_and_at_once_for_those_who_ask(opener: Opener) -> None:
    opener.config.flush_interval_commit_log = 3_600_000
    opened = opener()
    put = opened.store.put(message("T", 0, 0), 1000)
    opened.request_flush()
    assert opener.flushed.get(timeout=WAIT_SECONDS) == put.physical_offset + put.size == opened.flushed_offset
    figures = opened.flush_figures
    assert (figures.count, figures.failure_count, sum(figures.counts_by_time)) == (1, 0, 1)
    assert figures.seconds_total == figures.seconds_max > 0


def test_after_close_the_checkpoint_vouches_for_the_last_message(opener: Opener) -> None:
    opened = opener()
    for number in range(500):
        opened.store.put(message("T", number % 3, number), 10_000 + number)
    opener.close(opened)
    checkpoint = read_checkpoint(opener.root / CHECKPOINT_FILE)
    assert (checkpoint.log_time, checkpoint.queue_time, checkpoint.index_time) == (10_499, 10_499, 10_499)
    again = opener()
    assert again.recovered.cut_bytes == 0
    assert drain(again.store, "T", 1) == [b"%d" % number for number in range(1, 500, 3)]
    assert again.store.put(message("T", 0, 0), 0).store_time == 10_499


def test_the_checkpoint_follows_while_it_runs(opener: Opener) -> None:
    opened = opener()
    path = opener.root / CHECKPOINT_FILE
    for time in (10_000, 20_000, 30_000):
        opened.store.put(message("T", 0, time), time)
        poll(lambda safe_time=time - 3000: read_checkpoint(path).safe_index_time == safe_time)  # type: ignore[misc]
        assert opened.store.queue("T", 0).synced_offset == opened.store.queue("T", 0).max_offset


def test_files_of_another_size_are_refused_and_that_is_no_crash(opener: Opener) -> None:
    opened = opener()
    opened.store.put(message("T", 0, 0), 1000)
    opener.close(opened)
    size, opener.config.mapped_file_size_commit_log = opener.config.mapped_file_size_commit_log, 4096
    with pytest.raises(StorageFailed, match="are configured to have 4096"):
        opener()
    opener.config.mapped_file_size_commit_log = size
    assert opener().recovered.was_clean


def test_after_a_failed_flush_nothing_is_written_but_all_is_read(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = opener()
    put = opened.store.put(message("T", 0, 0), 1000)
    wait_for(lambda: opened.flushed_offset == put.physical_offset + put.size, opener)

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    opened.store.put(message("T", 0, 1), 2000)
    assert opener.failed.get(timeout=WAIT_SECONDS).errno == errno.EIO
    assert opened.store.why_not_writable() == "a flush failed: Input/output error"
    assert drain(opened.store, "T", 0) == [b"0", b"1"]
    opener.close(opened)
    assert opener.failed.empty()
    assert (opener.root / ABORT_FILE).exists()
    monkeypatch.undo()
    again = opener()
    assert not again.recovered.was_clean
    assert again.store.why_not_writable() is None
