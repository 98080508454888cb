"""What demonstrations that were killed have left is removed by the next one."""

from __future__ import annotations

from pathlib import Path

from apogeemq.cli.demo.command import PREFIX, remove_what_was_left
from apogeemq.runtime.folder_lock import LOCK_FILE, FolderLock


def test_only_folders_that_nobody_uses_are_removed(tmp_path: Path) -> None:
    left, used, fresh, other = (tmp_path / name for name in (f"{PREFIX}a", f"{PREFIX}b", f"{PREFIX}c", "notes"))
    for folder in (left, used, fresh, other):
        (folder / "namesrv").mkdir(parents=True)
    for folder in (left, other):
        (folder / LOCK_FILE).touch()
    lock = FolderLock(used)
    lock.acquire()
    remove_what_was_left(tmp_path)
    lock.release()
    assert sorted(tmp_path.iterdir()) == sorted((used, fresh, other))
