"""A checkpoint is of the places it was made for: elsewhere, what has been read would be left out without a word."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from apogeemq.errors import ConfigError
from apogeemq.spark.jobs.archive import read_archive
from apogeemq.spark.pipeline.reading import read_pipeline
from apogeemq.spark.pipeline.running import run_pipeline
from apogeemq.spark.pipeline.spec import PipelineSpec, Trigger
from apogeemq.spark.pipeline.status import StateFolder
from tests.spark.worlds import World

pytestmark = pytest.mark.timeout(300)


class Archive:
    """The ready pipeline, with one state."""

    def __init__(self, spark: SparkSession, world: World, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self.state = StateFolder(folder / "state")
        self.topic = world.topic("archived")
        self._given = {"name_server": world.address, "topics": self.topic}

    def spec(self, to: str, **more: str) -> PipelineSpec:
        given = {**self._given, "archive": str(self._folder / to), **more}
        return msgspec.structs.replace(read_pipeline("archive", given), trigger=Trigger())

    def run(self, to: str, *, accepts_changes: bool = False, replay_from_ms: int | None = None, **more: str) -> None:
        spec = self.spec(to, **more)
        run_pipeline(spec, self._spark, self.state, accepts_changes=accepts_changes, replay_from_ms=replay_from_ms)

    def bodies(self, name: str) -> Counter[bytes]:
        return Counter(bytes(row["body"]) for row in read_archive(self._spark, self._folder / name).collect())

    def kept(self) -> bytes:
        return (self.state.checkpoint / "pipeline.json").read_bytes()


@pytest.fixture
def archive(spark: SparkSession, world: World, tmp_path: Path) -> Archive:
    """With one message in the folder `one`, and another that has come since."""
    made = Archive(spark, world, tmp_path)
    world.fill(made.topic, [b"before"])
    made.run("one")
    world.fill(made.topic, [b"since"])
    return made


def test_another_folder_is_refused(archive: Archive, tmp_path: Path) -> None:
    kept = archive.kept()
    with pytest.raises(ConfigError, match=r"recent path: file:/.*/one/recent → file:/.*/two/recent.*--state DIR"):
        archive.run("two")
    assert archive.kept() == kept
    assert not (tmp_path / "two").exists()


def test_another_cluster_is_refused(archive: Archive) -> None:
    """Its brokers may have the same names."""
    with pytest.raises(ConfigError, match=r"messages nameServer: \S+ → 127\.0\.0\.1:1\."):
        archive.run("one", name_server="127.0.0.1:1")


def test_changes_can_be_accepted(archive: Archive, world: World) -> None:
    archive.run("two", accepts_changes=True)
    assert archive.bodies("two") == {b"since": 1}
    world.fill(archive.topic, [b"later"])
    archive.run("two")  # the new place is kept
    assert archive.bodies("two") == {b"since": 1, b"later": 1}
    with pytest.raises(ConfigError, match="was elsewhere"):
        archive.run("one")


def test_a_replay_fills_another_folder(archive: Archive) -> None:
    archive.run("two", replay_from_ms=1)
    assert archive.bodies("two") == {b"before": 1, b"since": 1}


def test_a_checkpoint_that_knows_no_places_learns_them(archive: Archive) -> None:
    """As kept before there were any."""
    path = archive.state.checkpoint / "pipeline.json"
    path.write_bytes(msgspec.json.encode({**msgspec.json.decode(archive.kept()), "places": {}}))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    archive.run("two")
    with pytest.raises(ConfigError, match="was elsewhere"):
        archive.run("one")
