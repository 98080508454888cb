from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.client import MessageQueue
from apogeemq.errors import StorageFailed, Superseded
from apogeemq.spark.sink.ledger import EpochLedger, EpochRun, IdSource, LastRun
from tests.unit.spark.sink.local_folder import LocalFolder

STARTS = {MessageQueue("broker-a", 0, "T"): 5, MessageQueue("broker-b", 3, "T"): 0, MessageQueue("broker-a", 0, "U"): 7}


IDS = IdSource("q", ("number",))


@pytest.fixture
def ledger(tmp_path: Path) -> EpochLedger:
    return EpochLedger(LocalFolder(tmp_path))


def test_a_new_ledger_has_an_id_that_stays(ledger: EpochLedger, tmp_path: Path) -> None:
    assert ledger.last() is None
    assert ledger.sink_id() == EpochLedger(LocalFolder(tmp_path)).sink_id()
    assert len(ledger.sink_id()) == 32


def test_what_was_begun_and_ended(ledger: EpochLedger) -> None:
    entry = ledger.begin(0, 1, STARTS, IDS)
    assert ledger.last() == LastRun(entry, None)
    assert entry.queues() == STARTS
    ledger.end(entry, 42)
    assert ledger.last() == LastRun(entry, 42)
    following = ledger.begin(1, 2, {}, IDS)
    assert ledger.last() == LastRun(following, None)
    assert ledger.is_last(following)
    assert not ledger.is_last(entry)


def test_an_epoch_is_done_whichever_run_has_ended_it(ledger: EpochLedger) -> None:
    first = ledger.begin(7, 1, STARTS, IDS)
    second = ledger.begin(7, 2, STARTS, IDS)
    ledger.end(first, 3)
    assert ledger.last() == LastRun(second, 3)


def test_two_drivers_cannot_begin_the_same_run(ledger: EpochLedger) -> None:
    ledger.begin(3, 9, STARTS, IDS)
    with pytest.raises(Superseded, match="run 9 of epoch 3"):
        ledger.begin(3, 9, {}, IDS)


@pytest.mark.parametrize(("epoch", "run"), [(3, 1), (3, 2), (4, 1)])
def test_who_begins_too_late_is_told(ledger: EpochLedger, epoch: int, run: int) -> None:
    """The files of the epochs it has missed are removed already."""
    for number in range(3, 7):
        ledger.end(ledger.begin(number, number, STARTS, IDS), 1)
    before = ledger.last()
    with pytest.raises(Superseded, match=f"run {run} of epoch {epoch} has been superseded"):
        ledger.begin(epoch, run, STARTS, IDS)
    assert ledger.last() == before


def test_old_epochs_are_forgotten_and_strange_files_left_alone(ledger: EpochLedger, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    ledger.sink_id()
    for epoch in range(12):
        ledger.end(ledger.begin(epoch, epoch + 1, STARTS, IDS), epoch)
    assert len(list(tmp_path.glob("*.begun"))) == 2
    assert {path.name for path in tmp_path.iterdir()} >= {"notes.txt", "sink.json"}
    last = ledger.last()
    assert last is not None
    assert (last.entry.epoch, last.rows) == (11, 11)


def test_a_damaged_file_is_an_error(ledger: EpochLedger, tmp_path: Path) -> None:
    ledger.begin(0, 1, STARTS, IDS)
    (tmp_path / f"{0:020d}-{1:010d}.begun").write_text('{"epoch"')
    with pytest.raises(StorageFailed, match="begun of the sink's ledger cannot be read"):
        ledger.last()


def test_a_ledger_of_before_does_not_say_what_ids_are_made_of(ledger: EpochLedger, tmp_path: Path) -> None:
    text = '{"epoch":0,"run":1,"starts":{"T":{"broker-a":{"0":5}}}}'
    (tmp_path / f"{0:020d}-{1:010d}.begun").write_text(text)
    assert ledger.last() == LastRun(EpochRun(0, 1, {"T": {"broker-a": {"0": 5}}}), None)
