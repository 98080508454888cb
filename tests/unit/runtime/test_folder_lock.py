"""One process per data folder."""

from __future__ import annotations

import subprocess
import sys
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


# What a Java process does with `FileChannel.tryLock(0, 1, false)`.
RECORD_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
    except BlockingIOError:
        print("refused", flush=True)
    else:
        print("locked", flush=True)
    sys.stdin.read()
"""


def java_like_peer(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RECORD_LOCK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_it_and_the_record_lock_of_a_java_process_keep_each_other_out(tmp_path: Path) -> None:
    mine = FolderLock(tmp_path)
    mine.acquire()
    with java_like_peer(tmp_path / "lock") as peer:
        assert peer.communicate()[0] == "refused\n"
    mine.release()
    with java_like_peer(tmp_path / "lock") as peer:
        assert peer.stdout is not None
        assert peer.stdout.readline() == "locked\n"
        with pytest.raises(StorageFailed, match="in use by another process"):
            mine.acquire()
        peer.communicate()
    mine.acquire()
    mine.release()
