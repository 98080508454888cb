"""The checkpoint page."""

from __future__ import annotations

from pathlib import Path

from apogeemq.store.upkeep.checkpoint import Checkpoint, checkpoint_content, read_checkpoint


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
