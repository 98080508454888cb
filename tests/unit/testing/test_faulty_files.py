"""The faults are what they say."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from apogeemq.testing.faulty_files import SECTOR, failing_syncs, flip_bit, full_disk, tear_from, tear_sectors


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"\xff" * 5000)
    return path


def test_one_bit_is_flipped_and_flipped_back(path: Path) -> None:
    flip_bit(path, 1234, 3)
    assert path.read_bytes() == b"\xff" * 1234 + b"\xf7" + b"\xff" * 3765
    flip_bit(path, 1234, 3)
    assert path.read_bytes() == b"\xff" * 5000


def test_a_file_torn_from_a_byte_on_keeps_its_length(path: Path) -> None:
    tear_from(path, 77)
    assert path.read_bytes() == b"\xff" * 77 + bytes(4923)


def test_sectors_are_torn_whole_within_the_range(path: Path) -> None:
    counts = set()
    for seed in range(20):
        path.write_bytes(b"\xff" * 5000)
        counts.add(tear_sectors(path, 700, 3000, Random(seed)))
        data = path.read_bytes()
        assert data[:700].count(0) == data[3000:].count(0) == 0
        for at in range(0, 5000, SECTOR):
            assert len(set(data[max(at, 700) : min(at + SECTOR, 3000)])) <= 1
    assert len(counts) > 2


def test_chosen_files_cannot_be_synced(tmp_path: Path, path: Path) -> None:
    other = tmp_path / "other"
    with other.open("wb") as fine, path.open("r+b") as failing:
        with failing_syncs(lambda found: found == path) as failed:
            os.fsync(fine.fileno())
            for sync in (os.fsync, os.fdatasync):
                with pytest.raises(OSError, match="Input/output error"):
                    sync(failing.fileno())
        assert failed == [path, path]
        os.fdatasync(failing.fileno())


def test_a_full_disk_refuses_blocks_but_not_those_a_file_has(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    with (root / "file").open("wb") as file, (tmp_path / "other").open("wb") as other:
        descriptor = file.fileno()
        with full_disk(root, 10_000) as disk:
            os.posix_fallocate(descriptor, 0, 8192)
            assert disk.free == 10_000 - 8192
            with pytest.raises(OSError, match="No space left") as refused:
                os.posix_fallocate(descriptor, 8192, 8192)
            assert (refused.value.errno, disk.refusal_count) == (errno.ENOSPC, 1)
            os.posix_fallocate(other.fileno(), 0, 100_000)
            disk.free = 20_000
            os.posix_fallocate(descriptor, 0, 12_288)
            assert disk.free == 20_000 - 4096
        os.posix_fallocate(descriptor, 0, 100_000)
