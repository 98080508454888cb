"""Drivers that begin runs of the same epochs, with servers that are processes of their own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from apogeemq.blocking import Producer
from apogeemq.errors import ConfigError, Superseded
from apogeemq.spark.cluster import cluster_of
from apogeemq.spark.sink import runs
from apogeemq.spark.sink.epoch_task import fence_of
from apogeemq.spark.sink.ledger import EpochLedger, EpochRun, LastRun
from apogeemq.spark.sink.runs import EpochRuns
from apogeemq.spark.sink.write_options import WriteOptions, read_write_options
from tests.our_servers import our_servers
from tests.unit.spark.sink.local_folder import LocalFolder
from tests.unit.spark.sink.writing import ids_of, request

numbers = itertools.count()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with our_servers(tmp_path_factory.mktemp("servers")) as found:
        yield found


@pytest.fixture(autouse=True)
def nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "settle_seconds", lambda send_timeout_ms: 0.01)


@pytest.fixture
def topic() -> str:
    return f"T{next(numbers)}"


class Driver:
    def __init__(self, address: str, folder: Path, **options: str) -> None:
        self.address = address
        self.options: WriteOptions = read_write_options({"nameServer": address, "retryDelayMs": "1", **options})
        self.ledger = EpochLedger(LocalFolder(folder))
        self.runs = EpochRuns(self.ledger, self.options, "q")

    def write_epoch(self, epoch: int) -> EpochRun:
        before = self.ledger.last()
        entry = self.runs.begin(epoch, before)
        self.runs.take_over(entry, before)
        self.ledger.end(entry, 0)
        return entry

    def has_run(self, entry: EpochRun) -> None:
        """Superseded when brokers have the number of another run."""
        cluster = cluster_of(self.options.connection, self.runs.group)
        cluster.run(lambda: fence_of(cluster, entry).check_run(entry.run))

    def store(self, entry: EpochRun, *bodies: bytes, topic: str) -> set[bytes]:
        """As a task of a run of epoch 0; gives their ids."""
        queue = next(queue for queue in entry.queues() if queue.topic == topic)
        with Producer(self.address, "writes") as producer:
            producer.send_encoded(queue, request(*bodies).body)
        return ids_of(*bodies)


def test_a_run_takes_over_from_the_one_before(address: str, topic: str, tmp_path: Path) -> None:
    driver = Driver(address, tmp_path, topic=topic)
    first = driver.runs.begin(0, None)
    assert driver.runs.take_over(first, None).there == set()
    written = driver.store(first, b"one", b"two", topic=topic)
    second = driver.runs.begin(0, LastRun(first, None))
    assert second.starts == first.starts
    assert driver.runs.take_over(second, LastRun(first, None)).there == written
    driver.has_run(second)
    with pytest.raises(Superseded, match="has run 2, not 1"):
        driver.has_run(first)


def test_a_driver_that_stood_still_does_not_take_over_from_a_later_one(
    address: str, topic: str, tmp_path: Path
) -> None:
    stale, other = Driver(address, tmp_path, topic=topic), Driver(address, tmp_path, topic=topic)
    other.write_epoch(4)
    before = stale.ledger.last()
    entry = stale.runs.begin(5, before)
    finished = other.write_epoch(5)
    with pytest.raises(Superseded):
        stale.runs.take_over(entry, before)
    other.has_run(finished)


def test_a_driver_sees_that_another_one_has_begun_before_brokers_know(address: str, topic: str, tmp_path: Path) -> None:
    stale, other = Driver(address, tmp_path, topic=topic), Driver(address, tmp_path, topic=topic)
    stale.write_epoch(4)
    before = stale.ledger.last()
    entry = stale.runs.begin(5, before)
    later = other.runs.begin(5, LastRun(entry, None))
    with pytest.raises(Superseded, match="run 2 of epoch 5 has been superseded"):
        stale.runs.take_over(entry, before)
    other.runs.take_over(later, LastRun(entry, None))
    other.has_run(later)


def test_an_epoch_that_was_interrupted_can_be_finished_with_more_topics(
    address: str, topic: str, tmp_path: Path
) -> None:
    """The added ones come first by name, and before the others in the option."""
    earlier, later = f"A{topic}", f"Z{topic}"
    first, second = Driver(address, tmp_path, topics=later), Driver(address, tmp_path, topics=f"{earlier},{later}")
    begun = first.runs.begin(0, None)
    first.runs.take_over(begun, None)
    written = first.store(begun, b"one", topic=later)
    with Producer(address, "others") as producer:
        producer.send(earlier, b"of others")
    entry = second.runs.begin(0, LastRun(begun, None))
    assert entry.starts[later] == begun.starts[later]
    assert sum(entry.starts[earlier]["broker-a"].values()) == 1
    assert second.runs.take_over(entry, LastRun(begun, None)).there == written
    with pytest.raises(Superseded, match="has run 2, not 1"):
        first.has_run(begun)
    read_again = second.ledger.last()
    assert read_again is not None
    second.has_run(read_again.entry)


def test_a_ledger_that_is_begun_anew_is_not_held_up_by_the_one_before(address: str, topic: str, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old = Driver(address, tmp_path / "old", topic=topic)
    for epoch in range(3):
        old.write_epoch(epoch)
    new = Driver(address, tmp_path / "new", topic=topic)
    new.has_run(new.write_epoch(0))


def test_an_epoch_that_was_interrupted_is_not_gone_on_with_by_other_ids(
    address: str, topic: str, tmp_path: Path
) -> None:
    by_number = Driver(address, tmp_path, topic=topic, idColumns="number")
    by_place = Driver(address, tmp_path, topic=topic)
    begun = by_number.runs.begin(0, None)
    before = by_number.ledger.last()
    words = "were made with queryId q and idColumns number; now there are queryId q and no idColumns"
    with pytest.raises(ConfigError, match=words):
        by_place.runs.begin(0, before)
    assert by_number.ledger.last() == before
    by_number.runs.begin(0, before)
    by_place.runs.begin(0, LastRun(msgspec.structs.replace(begun, run=2, ids=None), None))
    by_number.runs.begin(1, by_number.ledger.last())
