"""The checkpoint page."""

from __future__ import annotations

from pathlib import Path

from apogeemq.store.layout import CHECKPOINT
from apogeemq.store.upkeep.checkpoint import (
    Checkpoint,
    checkpoint_content,
    make_checkpoint_file,
    read_checkpoint,
    write_checkpoint,
)


def test_it_comes_back_from_a_page_of_apaches_size(tmp_path: Path) -> None:
    content = checkpoint_content(Checkpoint(10_000, 20_000, 5_000, 7, 8))
    assert len(content) == 4096
    assert content[:8] == (10_000).to_bytes(8)
    (tmp_path / "checkpoint").write_bytes(content)
    checkpoint = read_checkpoint(tmp_path / "checkpoint")
    assert checkpoint == Checkpoint(10_000, 20_000, 5_000, 7, 8)
    assert (checkpoint.safe_time, checkpoint.safe_index_time) == (7_000, 2_000)


def test_none_or_half_of_one_vouches_for_nothing(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path / "none").safe_time == 0
    (tmp_path / "half").write_bytes(b"\0" * 10)
    assert read_checkpoint(tmp_path / "half") == Checkpoint()


def test_what_is_complete_counts_only_with_the_times_it_was_written_with(tmp_path: Path) -> None:
    """Another broker writes the times and leaves the rest of the page alone."""
    path = tmp_path / "checkpoint"
    write_checkpoint(path, Checkpoint(10_000, 20_000, 5_000, complete_until=777))
    assert read_checkpoint(path).complete_until == 777
    page = path.read_bytes()
    path.write_bytes(CHECKPOINT.pack(11_000, 20_000, 5_000, 0, 0) + page[CHECKPOINT.size :])
    assert read_checkpoint(path) == Checkpoint(11_000, 20_000, 5_000)


def test_nothing_is_vouched_for_beyond_the_end_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    make_checkpoint_file(path, 0)
    assert path.stat().st_size == 4096
    write_checkpoint(path, Checkpoint(10_000, 20_000, 5_000, complete_until=777))
    make_checkpoint_file(path, 777)
    assert read_checkpoint(path).complete_until == 777
    make_checkpoint_file(path, 776)
    assert read_checkpoint(path) == Checkpoint(10_000, 20_000, 5_000)
