"""Old files go when their time is over or the disk fills; queues and index follow the log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep

import pytest

from apogeemq.store.config import StoreConfig
from apogeemq.store.opening import OpenStore
from apogeemq.store.results import GetStatus
from apogeemq.store.upkeep import cleaning
from tests.unit.store.conftest import message, tags_code_of
from tests.unit.store.test_message_store import drain

DAY_MS = 24 * 3_600_000
NOW = 1_800_000_000_000
NEVER, NOW_HOUR = 4, 12


@pytest.fixture
def opened(config: StoreConfig) -> Iterator[OpenStore]:
    config.flush_interval_commit_log = config.flush_interval_consume_queue = 5
    config.delete_when = f"{NOW_HOUR:02}"
    opened = OpenStore.open(config, tags_code_of, lambda offset: None, lambda error: None)
    yield opened
    opened.close()


def fill(opened: OpenStore, count: int = 2000) -> None:
    """Messages of topic T in two queues, and before them some of topic `old`; all log files look a day old."""
    for number in range(50):
        opened.store.put(message("old", 0, number), 1000 + number)
    for number in range(count):
        opened.store.put(message("T", number % 2, number), 2000 + number)
    for path in (opened.store.root / "commitlog").iterdir():
        os.utime(path, ns=(0, (NOW - DAY_MS) * 1_000_000))
    opened.request_flush()
    while opened.flushed_offset < opened.store.log.max_offset:
        sleep(0.002)


def clean_until(opened: OpenStore, condition: Callable[[], bool]) -> None:
    """The upkeep thread finds the queues' new beginnings and deletes; the round after that drops the queues' files."""
    while not condition():
        sleep(0.002)
        opened.clean(NOW, NEVER)


def file_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def use_disk(monkeypatch: pytest.MonkeyPatch, percent: float) -> None:
    """The machine's own disk is what it is; its figures are given instead."""
    monkeypatch.setattr(cleaning, "used_percent", lambda folder: percent)


def test_at_the_hour_files_past_their_time_go_and_all_else_follows(
    opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_disk(monkeypatch, 10)
    opened.store.config.file_reserved_time = 24
    fill(opened)
    store, root = opened.store, opened.store.root
    files = file_names(root / "commitlog")
    index_files = file_names(root / "index")
    os.utime(root / "commitlog" / files[-2], ns=(0, NOW * 1_000_000))
    opened.clean(NOW, NEVER)
    assert store.log.min_offset == 0

    opened.clean(NOW, NOW_HOUR)
    clean_until(opened, lambda: file_names(root / "commitlog") == files[-2:])
    clean_until(opened, lambda: file_names(root / "index")[0] > index_files[0])
    assert store.log.min_offset == int(files[-2])
    first = store.queue("T", 0).min_offset
    assert drain(store, "T", 0) == [b"%d" % number for number in range(2 * first, 2000, 2)]
    assert store.get("T", 0, 0, 32, 1000).status is GetStatus.OFFSET_TOO_SMALL
    assert int(file_names(root / "consumequeue" / "T" / "0")[0]) == first * 20 // 2000 * 2000
    assert store.queue("old", 0).min_offset == store.queue("old", 0).max_offset == 50
    assert store.find_by_key("T", "k0", 0, 2**62, 9) == []
    assert len(store.find_by_key("T", "k1999", 0, 2**62, 9)) == 1
    assert opened.deleted_file_count > len(files) - 2


def test_the_flusher_never_loses_a_file_from_under_it(opened: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    use_disk(monkeypatch, 88)
    for number in range(3000):
        opened.store.put(message("T", 0, number, body=bytes(500)), number)
        if number % 10 == 0:
            opened.clean(NOW, NEVER)
    assert opened.store.log.min_offset > 0
    assert opened.store.flush_error is None


def test_a_tight_disk_deletes_at_any_hour_and_a_full_one_whatever_the_age(
    opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(opened)
    files = opened.store.log.files.files
    size = files[0].size
    use_disk(monkeypatch, 80)
    opened.clean(NOW, NEVER)
    assert opened.store.log.min_offset == 0  # 72 hours are not over
    use_disk(monkeypatch, 86)
    opened.clean(NOW, NEVER)
    assert opened.store.log.min_offset == size
    assert opened.store.why_not_writable() is None
    use_disk(monkeypatch, 91)
    opened.clean(NOW, NEVER)
    assert opened.store.log.min_offset == 2 * size
    assert opened.store.why_not_writable() == "CL:  0.91 CQ:  0.91 INDEX:  0.91"
    opened.store.config.clean_file_forcibly_enable = False
    opened.clean(NOW, NEVER)
    assert opened.store.log.min_offset == 2 * size
    opened.store.config.file_reserved_time = 1
    use_disk(monkeypatch, 80)
    opened.clean(NOW, NEVER)
    assert opened.store.log.min_offset == files[-1].start
    assert opened.store.why_not_writable() is None


def test_a_person_may_ask_at_any_hour(opened: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    use_disk(monkeypatch, 10)
    opened.store.config.file_reserved_time = 23
    opened.store.config.delete_file_batch_max = 2
    fill(opened)
    opened.delete_expired_log(NOW)
    size = opened.store.log.files.file_size
    assert opened.store.log.min_offset == 2 * size
    opened.clean(NOW, NEVER)
    assert opened.store.log.min_offset == 4 * size


def test_queues_without_a_message_are_deleted_when_asked_for(
    opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_disk(monkeypatch, 86)
    fill(opened)
    opened.delete_expired_queues(lambda topic: False)
    assert ("old", 0) in opened.store.queues
    opened.clean(NOW, NEVER)
    opened.delete_expired_queues(lambda topic: topic == "old")
    assert ("old", 0) in opened.store.queues
    opened.delete_expired_queues(lambda topic: False)
    assert sorted(opened.store.queues) == [("T", 0), ("T", 1)]
    assert file_names(opened.store.root / "consumequeue") == ["T"]
    assert opened.store.put(message("old", 0, 0), 0).queue_offset == 0


def test_used_space_is_asked_of_the_disk_a_folder_will_be_on(tmp_path: Path) -> None:
    assert 0 < cleaning.used_percent(tmp_path / "not" / "there") < 100
