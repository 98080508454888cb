"""Topics in a Delta table, by the commands that people call; the table is read without Delta, by what its log says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet
import pyspark
import pytest

from apogeemq.spark.pipeline.reading import read_pipeline
from tests.peers import apache
from tests.spark.ready import forget_last_epoch
from tests.spark.worlds import World

pytestmark = pytest.mark.timeout(600)

# Delta reads its log with fifty tasks otherwise, whatever its size.
QUICK = ("spark.databricks.delta.snapshotPartitions=1", "spark.sql.shuffle.partitions=1", "spark.driver.memory=1g")
TABLE = "archive-delta"
# Spark's search for packages, kept on this machine.
NOTHING_TO_BE_HAD = """\
<ivysettings>
  <settings defaultResolver="none"/>
  <resolvers><filesystem name="none"><artifact pattern="${ivy.settings.dir}/[artifact].jar"/></filesystem></resolvers>
</ivysettings>
"""


@pytest.fixture(scope="module")
def delta_jars() -> list[Path]:
    """Those of the package that the ready pipeline names, without what Spark has already, in newer versions."""
    (package,) = read_pipeline("archive-delta", {"topics": ".*"}).packages
    try:
        library = apache.resolve_jars(package, package.replace(":", "-"), [package])
    except apache.PeersUnavailable as unavailable:
        pytest.skip(str(unavailable))
    of_spark = {artifact(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    return [jar for jar in sorted(library.glob("*.jar")) if artifact(jar) not in of_spark]


def artifact(jar: Path) -> str:
    return jar.stem.rpartition("-")[0]


class Archive:
    """A folder in which commands are called, and the table that they make in it."""

    def __init__(self, folder: Path, jars: list[Path]) -> None:
        self.folder = folder
        where = folder / "ivysettings.xml"
        where.write_text(NOTHING_TO_BE_HAD)
        settings = " ".join(f"--conf {setting}" for setting in (*QUICK, f"spark.jars.ivySettings={where}"))
        jar_list = ",".join(map(str, jars))
        self._environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"{settings} --jars {jar_list} pyspark-shell"}

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "apogeemq.cli.main", *arguments]
        return subprocess.run(command, cwd=self.folder, env=self._environment, capture_output=True, text=True)

    def run(self, **params: str) -> dict[str, Any]:
        """The ready pipeline, to its end; the last status of it."""
        given = [f"--param={name}={value}" for name, value in {"packages": "", **params}.items()]
        ended = self.call("pipeline", "run", "archive-delta", "--once", "--json", "--state", "states", *given)
        assert ended.returncode == 0, ended.stderr
        status: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
        return status

    def versions(self) -> list[Path]:
        return sorted((self.folder / TABLE / "_delta_log").glob("[0-9]*.json"))

    def files(self) -> list[Path]:
        """Of the newest version of the table."""
        found: dict[str, None] = {}
        for version in self.versions():
            for action in map(json.loads, version.read_text().splitlines()):
                if "add" in action:
                    found[action["add"]["path"]] = None
                elif "remove" in action:
                    del found[action["remove"]["path"]]
        return [self.folder / TABLE / unquote(name) for name in found]

    def bodies(self) -> Counter[bytes]:
        """Of all rows that there are."""
        tables = [pyarrow.parquet.ParquetFile(path).read(["body"]) for path in self.files()]
        return Counter(body for table in tables for body in table.column("body").to_pylist())


@pytest.fixture
def archive(tmp_path: Path, delta_jars: list[Path]) -> Archive:
    return Archive(tmp_path, delta_jars)


def test_each_message_is_in_the_table_once_however_often_an_epoch_is_done(archive: Archive, world: World) -> None:
    topic = world.topic("delta")
    expected = Counter(b"no. %d" % number for number in range(200))
    world.fill(topic, expected)
    given = {"name_server": world.address, "topics": topic, "most_per_epoch": "100"}
    status = archive.run(**given)
    assert (status["state"], status["queries"][0]["rows"]) == ("finished", 200)
    epochs, versions, files = status["queries"][0]["epochs"], archive.versions(), archive.files()
    assert epochs > 1 and len(versions) == epochs
    assert {path.parents[2].name for path in files} == {f"topic={topic}"}
    assert archive.bodies() == expected

    forget_last_epoch(archive.folder / "states")
    status = archive.run(**given)
    again = status["queries"][0]
    assert (again["epochs"], again["epoch"]) == (1, epochs - 1), "the last epoch was done again"
    assert (archive.versions(), archive.files()) == (versions, files)
    assert archive.bodies() == expected

    hours = {path.parent for path in files}
    assert len(files) > len(hours)
    compacted = archive.call("archive", "compact", TABLE, "--delta", "--packages", "")
    assert (compacted.returncode, compacted.stderr) == (0, "")
    assert f"{TABLE}: {len(files)} files → {len(hours)}" in compacted.stdout
    assert len(archive.files()) == len(hours)
    assert archive.bodies() == expected


def test_a_folder_that_is_no_delta_table_is_one_sentence(archive: Archive) -> None:
    (archive.folder / TABLE).mkdir()
    ended = archive.call("archive", "compact", TABLE, "--delta", "--packages", "")
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"apogee: {TABLE}: ") and len(ended.stderr.splitlines()) == 1, ended.stderr


def test_a_delta_that_cannot_be_had_is_one_sentence(archive: Archive) -> None:
    (archive.folder / TABLE).mkdir()
    ended = archive.call("archive", "compact", TABLE, "--delta", "--packages", "no.such:package:1")
    assert ended.returncode == 2
    assert ended.stderr.startswith("apogee: Spark did not start with the packages no.such:package:1"), ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_packages_are_delta_s_alone(archive: Archive) -> None:
    ended = archive.call("archive", "compact", TABLE, "--packages", "")
    assert (ended.returncode, ended.stderr) == (2, "apogee: --packages needs --delta\n")
