"""One process per data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.errors import StorageFailed
from apogeemq.runtime.folder_lock import FolderLock


def test_a_second_one_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path / "data"), FolderLock(tmp_path / "data")
    first.acquire()
    with pytest.raises(StorageFailed, match="in use by another process"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match="cannot use the data folder"):
        FolderLock(tmp_path / "file" / "data").acquire()
