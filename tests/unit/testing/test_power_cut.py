"""What was synced is there after every power cut; what was not may be there, in any part."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from apogeemq.runtime.atomic_file import sync_folder, write_atomically
from apogeemq.testing.faulty_files import SECTOR
from apogeemq.testing.power_cut import PowerCut

SEEDS = 200


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "disk"
    root.mkdir()
    (root / "before").write_bytes(b"b" * 2000)
    return root


@pytest.fixture
def disk(root: Path) -> Iterator[PowerCut]:
    with PowerCut(root).watching() as disk:
        yield disk


def remains(disk: PowerCut, tmp_path: Path, look: Callable[[Path], object]) -> set[object]:
    """All that is seen after many power cuts."""
    seen = set()
    for seed in range(SEEDS):
        target = tmp_path / "cut" / str(seed)
        disk.cut(target, Random(seed))
        seen.add(look(target))
    return seen


def content(name: str) -> Callable[[Path], object]:
    def look(folder: Path) -> object:
        path = folder / name
        return path.read_bytes() if path.exists() else None

    return look


def write(path: Path, data: bytes, position: int = 0, *, synced: bool) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(descriptor, data, position)
    if synced:
        os.fdatasync(descriptor)
    os.close(descriptor)


def test_what_was_there_stays(disk: PowerCut, tmp_path: Path) -> None:
    assert remains(disk, tmp_path, content("before")) == {b"b" * 2000}


def test_synced_content_stays_and_what_came_after_it_may_be_there_by_sectors(
    disk: PowerCut, root: Path, tmp_path: Path
) -> None:
    write(root / "before", b"1" * 600, synced=True)
    write(root / "before", b"2" * 1000, 300, synced=False)
    seen = remains(disk, tmp_path, content("before"))
    assert {data[:300] for data in seen if isinstance(data, bytes)} == {b"1" * 300}
    old = b"1" * 600 + b"b" * 1400
    new = b"1" * 300 + b"2" * 1000 + b"b" * 700
    mixtures = {
        b"".join((new if number >> at & 1 else old)[at * SECTOR : (at + 1) * SECTOR] for at in range(4))
        for number in range(16)
    }
    assert {old, new} < seen <= mixtures


def test_a_new_file_needs_its_folder_synced(disk: PowerCut, root: Path, tmp_path: Path) -> None:
    write(root / "new", b"n" * 100, synced=True)
    assert remains(disk, tmp_path, content("new")) == {None, b"n" * 100}
    sync_folder(root)
    assert remains(disk, tmp_path / "again", content("new")) == {b"n" * 100}


def test_a_name_without_content(disk: PowerCut, root: Path, tmp_path: Path) -> None:
    write(root / "new", b"n" * 100, synced=False)
    sync_folder(root)
    assert remains(disk, tmp_path, content("new")) == {b"", b"n" * 100, bytes(100)}


def test_a_folder_in_a_folder(disk: PowerCut, root: Path, tmp_path: Path) -> None:
    (root / "a" / "b").mkdir(parents=True)
    write(root / "a" / "b" / "file", b"f", synced=True)
    sync_folder(root / "a" / "b")
    assert remains(disk, tmp_path, content("a/b/file")) == {None, b"f"}
    sync_folder(root / "a")
    sync_folder(root)
    assert remains(disk, tmp_path / "again", content("a/b/file")) == {b"f"}


def test_a_deleted_file_may_be_back_until_its_folder_is_synced(disk: PowerCut, root: Path, tmp_path: Path) -> None:
    (root / "before").unlink()
    assert remains(disk, tmp_path, content("before")) == {None, b"b" * 2000}
    sync_folder(root)
    assert remains(disk, tmp_path / "again", content("before")) == {None}


def test_a_file_replaced_atomically_is_old_or_new_and_new_when_done(disk: PowerCut, root: Path, tmp_path: Path) -> None:
    write_atomically(root / "before", b"new", keep_previous=False)
    assert remains(disk, tmp_path, content("before")) == {b"new"}
    (root / "tmp").write_bytes(b"newer")
    os.replace(root / "tmp", root / "before")
    assert (
        {b"new", b"newer"}
        < remains(disk, tmp_path / "again", content("before"))
        <= {
            b"new",
            b"newer",
            b"",
            bytes(5),
        }
    )


def test_a_disk_that_lies_keeps_nothing(disk: PowerCut, root: Path, tmp_path: Path) -> None:
    disk.is_honest = False
    write(root / "before", b"1" * 100, synced=True)
    assert b"b" * 2000 in remains(disk, tmp_path, content("before"))
    assert disk.sync_count == 1


def test_other_folders_are_not_its_affair(disk: PowerCut, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", b"1", synced=True)
    assert disk.sync_count == 0


def test_a_killed_process_leaves_all_it_wrote_but_that_is_not_durable(
    disk: PowerCut, root: Path, tmp_path: Path
) -> None:
    write(root / "before", b"1" * 100, synced=True)
    write(root / "before", b"2" * 100, synced=False)
    write(root / "new", b"n", synced=False)
    killed = tmp_path / "killed"
    after = disk.kill(killed)
    assert (killed / "before").read_bytes()[:101] == b"2" * 100 + b"b"
    assert (killed / "new").read_bytes() == b"n"
    with after.watching():
        assert {None, b"n"} < remains(after, tmp_path, content("new")) <= {None, b"n", b"", b"\0"}
        for path in (killed / "before", killed / "new"):
            write(path, b"", synced=True)
        sync_folder(killed)
        assert remains(after, tmp_path / "again", content("before")) == {b"2" * 100 + b"b" * 1900}
        assert remains(after, tmp_path / "again 2", content("new")) == {b"n"}
