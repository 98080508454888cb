"""Which log files have had their time."""

from __future__ import annotations

from apogeemq.store.upkeep.retention import HOUR_MS, DiskUse, LogFileAge, files_to_delete, is_delete_hour

NOW = 1000 * HOUR_MS
FILES = [LogFileAge(start, NOW - age * HOUR_MS) for start, age in ((0, 100), (10, 80), (20, 60), (30, 1))]
EASY, TIGHT, FORCED, FULL = DiskUse(10), DiskUse(80), DiskUse(86), DiskUse(95)


def test_at_the_hour_files_past_their_time_go() -> None:
    assert files_to_delete(FILES, NOW, 72, EASY, is_due=True) == [0, 10]
    assert files_to_delete(FILES, NOW, 72, EASY, is_due=False) == []


def test_a_tight_disk_does_not_wait_for_the_hour() -> None:
    assert files_to_delete(FILES, NOW, 72, TIGHT, is_due=False) == [0, 10]
    assert files_to_delete(FILES, NOW, 200, TIGHT, is_due=False) == []


def test_a_disk_about_to_be_full_gives_up_the_oldest_file_whatever_its_age() -> None:
    assert files_to_delete(FILES, NOW, 200, FORCED, is_due=False) == [0]
    assert files_to_delete(FILES, NOW, 200, FORCED._replace(max_percent=99), is_due=False) == [0]
    assert FULL.is_full
    assert not FORCED.is_full


def test_the_last_file_always_stays() -> None:
    assert files_to_delete(FILES[:1], NOW, 1, FULL, is_due=True) == []


def test_there_is_never_a_gap() -> None:
    touched = [FILES[0], LogFileAge(10, NOW), FILES[2], FILES[3]]
    assert files_to_delete(touched, NOW, 50, EASY, is_due=True) == [0]


def test_hours_are_listed() -> None:
    assert [hour for hour in range(24) if is_delete_hour("04;16", hour)] == [4, 16]
