"""Route health: what a journal says about brokers, masters and topics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from apogeemq.errors import PipelineInvalid
from apogeemq.spark.jobs.send_samples import sample_text
from tests.peers.ours import NameServer
from tests.spark.ready import run_ready, run_shown
from tests.spark.worlds import World

pytestmark = pytest.mark.timeout(300)

HOUR = "2026-11-16T01:00:00Z"  # the sample begins an hour before


def rows(spark: SparkSession, path: Path, key: str) -> dict[Any, dict[str, Any]]:
    """By the columns named in `key`."""
    names = key.split()
    found = [row.asDict() for row in spark.read.parquet(str(path)).collect()]
    by_key = {tuple(row[name] for name in names) if len(names) > 1 else row[key]: row for row in found}
    assert len(by_key) == len(found)
    return by_key


@pytest.fixture(scope="module")
def sample_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a name server that has the sample journal."""
    folder = tmp_path_factory.mktemp("names")
    journal = folder / "data" / "journal" / "routes-00000000000000000001.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text(sample_text("route-journal.jsonl"))
    with NameServer(work_dir=folder, data_dir=folder / "data") as names:
        yield names.address


@pytest.fixture(scope="module")
def report(spark: SparkSession, sample_server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the whole sample journal."""
    folder = tmp_path_factory.mktemp("route-health")
    given = {"name_server": sample_server, "out": str(folder / "out"), "until": HOUR}
    _, shown = run_shown(spark, "route-health", folder / "state", **given)
    for name, text in shown.items():
        (folder / "out" / f"{name}.txt").write_text(text)
    return folder / "out"


def test_what_is_shown_fits_on_a_terminal(report: Path) -> None:
    headers = {path.stem: path.read_text().splitlines()[2].split("┃")[1:-1] for path in report.glob("*.txt")}
    assert {name: [header.strip() for header in found] for name, found in headers.items()} == {
        "show_brokers": ["name_server", "broker", "id", "up", "since", "available", "flapping"],
        "show_masters": ["name_server", "cluster", "broker", "master", "no_master_s", "absent_s"],
        "show_topics": ["name_server", "topic", "queues", "one_broker", "automatic"],
    }


def test_availability_of_every_broker(spark: SparkSession, report: Path) -> None:
    found = rows(spark, report / "brokers", "broker broker_id")
    assert {key: (row["is_up"], row["losses"], row["down_seconds"]) for key, row in found.items()} == {
        ("broker-a", 0): (True, 1, 60),
        ("broker-a", 1): (True, 1, 40),
        ("broker-b", 0): (True, 3, 90),
    }
    assert found["broker-a", 0]["availability"] == pytest.approx(1 - 60 / 3600, abs=1e-6)
    assert found["broker-b", 0]["availability"] == pytest.approx(1 - 90 / 3599, abs=1e-6)
    assert found["broker-b", 0]["longest_down_seconds"] == 30


def test_flapping(spark: SparkSession, report: Path) -> None:
    found = rows(spark, report / "brokers", "broker broker_id")
    assert {key: (row["most_losses_together"], row["is_flapping"]) for key, row in found.items()} == {
        ("broker-a", 0): (1, False),
        ("broker-a", 1): (1, False),
        ("broker-b", 0): (3, True),
    }


def test_time_without_master(spark: SparkSession, report: Path) -> None:
    found = rows(spark, report / "masters", "broker")
    assert {
        name: (row["has_master"], row["without_master_seconds"], row["absent_seconds"]) for name, row in found.items()
    } == {"broker-a": (True, 60, 0), "broker-b": (True, 0, 90)}


def test_spread_of_topics(spark: SparkSession, report: Path) -> None:
    """System topics, and those named after a broker, are not looked at."""
    found = rows(spark, report / "topics", "topic")
    assert {
        name: (row["queues_by_broker"], row["is_uneven"], row["is_on_one_broker"], row["seems_auto_created"])
        for name, row in found.items()
    } == {
        "orders": ("broker-a:8 broker-b:4", True, False, False),
        "payments": ("broker-a:4 broker-b:8", True, False, False),
        "clicks": ("broker-a:4", True, True, True),
    }


def test_what_came_after_its_end_is_not_in_a_report(spark: SparkSession, sample_server: str, tmp_path: Path) -> None:
    """In the sample, broker-b has been away once by then. What is ignored is a regular expression, backslashes too."""
    out = tmp_path / "out"
    given = {"name_server": sample_server, "out": str(out), "until": "2026-11-16T00:17:30Z"}
    run_ready(spark, "route-health", tmp_path / "state", **given, ignored=r"TBW\d+$|pay\w+$")
    brokers = rows(spark, out / "brokers", "broker broker_id")
    assert {key: (row["is_up"], row["losses"], row["is_flapping"]) for key, row in brokers.items()} == {
        ("broker-a", 0): (True, 0, False),
        ("broker-a", 1): (True, 0, False),
        ("broker-b", 0): (True, 1, False),
    }
    assert brokers["broker-b", 0]["availability"] == pytest.approx(1 - 30 / 1049, abs=1e-6)
    assert {row["since"] <= row["reported_at"] for row in brokers.values()} == {True}
    masters = rows(spark, out / "masters", "broker")
    assert {name: (row["without_master_seconds"], row["absent_seconds"]) for name, row in masters.items()} == {
        "broker-a": (0, 0),
        "broker-b": (0, 30),
    }
    assert set(rows(spark, out / "topics", "topic")) == {"orders", "clicks"}


@pytest.mark.parametrize("until", ["2h", "16.11.2026"])
def test_an_end_that_is_no_time_is_refused(spark: SparkSession, sample_server: str, tmp_path: Path, until: str) -> None:
    given = {"name_server": sample_server, "out": str(tmp_path / "out"), "until": until}
    with pytest.raises(PipelineInvalid, match=f"'{re.escape(until)}' .* cannot be cast"):
        run_ready(spark, "route-health", tmp_path / "state", **given)
    assert not (tmp_path / "out").exists()


def test_a_broker_that_was_killed_and_a_topic_made_by_a_message(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    """The journal of a cluster that lives, and a second report beside the first."""
    even, alone = world.topic("even"), world.name("alone")
    world.producer.send(alone, b"the first", queue=lambda queues, _: queues[0])
    out = {"name_server": world.address, "out": str(tmp_path / "out")}
    run_ready(spark, "route-health", tmp_path / "state", **out)
    before = rows(spark, tmp_path / "out" / "brokers", "broker")
    topics = rows(spark, tmp_path / "out" / "topics", "topic")
    assert (topics[even]["is_uneven"], topics[even]["brokers"]) == (False, 2)
    assert (topics[alone]["is_on_one_broker"], topics[alone]["seems_auto_created"]) == (True, True)

    world.restart_broker(0)
    run_ready(spark, "route-health", tmp_path / "state", **out)
    after = rows(spark, tmp_path / "out" / "brokers", "broker reported_at")
    assert len(after) == 4
    last = max(when for _, when in after)
    assert after["broker-a", last]["losses"] == before["broker-a"]["losses"] + 1
    assert after["broker-a", last]["availability"] < 1
    assert after["broker-a", last]["is_up"]
    assert after["broker-b", last]["losses"] == before["broker-b"]["losses"]
