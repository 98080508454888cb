"""The route journal: lines, numbers, rotation, repair, reading, and a disk that is full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apogeemq.errors import StorageFailed
from apogeemq.model.routes import QueueSettings
from apogeemq.nameserver import changes
from apogeemq.nameserver.changes import Change
from apogeemq.nameserver.journal import MAX_READ_BYTES, Journal, JournalPage
from tests.unit.disk import file_size_limit

TIME_MS = 1_700_000_000_000


def joined(number: int = 0) -> Change:
    return Change(changes.BROKER_JOINED, "registered", "c", f"broker-{number}", 0, f"10.0.0.{number}:10911")


def opened(folder: Path, *, file_size: int = 10_000, files: int = 3, next_sequence: int = 1) -> Journal:
    return Journal(folder, file_size, files, next_sequence)


def lines(page: JournalPage) -> list[dict[str, Any]]:
    return [json.loads(line) for line in page.lines.splitlines()]


def numbers(page: JournalPage) -> list[int]:
    return [line["seq"] for line in lines(page)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_line_says_what_happened_and_leaves_out_what_means_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    added = Change(changes.TOPIC_ADDED, "registered", "c", "b", topic="T", queues=QueueSettings(8, 4, 6, 1))
    wiped = Change(changes.WRITE_PERMISSION_WIPED, "asked for", "c", "b", topic_count=3)
    journal.append([joined(), added, wiped], TIME_MS)
    start = f'"time":{TIME_MS},"kind"'
    assert journal.read(1, 10).lines.decode().splitlines() == [
        f'{{"seq":1,{start}:"broker_joined","cause":"registered","cluster":"c","broker":"broker-0",'
        '"brokerId":0,"address":"10.0.0.0:10911"}',
        f'{{"seq":2,{start}:"topic_added","cause":"registered","cluster":"c","broker":"b",'
        '"topic":"T","readQueues":8,"writeQueues":4,"perm":6,"sysFlag":1}',
        f'{{"seq":3,{start}:"write_permission_wiped","cause":"asked for","cluster":"c","broker":"b","topicCount":3}}',
    ]


def test_file_is_named_after_its_first_number(tmp_path: Path) -> None:
    journal = opened(tmp_path, next_sequence=42)
    assert names(tmp_path) == []  # nothing happened yet
    journal.append([joined()], TIME_MS)
    assert names(tmp_path) == ["routes-00000000000000000042.jsonl"]


def test_no_change_writes_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.append([], TIME_MS)
    assert (names(tmp_path), journal.next_sequence, journal.last_sequence) == ([], 1, 0)


def test_files_rotate_by_size_and_the_oldest_go(tmp_path: Path) -> None:
    journal = opened(tmp_path, file_size=400, files=3)
    for number in range(20):
        journal.append([joined(number)], TIME_MS)
    assert len(names(tmp_path)) == 3
    assert all(path.stat().st_size <= 400 for path in tmp_path.iterdir())
    assert journal.last_sequence == 20
    found = numbers(journal.read(1, 100))
    assert found == list(range(journal.first_sequence, 21))
    assert found[0] > 1


def test_one_batch_larger_than_a_file_stays_together(tmp_path: Path) -> None:
    journal = opened(tmp_path, file_size=400)
    journal.append([joined(number) for number in range(20)], TIME_MS)
    journal.append([joined()], TIME_MS)
    assert names(tmp_path) == ["routes-00000000000000000001.jsonl", "routes-00000000000000000021.jsonl"]
    assert numbers(journal.read(1, 100)) == list(range(1, 22))


def test_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.append([joined(), joined()], TIME_MS)
    first.close()
    second = opened(tmp_path)
    assert second.next_sequence == 3
    second.append([joined()], TIME_MS)
    assert numbers(second.read(1, 10)) == [1, 2, 3]
    assert len(names(tmp_path)) == 1


def test_numbers_go_on_after_the_files_were_lost(tmp_path: Path) -> None:
    """The snapshot knows the last number, too."""
    assert opened(tmp_path, next_sequence=100).next_sequence == 100


def test_file_knows_better_than_an_old_snapshot(tmp_path: Path) -> None:
    opened(tmp_path, next_sequence=50).append([joined()], TIME_MS)
    assert opened(tmp_path, next_sequence=10).next_sequence == 51


@pytest.mark.parametrize("torn", [b'{"seq":3,"ti', b"\x00\x00\x00", b'{"seq":3,"ti\n', b"garbage\n\nmore\n", b"\n"])
def test_torn_tail_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    first = opened(tmp_path)
    first.append([joined(), joined()], TIME_MS)
    first.close()
    path = next(tmp_path.iterdir())
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    second = opened(tmp_path)
    assert path.read_bytes() == whole
    second.append([joined()], TIME_MS)
    assert numbers(second.read(1, 10)) == [1, 2, 3]


def test_file_of_nothing_but_a_torn_line_still_gives_its_number(tmp_path: Path) -> None:
    (tmp_path / "routes-00000000000000000007.jsonl").write_bytes(b'{"seq":7')
    journal = opened(tmp_path)
    assert journal.next_sequence == 7
    journal.append([joined()], TIME_MS)
    assert numbers(journal.read(1, 10)) == [7]


def test_folder_that_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match="route journal"):
        opened(tmp_path / "file" / "journal")


def test_foreign_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "routes-copy.jsonl").write_text("a person's own")
    journal = opened(tmp_path, file_size=200, files=1)
    for number in range(10):
        journal.append([joined(number)], TIME_MS)
    assert (tmp_path / "routes-copy.jsonl").read_text() == "a person's own"
    assert numbers(journal.read(1, 100))[-1] == 10


# -- reading -------------------------------------------------------------------------------------------------


def test_read_from_a_number_across_files_in_pages(tmp_path: Path) -> None:
    journal = opened(tmp_path, file_size=700, files=100)
    for number in range(40):
        journal.append([joined(number)], TIME_MS)
    assert len(names(tmp_path)) > 5
    found: list[int] = []
    start = 8
    while (page := journal.read(start, 7)).lines:
        assert len(numbers(page)) <= 7
        found += numbers(page)
        start = page.next_sequence
    assert found == list(range(8, 41))
    assert start == 41


def test_read_in_a_large_file_from_every_place(tmp_path: Path) -> None:
    journal = opened(tmp_path, file_size=10_000_000)
    for start in range(0, 5_000, 50):
        journal.append([joined(start + number) for number in range(50)], TIME_MS)
    for first in (1, 2, 999, 1_000, 1_001, 2_345, 5_000):
        assert numbers(journal.read(first, 3)) == [number for number in range(first, first + 3) if number <= 5_000]


def test_reading_beyond_the_end_or_nothing_at_all_gives_no_lines(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    assert journal.read(1, 10) == JournalPage(b"", 1)
    journal.append([joined()], TIME_MS)
    assert journal.read(2, 10) == JournalPage(b"", 2)
    assert journal.read(9, 10).lines == b""


def test_page_is_bounded_in_bytes_but_never_empty(tmp_path: Path) -> None:
    journal = opened(tmp_path, file_size=100_000_000)
    name = "T" * (MAX_READ_BYTES // 2)
    huge = "H" * (MAX_READ_BYTES * 2)
    for topic in (name, name, huge, "small"):
        journal.append([Change(changes.TOPIC_ADDED, "registered", "c", "b", topic=topic)], TIME_MS)
    pages = []
    start = 1
    while (page := journal.read(start, 10)).lines:
        pages.append(numbers(page))
        start = page.next_sequence
    assert pages == [[1], [2], [3], [4]]


def test_half_a_line_being_written_is_not_read(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.append([joined()], TIME_MS)
    with next(tmp_path.iterdir()).open("ab") as file:
        file.write(b'{"seq":2,"time":17')
    assert numbers(journal.read(1, 10)) == [1]


def test_file_that_vanished_is_skipped(tmp_path: Path) -> None:
    journal = opened(tmp_path, file_size=200, files=10)
    for number in range(6):
        journal.append([joined(number)], TIME_MS)
    (tmp_path / names(tmp_path)[1]).unlink()
    found = numbers(journal.read(1, 100))
    assert found[0] == 1
    assert found[-1] == 6


# -- a full disk ---------------------------------------------------------------------------------------------


def test_full_disk_is_counted_and_never_raised(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.append([joined()], TIME_MS)
    size = next(tmp_path.iterdir()).stat().st_size
    for limit in (size, size + 10):  # no room at all, and room for a part of a line
        with file_size_limit(limit):
            journal.append([joined()], TIME_MS)
    assert journal.failure_count == 2
    assert next(tmp_path.iterdir()).stat().st_size == size
    journal.append([joined()], TIME_MS)
    assert numbers(journal.read(1, 10)) == [1, 4]  # a reader sees the gap


def test_history_survives_a_disk_that_is_full_for_long(tmp_path: Path) -> None:
    """Files that could not be made do not push out those that were."""
    journal = opened(tmp_path, file_size=200, files=4)
    for number in range(4):
        journal.append([joined(number)], TIME_MS)
    before = names(tmp_path)
    tmp_path.rename(tmp_path.with_suffix(".away"))  # no new file can be made
    for _ in range(20):
        journal.append([joined()], TIME_MS)
    assert journal.failure_count == 20
    tmp_path.with_suffix(".away").rename(tmp_path)
    journal.append([joined()], TIME_MS)
    assert len(set(before) & set(names(tmp_path))) >= 3
    assert numbers(journal.read(1, 100))[-1] == 25


def test_closed_journal_opens_again_when_written(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.append([joined()], TIME_MS)
    journal.close()
    journal.close()
    journal.append([joined()], TIME_MS)
    assert numbers(journal.read(1, 10)) == [1, 2]
