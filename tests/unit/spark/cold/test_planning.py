from __future__ import annotations

import os
from pathlib import Path

import pytest

from apogeemq.spark.cold import index_starts
from apogeemq.spark.cold.folder import index_files
from apogeemq.spark.cold.index_starts import starts_near
from apogeemq.spark.cold.planning import (
    CLOCK_SLACK_MS,
    LogFile,
    Piece,
    breaks,
    cut,
    in_time,
    joined,
    packed,
    split_targets,
)
from apogeemq.spark.cold.wanted import Wanted
from apogeemq.store.layout import INDEX_FILE_SIZE
from tests.unit.spark.cold.conftest import LOG_FILE_SIZE, Filled, numbers, reader_of, scan


def file(start: int, size: int = 100) -> LogFile:
    return LogFile("store/commitlog", f"{start:020d}", start, size)


def test_what_is_in_a_folder_is_reached_as_the_folder_is() -> None:
    assert joined("/store/", "commitlog") == "/store/commitlog"
    assert joined("s3://bucket/store", "commitlog") == "s3://bucket/store/commitlog"
    assert joined("s3://b/store/?region=eu&scheme=http", "index") == "s3://b/store/index?region=eu&scheme=http"
    assert joined("/what?", "index") == "/what?/index"
    assert str(LogFile("s3://b/log?scheme=http", "0", 0, 1)) == "s3://b/log/0?scheme=http"


def test_files_follow_each_other() -> None:
    assert breaks([file(100), file(200), file(300)]) == []
    (problem,) = breaks([file(100), file(300)])
    assert problem.startswith(f"store/commitlog/{300:020d} does not follow")


def test_targets_divide_files_evenly() -> None:
    assert split_targets([file(100), file(200)], 100) == []
    assert split_targets([file(100)], 40) == [133, 166]
    assert split_targets([file(100, 10)], 1_000) == []


def test_pieces_cover_everything_once() -> None:
    one, two = file(100), file(200)
    assert cut([one, two], [150, 220, 220, 100, 300, 7]) == [
        Piece(one, 100, 150, False),
        Piece(one, 150, 200, False),
        Piece(two, 200, 220, False),
        Piece(two, 220, 300, True),
    ]
    assert cut([], []) == []


def test_small_neighbours_share_a_task() -> None:
    pieces = cut([file(start) for start in range(0, 500, 100)], [])
    assert [len(task) for task in packed(pieces, 250)] == [2, 2, 1]
    assert [len(task) for task in packed(pieces, 1)] == [1, 1, 1, 1, 1]
    assert packed([], 10) == []


def test_pieces_of_other_times_are_left_out() -> None:
    hour = 3_600_000
    assert hour > 2 * CLOCK_SLACK_MS
    pieces = cut([file(start) for start in range(0, 500, 100)], [])
    times = {0: 0, 100: hour, 200: 2 * hour, 300: 3 * hour}  # nothing is known of the last

    def kept(start: int | None, end: int | None) -> list[int]:
        return [piece.start for piece in in_time(pieces, times, Wanted(start_ms=start, end_ms=end))]

    assert kept(None, None) == [0, 100, 200, 300, 400]
    assert kept(hour + hour // 2, 2 * hour - hour // 3) == [100, 400]
    assert kept(None, hour // 2) == [0, 400]
    assert kept(9 * hour, None) == [300, 400]
    # A clock that was set back by some minutes loses nothing.
    assert kept(hour + CLOCK_SLACK_MS // 2, hour + CLOCK_SLACK_MS) == [0, 100, 400]


def test_a_file_is_cut_where_the_index_says_that_records_begin(tmp_path: Path) -> None:
    filled = Filled(tmp_path / "store", has_usual_index=True)
    filled.fill("Orders", 2000)
    filled.close()
    path = str(filled.root)
    (index,) = (filled.root / "index").iterdir()
    assert index.stat().st_size == INDEX_FILE_SIZE
    (start,) = starts_near(path, [LOG_FILE_SIZE // 2])
    assert LOG_FILE_SIZE // 2 <= start < LOG_FILE_SIZE // 2 + 500
    assert starts_near(path, [10 * LOG_FILE_SIZE]) == []

    partitions = reader_of(path, maxBytesPerPartition=LOG_FILE_SIZE // 8).partitions()
    assert len(partitions) > 2 * len(filled.store.log.files.files)
    assert numbers(scan(path, maxBytesPerPartition=LOG_FILE_SIZE // 8)) == list(range(2000))


def test_an_index_that_is_deleted_after_it_was_listed_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled = Filled(tmp_path / "store", has_usual_index=True)
    filled.fill("Orders", 500)
    filled.close()
    (index,) = (filled.root / "index").iterdir()

    def listed(path: str) -> list[tuple[str, str, int]]:
        found = index_files(path)
        index.unlink()
        return found

    monkeypatch.setattr(index_starts, "index_files", listed)
    partitions = reader_of(filled.root, maxBytesPerPartition=8_000).partitions()
    assert not index.exists()
    assert len(partitions) == len(filled.store.log.files.files)


def test_an_index_that_is_wrong_costs_no_message(tmp_path: Path) -> None:
    filled = Filled(tmp_path / "store", has_usual_index=True)
    filled.fill("Orders", 500)
    filled.close()
    (index,) = (filled.root / "index").iterdir()
    with index.open("r+b") as file:
        file.seek(20_000_040)
        items = bytearray(file.read(20 * 1000))
        for item in range(len(items) // 20):
            items[item * 20 + 11] ^= 1  # the last byte of the offset
        file.seek(20_000_040)
        file.write(items)
    assert numbers(scan(filled.root, maxBytesPerPartition=8_000)) == list(range(500))
    os.truncate(index, 1_000)
    assert numbers(scan(filled.root, maxBytesPerPartition=8_000)) == list(range(500))
