"""Files of the key index: found again after a clean stop, repaired after a crash."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from apogeemq.store.key_hash import TopicKeys
from apogeemq.store.key_index import KeyIndex
from apogeemq.store.layout import HASHED_KEY, INDEX_HEADER

SLOTS, ITEMS = 50, 400
RECORD = 100  # bytes from one message to the next
FOREVER = 2**62


def put(index: KeyIndex, numbers: range) -> None:
    for number in numbers:
        index.put(TopicKeys("T"), [f"k{number % 60}", f"u{number}"], number * RECORD, 1_000_000 + number * 500)


def found(index: KeyIndex, key: str) -> list[int]:
    """Numbers of the messages that have it, newest first."""
    return [offset // RECORD for offset in index.find("T", key, 0, FOREVER, 1000)]


def knows(index: KeyIndex, numbers: range) -> None:
    for key in range(60):
        assert found(index, f"k{key}") == [number for number in reversed(numbers) if number % 60 == key]
    for number in numbers:
        assert found(index, f"u{number}") == [number]


@pytest.fixture
def index(tmp_path: Path) -> KeyIndex:
    return KeyIndex(tmp_path, SLOTS, ITEMS)


def reopened(index: KeyIndex, *, is_crash: bool = False) -> KeyIndex:
    """As another process finds it. After a crash nobody wrote the last header, but all else is there."""
    headers = {file.path: file.path.read_bytes()[: INDEX_HEADER.size] for file in index.files}
    index.close()
    if is_crash:
        for path, header in headers.items():
            with path.open("r+b") as file:
                file.write(header)
    again = KeyIndex(index.files[0].path.parent, SLOTS, ITEMS)
    again.load()
    return again


def test_it_goes_on_from_file_to_file_after_a_clean_stop(index: KeyIndex) -> None:
    put(index, range(500))
    assert len(index.files) == 3
    knows(index, range(500))
    again = reopened(index)
    assert (again.end_offset, again.end_time) == (499 * RECORD, 1_000_000 + 499 * 500)
    knows(again, range(500))
    put(again, range(500, 900))
    knows(again, range(900))
    again.close()


@pytest.mark.parametrize("count", [1, 100, 199, 200, 450])
@pytest.mark.parametrize("is_synced", [False, True])
def test_after_a_crash_the_items_tell_what_the_header_does_not(index: KeyIndex, count: int, is_synced: bool) -> None:
    put(index, range(count // 2))
    if is_synced:
        index.sync()
    put(index, range(count // 2, count))
    again = reopened(index, is_crash=True)
    assert again.repair(count * RECORD)
    knows(again, range(count))
    put(again, range(count, count + 300))
    knows(again, range(count + 300))
    again.close()


@pytest.mark.parametrize("kept", [0, 1, 30, 200, 330])
@pytest.mark.parametrize("is_crash", [False, True])
def test_what_the_log_lost_is_forgotten(index: KeyIndex, kept: int, is_crash: bool) -> None:
    put(index, range(350))
    again = reopened(index, is_crash=is_crash)
    if is_crash:
        assert again.repair(kept * RECORD)
    else:
        again.cut(kept * RECORD)
    knows(again, range(kept))
    assert again.end_offset == (kept - 1) * RECORD if kept else -1
    put(again, range(kept, 500))
    knows(again, range(500))
    third = reopened(again, is_crash=True)
    assert third.repair(FOREVER)
    knows(third, range(500))
    third.close()


def test_slots_that_never_reached_the_disk_are_made_again(index: KeyIndex) -> None:
    put(index, range(150))
    again = reopened(index)
    with again.files[0].path.open("r+b") as file:
        file.seek(INDEX_HEADER.size)
        file.write(os.urandom(SLOTS * 4))
    assert again.repair(120 * RECORD)
    knows(again, range(120))
    again.close()


def test_items_that_were_synced_and_are_torn_are_told(index: KeyIndex) -> None:
    put(index, range(350))
    again = reopened(index)
    with again.files[0].path.open("r+b") as file:
        file.seek(INDEX_HEADER.size + SLOTS * 4 + 101 * 20)  # the first key of message 50
        file.write(bytes(1000))
    again.files[0].next_item -= 1  # else it would be full, and not looked at
    assert not again.repair(340 * RECORD)
    assert again.end_offset == 49 * RECORD
    put(again, range(50, 400))
    knows(again, range(400))
    again.close()


def test_a_file_of_other_settings_is_given_up(index: KeyIndex, tmp_path: Path) -> None:
    put(index, range(10))
    index.close()
    other = KeyIndex(tmp_path, SLOTS * 2, ITEMS)
    other.load()
    assert other.files == []
    assert list(tmp_path.iterdir()) == []


def test_the_header_is_apaches(index: KeyIndex) -> None:
    put(index, range(10))
    index.close()
    header = INDEX_HEADER.unpack_from(index.files[0].path.read_bytes())
    begin_time, end_time, begin_offset, end_offset, used_slots, next_item = header
    assert (begin_time, end_time, begin_offset, end_offset) == (1_000_000, 1_004_500, 0, 900)
    assert (used_slots, next_item) == (used_slots, 21)
    assert 0 < used_slots <= 20


def files_of(folder: Path, *, many: bool, slots: bytes) -> list[bytes]:
    """After 30 times 40 keys, at once or each alone; the first file began with `slots`."""
    index = KeyIndex(folder, SLOTS, ITEMS)
    index.put(TopicKeys("T"), ["first"], 0, 1000)
    index.files[0].mapped.map()[INDEX_HEADER.size : INDEX_HEADER.size + len(slots)] = slots
    for start in range(1, 1201, 40):
        numbers = range(start, start + 40)
        if many:
            hashed_keys = [HASHED_KEY.pack(TopicKeys("T").hash(f"u{number}"), number * RECORD) for number in numbers]
            index.put_many(b"".join(hashed_keys), 1000 + start)
        else:
            for number in numbers:
                index.put(TopicKeys("T"), [f"u{number}"], number * RECORD, 1000 + start)
    index.close()
    return [file.path.read_bytes() for file in index.files]


@pytest.mark.parametrize("slots", [b"", bytes(range(56, 256)), b"\xff" * (SLOTS * 4)], ids=["whole", "odd", "all ones"])
def test_many_at_once_are_the_same_as_each_alone(tmp_path: Path, slots: bytes) -> None:
    at_once = files_of(tmp_path / "many", many=True, slots=slots)
    assert len(at_once) == 4
    assert at_once == files_of(tmp_path / "single", many=False, slots=slots)
