"""Files that are replaced whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from apogeemq.errors import ProtocolError, StorageFailed
from apogeemq.runtime.atomic_file import read_with_backup, write_atomically


def whole(data: bytes) -> bytes:
    if not data.endswith(b"."):
        raise ValueError("no full stop")
    return data


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_first_write_makes_folders_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "kv.json"
    write_atomically(path, b"one.")
    assert path.read_bytes() == b"one."
    assert names(path.parent) == {"kv.json"}


def test_previous_content_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    for content in (b"one.", b"two.", b"three."):
        write_atomically(path, content)
    assert path.read_bytes() == b"three."
    assert (tmp_path / "kv.json.bak").read_bytes() == b"two."
    assert names(tmp_path) == {"kv.json", "kv.json.bak"}


def test_previous_content_can_be_let_go(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    write_atomically(path, b"one.", keep_previous=False)
    write_atomically(path, b"two.", keep_previous=False)
    assert names(tmp_path) == {"kv.json"}


def test_what_a_crash_left_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    path.write_bytes(b"one.")
    for left in ("kv.json.tmp", "kv.json.bak.tmp"):
        (tmp_path / left).write_bytes(b"half")
    write_atomically(path, b"two.")
    assert names(tmp_path) == {"kv.json", "kv.json.bak"}


def test_mode_is_kept_and_new_files_are_not_writable_by_others(tmp_path: Path) -> None:
    secret, fresh = tmp_path / "secret", tmp_path / "fresh"
    secret.write_bytes(b"one.")
    secret.chmod(0o600)
    write_atomically(secret, b"two.")
    write_atomically(fresh, b"one.")
    assert secret.stat().st_mode & 0o777 == 0o600
    assert fresh.stat().st_mode & 0o022 == 0


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"one.")
    link.symlink_to(real)
    write_atomically(link, b"two.")
    assert link.is_symlink()
    assert real.read_bytes() == b"two."
    assert read_with_backup(link, whole) == b"two."


def test_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    folder = tmp_path / "kv.json"  # a folder cannot be replaced by a file
    (folder / "inside").mkdir(parents=True)
    with pytest.raises(StorageFailed, match="cannot write"):
        write_atomically(folder, b"one.")
    assert (folder / "inside").is_dir()
    assert names(tmp_path) == {"kv.json"}
    with pytest.raises(StorageFailed, match="cannot write"):
        write_atomically(Path("/dev/null/kv.json"), b"one.")


def test_nothing_there_is_none(tmp_path: Path) -> None:
    assert read_with_backup(tmp_path / "kv.json", whole) is None


@pytest.mark.parametrize("main", [None, b"", b"tor"])
def test_backup_is_read_when_the_file_is_missing_or_damaged(
    tmp_path: Path, main: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kv.json"
    if main is not None:
        path.write_bytes(main)
    (tmp_path / "kv.json.bak").write_bytes(b"one.")
    assert read_with_backup(path, whole) == b"one."
    assert "instead" in caplog.text


def test_damaged_without_a_whole_backup_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    path.write_bytes(b"tor")
    with pytest.raises(StorageFailed, match=r"kv\.json is damaged: no full stop"):
        read_with_backup(path, whole)
    (tmp_path / "kv.json.bak").write_bytes(b"n")
    with pytest.raises(StorageFailed, match=r"kv\.json\.bak is damaged"):
        read_with_backup(path, whole)


def test_parser_may_use_our_own_errors(tmp_path: Path) -> None:
    def never(data: bytes) -> bytes:
        raise ProtocolError("not it")

    path = tmp_path / "kv.json"
    path.write_bytes(b"x")
    with pytest.raises(StorageFailed, match="not it"):
        read_with_backup(path, never)


def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    path.mkdir()
    with pytest.raises(StorageFailed, match="cannot read"):
        read_with_backup(path, whole)


def test_without_hard_links_the_backup_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "kv.json"
    write_atomically(path, b"one.")
    with pytest.raises(FileNotFoundError):
        (tmp_path / "kv.json.bak").read_bytes()
    write_atomically(path, b"two.")
    assert (tmp_path / "kv.json.bak").read_bytes() == b"one."
