"""The power goes at a random moment: with sync flush, every acknowledged message is there afterwards, where it was.

Each round goes on with what the last cut left, so that a store is recovered that was recovered before.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

import pytest

from apogeemq.errors import StorageFailed
from apogeemq.store.opening import OpenStore
from apogeemq.testing.power_cut import PowerCut
from tests.crash.sent_messages import Sender, Sent, missing, strangers

SEEDS = range(400 if os.environ.get("APOGEE_SOAK") else 12)
ROUNDS = 4


def run(sender: Sender, opened: OpenStore, random: Random) -> list[Sent]:
    """Load; gives the messages acknowledged up to now."""
    sender.send(opened, random.randrange(20, 300))
    if random.random() < 0.5:
        sender.wait_for_acknowledgements(opened)
        sender.send(opened, random.randrange(40))
    return sender.acknowledged


@pytest.mark.parametrize("seed", SEEDS)
def test_every_acknowledged_message_is_there(tmp_path: Path, seed: int) -> None:
    """However often the power goes, or the process is killed and then the power goes."""
    random = Random(seed)
    sender = Sender(random)
    kept: list[Sent] = []
    (tmp_path / "0").mkdir()
    disk = PowerCut(tmp_path / "0")
    for number in range(ROUNDS + 1):
        root, copy = tmp_path / str(number), tmp_path / str(number + 1)
        sender.power_went(kept)
        with disk.watching(), sender.opened(root) as opened:
            assert missing(opened.store, kept) == []
            assert strangers(opened.store, sender.sent) == []
            assert opened.recovered.was_clean is (number == 0)
            kept = run(sender, opened, random)
            if random.random() < 0.3:
                disk = disk.kill(copy)
            else:
                disk.cut(copy, random)
                disk = PowerCut(copy)
        shutil.rmtree(root)
    assert kept


def test_the_check_fails_when_syncing_is_taken_out(tmp_path: Path) -> None:
    lost = 0
    for seed in range(10):
        random = Random(seed)
        sender = Sender(random)
        root, copy = tmp_path / f"{seed}", tmp_path / f"{seed}-cut"
        root.mkdir()
        with PowerCut(root).watching() as disk, sender.opened(root) as opened:
            disk.is_honest = False
            acknowledged = run(sender, opened, random)
            disk.cut(copy, random)
        try:
            with PowerCut(copy).watching(), sender.opened(copy) as opened:
                lost += len(missing(opened.store, acknowledged))
        except StorageFailed:  # a file in the middle of the log is gone
            lost += len(acknowledged)
    assert lost > 100


def test_after_a_clean_stop_nothing_at_all_is_lost(tmp_path: Path) -> None:
    for seed in range(10):
        random = Random(seed)
        sender = Sender(random)
        root, copy = tmp_path / f"{seed}", tmp_path / f"{seed}-cut"
        root.mkdir()
        with PowerCut(root).watching() as disk:
            with sender.opened(root) as opened:
                sender.send(opened, 200)
            disk.cut(copy, random)
        with PowerCut(copy).watching(), sender.opened(copy) as opened:
            assert opened.recovered.was_clean
            assert (opened.recovered.cut_bytes, missing(opened.store, sender.sent)) == (0, [])
