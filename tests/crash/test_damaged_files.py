"""Bits that flip and writes that tear: the store opens, and loses no more than what was hit."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from apogeemq.errors import StorageFailed
from apogeemq.store.layout import CHECKPOINT, CHECKPOINT_SIZE
from apogeemq.store.recovery import ABORT_FILE
from apogeemq.testing.faulty_files import flip_bit, tear_from, tear_sectors
from apogeemq.testing.power_cut import PowerCut
from tests.crash.sent_messages import Sender, Sent, missing, strangers

SEEDS = range(300 if os.environ.get("APOGEE_SOAK") else 20)
LOG_FILE_SIZE = 32 * 1024


def stopped(root: Path, sender: Sender, count: int = 150) -> list[Sent]:
    """A store that was closed properly."""
    root.mkdir()
    with PowerCut(root).watching(), sender.opened(root) as opened:
        sender.send(opened, count)
    return sender.sent


def log_file(root: Path, offset: int) -> Path:
    return root / "commitlog" / f"{offset - offset % LOG_FILE_SIZE:020d}"


def reopened(root: Path, sender: Sender, sent: list[Sent]) -> list[Sent]:
    """Opens it, takes more messages, opens it once more; gives those of the first that are missing."""
    with PowerCut(root).watching(), sender.opened(root) as opened:
        lost = missing(opened.store, sent)
        sender.send(opened, 30)
        more = sender.sent[len(sent) :]
        assert missing(opened.store, more) == []
    with PowerCut(root).watching(), sender.opened(root) as opened:
        assert opened.recovered.was_clean
        assert missing(opened.store, more) == []
        assert missing(opened.store, sent) == lost
    return lost


@pytest.mark.parametrize("seed", SEEDS)
def test_a_flipped_bit_costs_one_message_at_most(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    sender = Sender(random)
    sent = list(stopped(tmp_path / "store", sender))
    hit = random.choice(sent)
    position = hit.put.physical_offset + random.randrange(hit.put.size)
    flip_bit(log_file(tmp_path / "store", position), position % LOG_FILE_SIZE, random.randrange(8))
    assert reopened(tmp_path / "store", sender, sent) in ([], [hit])


@pytest.mark.parametrize("part", ["consumequeue", "index", "checkpoint"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_flipped_bit_elsewhere_costs_nothing_after_a_crash(tmp_path: Path, seed: int, part: str) -> None:
    """Queues and index are made of the log again, if the checkpoint says nothing."""
    random = Random(seed)
    sender = Sender(random)
    root = tmp_path / "store"
    sent = list(stopped(root, sender))
    (root / ABORT_FILE).touch()
    (root / "checkpoint").write_bytes(bytes(4096))
    files = sorted(path for path in (root, *root.rglob("*")) if path.is_file() and part in str(path.relative_to(root)))
    path = random.choice(files)
    flip_bit(path, random.randrange(40 if part == "checkpoint" else path.stat().st_size), random.randrange(8))
    if part == "checkpoint" and sum((root / "checkpoint").read_bytes()) == 0:
        return
    assert reopened(root, sender, sent) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_torn_tail_costs_only_what_it_holds(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    sender = Sender(random)
    root = tmp_path / "store"
    sent = list(stopped(root, sender))
    (root / ABORT_FILE).touch()
    (root / "checkpoint").unlink()
    first = random.choice(sent[-60:])
    # A killed process stops anywhere; a power cut takes sectors written since the last sync, which was between records.
    is_killed = random.random() < 0.5
    torn_at = first.put.physical_offset + (random.randrange(first.put.size) if is_killed else 0)
    tail = log_file(root, torn_at)
    for later in (root / "commitlog").iterdir():
        if later.name > tail.name:
            later.unlink()
    if is_killed:
        tear_from(tail, torn_at % LOG_FILE_SIZE)
    else:
        while not tear_sectors(tail, torn_at % LOG_FILE_SIZE, LOG_FILE_SIZE, random):
            pass
    lost = reopened(root, sender, sent)
    assert lost == sent[len(sent) - len(lost) :]
    assert all(message.end > torn_at for message in lost)


def test_messages_after_a_damaged_one_that_were_durable_are_kept_after_a_crash(tmp_path: Path) -> None:
    sender = Sender(Random(3))
    root = tmp_path / "store"
    sent = list(stopped(root, sender))
    (root / ABORT_FILE).touch()
    checkpoint = root / "checkpoint"  # as Apache's broker leaves it, so that the whole last file is read again
    checkpoint.write_bytes(checkpoint.read_bytes()[: CHECKPOINT.size].ljust(CHECKPOINT_SIZE, b"\0"))
    hit = sent[-20]  # with this seed it is in a file that is read again, and known to have been durable
    flip_bit(log_file(root, hit.put.physical_offset), hit.put.physical_offset % LOG_FILE_SIZE + 90)
    with PowerCut(root).watching(), sender.opened(root) as opened:
        assert missing(opened.store, sent) == [hit]
        assert strangers(opened.store, sent) == []


def test_a_missing_file_in_the_middle_of_the_log_is_said(tmp_path: Path) -> None:
    sender = Sender(Random(1))
    root = tmp_path / "store"
    stopped(root, sender)
    files = sorted((root / "commitlog").iterdir())
    files[1].unlink()
    with pytest.raises(StorageFailed, match="a file is missing between them"), sender.opened(root):
        pass
