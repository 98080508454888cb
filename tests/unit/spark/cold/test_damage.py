"""Torn ends are ends, damage is an error or passed over, and nothing that is whole is lost."""

from __future__ import annotations

import contextlib
import logging
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from apogeemq.errors import StorageFailed
from apogeemq.protocol.record import decode_head
from apogeemq.spark.cold import piece_scan
from apogeemq.spark.cold.piece_scan import PieceScan
from apogeemq.spark.cold.planning import LogFile, Piece
from tests.unit.spark.cold.conftest import LOG_FILE_SIZE, STORED_MS, Filled, numbers, scan

COUNT = 1500


@pytest.fixture
def full(filled: Filled) -> Filled:
    """Several files; the broker has ended."""
    filled.fill("Orders", COUNT)
    filled.close()
    return filled


def offsets_of(path: Path) -> list[int]:
    """Where in a file records begin, and the end of the last."""
    data, found = path.read_bytes(), [0]
    while any(data[found[-1] : found[-1] + 8]) and data[found[-1] + 4 : found[-1] + 8] != b"\xcb\xd4\x31\x94":
        found.append(found[-1] + decode_head(data, found[-1]).size)
    return found


def overwrite(path: Path, position: int, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    os.pwrite(descriptor, data, position)
    os.close(descriptor)


def last_file(folder: Filled) -> Path:
    used = [path for path in (folder.root / "commitlog").iterdir() if any(path.read_bytes()[:8])]
    return max(used)


# -- the end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [1, 7, 40, 100, -1])
@pytest.mark.parametrize("checks_crc", [True, False])
def test_a_record_that_was_cut_off_by_a_crash_is_not_there(full: Filled, kept: int, checks_crc: bool) -> None:
    path = last_file(full)
    *_, start, end = offsets_of(path)
    written = kept if kept > 0 else end - start - 1
    overwrite(path, start + written, bytes(end - start - written))
    assert numbers(scan(full.root, checkCrc=checks_crc)) == list(range(COUNT - 1))


def test_a_torn_record_in_front_of_a_made_but_unused_file_is_not_there(full: Filled) -> None:
    path = last_file(full)
    *_, start, end = offsets_of(path)
    overwrite(path, start + 50, bytes(end - start - 50))
    unused = path.parent / f"{int(path.name) + LOG_FILE_SIZE:020d}"
    unused.write_bytes(bytes(LOG_FILE_SIZE))
    assert numbers(scan(full.root)) == list(range(COUNT - 1))


def test_old_records_behind_the_end_do_not_come_back(full: Filled, tmp_path: Path) -> None:
    """A broker that cuts its log does not erase what it cuts off."""
    path = last_file(full)
    offsets = offsets_of(path)
    data, at = path.read_bytes(), offsets[-5]
    newer = Filled(tmp_path / "newer")
    newer.fill("Orders", 3)
    record = newer.log_file().read_bytes()[: offsets_of(newer.log_file())[1]]
    newer.close()
    physical = int(path.name) + at
    record = record[:28] + physical.to_bytes(8) + record[36:56] + (STORED_MS + 10**6).to_bytes(8) + record[64:]
    overwrite(path, at, record[: len(record)])
    overwrite(path, at + len(record), b"\x01\x02\x03" + data[at + len(record) + 3 : at + len(record) + 20])
    assert numbers(scan(full.root)) == [*range(COUNT - 4), 0]


def test_a_file_that_was_copied_in_part_ends_where_it_ends(full: Filled) -> None:
    path = last_file(full)
    os.truncate(path, offsets_of(path)[-3] + 20)
    assert numbers(scan(full.root)) == list(range(COUNT - 2))


def test_a_file_that_was_copied_in_part_in_the_middle_of_a_log_is_damage(full: Filled) -> None:
    path = full.log_file(1)
    os.truncate(path, offsets_of(path)[-3] + 20)
    with pytest.raises(StorageFailed, match="a file is missing or has been cut"):
        scan(full.root)
    assert len(scan(full.root, onCorrupt="skip")) == COUNT - 2


# -- damage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("rubbish", [bytes(20), b"\xff" * 20], ids=["zeros", "ones"])
def test_damage_is_an_error_or_passed_over(
    full: Filled, number: int, rubbish: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = last_file(full) if number == -1 else full.log_file(number)
    offsets = offsets_of(path)
    broken = offsets[3]
    overwrite(path, broken, rubbish)
    start, end = int(path.name) + broken, int(path.name) + offsets[4]
    with pytest.raises(StorageFailed, match=f"{path} is damaged: there are no records from offset {start} to {end}"):
        scan(full.root)
    with caplog.at_level(logging.WARNING):
        rows = scan(full.root, onCorrupt="skip")
    assert len(rows) == COUNT - 1 == len(set(numbers(rows)))
    assert f"from offset {start} to {end}" in caplog.text
    assert f"passed over {end - start} bytes" in caplog.text


def test_damage_up_to_the_end_of_a_file_costs_the_rest_of_it(full: Filled) -> None:
    path = full.log_file(0)
    offsets = offsets_of(path)
    overwrite(path, offsets[-10], b"\x00" * (LOG_FILE_SIZE - offsets[-10]))
    with pytest.raises(StorageFailed, match=f"from offset {offsets[-10]} to {LOG_FILE_SIZE}"):
        scan(full.root)
    assert len(scan(full.root, onCorrupt="skip")) == COUNT - 9


def test_a_body_that_is_not_what_was_stored_is_damage(full: Filled, caplog: pytest.LogCaptureFixture) -> None:
    path = full.log_file(1)
    offset = offsets_of(path)[2]
    overwrite(path, offset + 88, b"#")
    physical = int(path.name) + offset
    with pytest.raises(StorageFailed, match=f"the message at offset {physical} is not what was stored"):
        scan(full.root)
    assert len(scan(full.root, onCorrupt="skip")) == COUNT - 1
    assert "1 damaged messages" in caplog.text
    assert len(scan(full.root, checkCrc=False)) == COUNT
    assert len(scan(full.root, includeBody=False)) == COUNT  # nobody looks at it


@pytest.mark.parametrize("topic", [b"Or\x00ers", b"Or\x1bers", b"Or\xffers", b"      "])
def test_a_topic_that_cannot_be_is_damage(full: Filled, topic: bytes) -> None:
    path = full.log_file(0)
    data, offset = path.read_bytes(), offsets_of(path)[5]
    overwrite(path, data.index(b"Orders", offset), topic)
    with pytest.raises(StorageFailed, match=f"the message at offset {offset} is not what was stored"):
        scan(full.root)
    assert len(scan(full.root, onCorrupt="skip")) == COUNT - 1


@pytest.mark.parametrize("is_last", [False, True])
def test_topics_that_brokers_name_are_no_damage(filled: Filled, is_last: bool) -> None:
    """Nobody else may give such names; at the end of a log they do not mean that the record is torn."""
    filled.put("%RETRY%billing+orders", 0)
    filled.put("%RETRY%billing+commandes-reçues", 1)
    if not is_last:
        filled.fill("orders", 3)
    assert len(scan(filled.root)) == (2 if is_last else 5)
    assert len(scan(filled.root, topics="%RETRY%billing+orders")) == 1


def test_a_record_elsewhere_than_it_says_is_damage(full: Filled) -> None:
    path = full.log_file(0)
    offset = offsets_of(path)[5]
    overwrite(path, offset + 28, (12345).to_bytes(8))
    with pytest.raises(StorageFailed, match=f"no records from offset {offset}"):
        scan(full.root)
    assert len(scan(full.root, onCorrupt="skip")) == COUNT - 1


def test_a_wrong_size_does_not_make_it_read_everything_at_once(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_scan, "CHUNK_SIZE", 1000)
    filled.fill("Orders", 100)
    path = filled.log_file()
    overwrite(path, offsets_of(path)[50], (500_000).to_bytes(4))
    sizes: list[int] = []
    log = GrowingLog(path.read_bytes().ljust(1_000_000, b"\0"), lambda _: None)

    def read(offset: int, length: int) -> bytes:
        sizes.append(length)
        return log.read(offset, length)

    file = LogFile("memory", path.name, 0, len(log.data))
    scanned = PieceScan(Piece(file, 0, len(log.data), True), read, skips_damage=True)
    assert sum(map(len, scanned.chunks())) == 99
    assert max(sizes) < 3000


def test_a_missing_file_is_an_error_or_passed_over(full: Filled) -> None:
    path = full.log_file(1)
    count = len(offsets_of(path)) - 1
    path.unlink()
    with pytest.raises(StorageFailed, match="does not follow"):
        scan(full.root)
    assert len(scan(full.root, onCorrupt="skip")) == COUNT - count


def test_files_that_expired_at_the_beginning_are_not_missed(full: Filled) -> None:
    path = full.log_file(0)
    count = len(offsets_of(path)) - 1
    path.unlink()
    assert numbers(scan(full.root)) == list(range(count, COUNT))


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_are_read_or_are_one_error(full: Filled, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(dice.randrange(1, 6)):
        path = full.log_file(dice.randrange(4))
        overwrite(path, dice.randrange(LOG_FILE_SIZE - 300), dice.randbytes(dice.randrange(1, 300)))
    with contextlib.suppress(StorageFailed):
        assert len(scan(full.root)) <= COUNT
    assert len(scan(full.root, onCorrupt="skip")) > COUNT // 2


# -- a broker that is writing --------------------------------------------------------------------------------


class GrowingLog:
    """A log of one file in memory; `on_read` may write before each read."""

    def __init__(self, data: bytes, on_read: Callable[[GrowingLog], None]) -> None:
        self.data = bytearray(data)
        self.reads = 0
        self._on_read = on_read

    def read(self, offset: int, length: int) -> bytes:
        self.reads += 1
        self._on_read(self)
        return bytes(self.data[offset : offset + length])

    def scan(self) -> int:
        """How many records there are."""
        file = LogFile("memory", f"{0:020d}", 0, len(self.data))
        piece = Piece(file, 0, len(self.data), True)
        return sum(map(len, PieceScan(piece, self.read, skips_damage=False).chunks()))


def test_what_is_being_written_is_not_damage(filled: Filled) -> None:
    filled.fill("Orders", 50)
    path = filled.log_file()
    data, offsets = path.read_bytes(), offsets_of(path)

    def write_on(log: GrowingLog) -> None:
        """Half of a record more with each read, and what comes after it with the next."""
        written = offsets[min(20 + log.reads, 49)] + 60
        log.data[:written] = data[:written]

    log = GrowingLog(bytes(len(data)), write_on)
    assert log.scan() == 49


def test_a_record_that_is_finished_while_the_next_one_is_found_is_read(filled: Filled) -> None:
    filled.fill("Orders", 50)
    path = filled.log_file()
    data, offsets = path.read_bytes(), offsets_of(path)
    torn = data[: offsets[10] + 60] + bytes(len(data) - offsets[10] - 60)

    def write_all(log: GrowingLog) -> None:
        if log.reads > 1:
            log.data[:] = data

    assert GrowingLog(torn, write_all).scan() == 50


@pytest.mark.parametrize("chunk_size", [300, 1000, 1411])
def test_chunks_of_any_size_lose_nothing(filled: Filled, monkeypatch: pytest.MonkeyPatch, chunk_size: int) -> None:
    """Records may be longer than what is read at once."""
    monkeypatch.setattr(piece_scan, "CHUNK_SIZE", chunk_size)
    for number in range(300):
        filled.put("Orders", number, body=b"%d." % number + b"x" * (number * 37 % 2000))
    assert numbers(scan(filled.root)) == list(range(300))
    path = last_file(filled)
    filled.close()
    overwrite(path, offsets_of(path)[-1] - 3, bytes(3))
    assert numbers(scan(filled.root)) == list(range(299))
