"""Tables in files: written when changed, the one before kept, and what a broken or missing file means."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from apogeemq.broker.tables.table_file import TableFile
from apogeemq.errors import StorageFailed
from tests.unit.disk import file_size_limit
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import eventually


class Kept:
    """A table of one text."""

    def __init__(self, path: Path) -> None:
        self.text = ""
        self.file = TableFile(path, lambda: self.text.encode())

    def put(self, text: str) -> None:
        self.text = text
        self.file.changed()

    def take(self, data: bytes) -> None:
        if not data.endswith(b"."):
            raise ValueError("no full stop")
        self.text = data.decode()


@in_loop
async def test_only_what_has_changed_is_written_and_the_one_before_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    kept = Kept(path)
    await kept.file.save_if_changed()
    assert not path.exists()
    for text in ("one.", "two."):
        kept.put(text)
        await kept.file.save_if_changed()
    kept.text = "not said to have changed."
    await kept.file.save_if_changed()
    assert path.read_text() == "two."
    assert path.with_name("topics.json.bak").read_text() == "one."


@in_loop
async def test_a_damaged_file_is_read_from_its_predecessor(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    kept = Kept(path)
    assert not kept.file.load(kept.take)
    path.with_name("topics.json.bak").write_text("one.")
    for damage in (None, b"", b"two"):
        if damage is not None:
            path.write_bytes(damage)
        kept.text = ""
        assert kept.file.load(kept.take)
        assert kept.text == "one."
    path.with_name("topics.json.bak").write_text("one")
    with pytest.raises(StorageFailed, match="damaged"):
        kept.file.load(kept.take)


@in_loop
async def test_a_write_that_fails_is_counted_and_done_again(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    kept = Kept(path)
    kept.put("one.")
    await kept.file.save_if_changed()
    kept.put("two. " * 1000 + ".")
    with file_size_limit(100):
        await kept.file.save_if_changed()
    assert kept.file.failure_count == 1
    assert path.read_text() == "one."
    await kept.file.save_if_changed()
    assert path.read_text() == kept.text


@in_loop
async def test_who_gives_up_waiting_stops_no_write_and_the_next_one_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "topics.json"
    kept = Kept(path)
    may_go_on, fsync, count = threading.Event(), os.fsync, 0

    def held_fsync(descriptor: int) -> None:
        nonlocal count
        count += 1
        if count == 1:
            may_go_on.wait()
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", held_fsync)
    kept.put("one.")
    first = asyncio.ensure_future(kept.file.save_if_changed())
    await eventually(lambda: count == 1)
    first.cancel()
    kept.put("two.")
    second = asyncio.ensure_future(kept.file.save_if_changed())
    for _ in range(10):
        await asyncio.sleep(0)
    assert count == 1  # two writers at once would mix their files up
    may_go_on.set()
    await second
    assert path.read_text() == "two."
    assert path.with_name("topics.json.bak").read_text() == "one."


@in_loop
async def test_a_write_given_up_before_it_began_is_made_up_for(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    kept = Kept(path)
    kept.put("one.")
    first = asyncio.ensure_future(kept.file.save_if_changed())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await kept.file.save_if_changed()
    assert path.read_text() == "one."
