"""What was appended becomes durable, and a flush that fails is said."""

from __future__ import annotations

import shutil
from pathlib import Path
from queue import Queue

from apogeemq.store.commit_log import CommitLog
from apogeemq.store.upkeep.flush import LogFlusher

WAIT_SECONDS = 30


def append(commit_log: CommitLog, data: bytes) -> int:
    commit_log.claim(len(data))
    commit_log.put(data)
    return commit_log.max_offset


def test_those_who_wait_are_told_how_far_the_disk_has_it(tmp_path: Path) -> None:
    commit_log, flushed = CommitLog(tmp_path, 64 * 1024), Queue[int]()
    flusher = LogFlusher(commit_log, 1000, flushed.put, lambda error: None)
    flusher.start()
    first = append(commit_log, bytes(1000))
    flusher.request()
    assert flushed.get(timeout=WAIT_SECONDS) == first == commit_log.flushed_offset
    last = append(commit_log, bytes(60_000)) and append(commit_log, bytes(60_000))
    flusher.stop()
    assert flushed.get(timeout=WAIT_SECONDS) == last
    commit_log.close()


def test_a_flush_that_fails_is_said_and_nothing_is_called_durable_after_it(tmp_path: Path) -> None:
    commit_log, flushed, failed = CommitLog(tmp_path / "log", 64 * 1024), Queue[int](), Queue[OSError]()
    flusher = LogFlusher(commit_log, 1000, flushed.put, failed.put)
    append(commit_log, bytes(1000))
    shutil.rmtree(tmp_path / "log")
    flusher.start()
    flusher.request()
    assert isinstance(failed.get(timeout=WAIT_SECONDS), FileNotFoundError)
    flusher.stop()
    assert flushed.empty()
    assert commit_log.flushed_offset == 0
