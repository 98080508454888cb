"""Each message once in the Parquet files, whatever is killed on the way."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.spark import archive_program
from tests.spark.standalone import Driver, Standalone
from tests.spark.trial import DRIVER, VICTIMS, Trial
from tests.spark.worlds import APACHES, OURS, World

IS_SOAK = bool(os.environ.get("APOGEE_SOAK"))
MESSAGES = 1_000_000 if IS_SOAK else 30_000
EPOCH_SIZE = 10_000 if IS_SOAK else 1_000
ROUNDS = 10 if IS_SOAK else 1
QUEUES_PER_BROKER = 4
PADDING = 200
SEED = int(os.environ.get("APOGEE_SEED", "7"))


def victims(random: Random) -> list[str]:
    """Every kind in every round, in any order; the driver a second time, in the middle of an epoch again."""
    chosen: list[str] = []
    for _ in range(ROUNDS):
        chosen += random.sample((*VICTIMS, DRIVER), len(VICTIMS) + 1)
    return chosen


def shares(total: int, count: int) -> list[range]:
    """The numbers below `total` in so many parts."""
    ends = [total * number // count for number in range(count + 1)]
    return [range(start, end) for start, end in itertools.pairwise(ends)]


def bodies(numbers: range) -> list[bytes]:
    """A number with spaces behind it: short messages would say little about who carries them."""
    return [(b"%d" % number).ljust(PADDING) for number in numbers]


def play(world: World, standalone: Standalone, folder: Path) -> Trial:
    """The query while everything it needs is killed in turn; it ends by itself."""
    random = Random(SEED)
    topic = world.topic("exactly-once", QUEUES_PER_BROKER)
    lives = itertools.count(1)

    def make_driver() -> Driver:
        args = (world.address, topic, str(folder), str(EPOCH_SIZE))
        return standalone.driver(f"archive-{next(lives)}", Path(archive_program.__file__), args)

    order = victims(random)
    *parts, last = shares(MESSAGES, len(order) + 1)
    with Trial(world, standalone, make_driver, folder / "checkpoint") as trial:
        for victim, numbers in zip(order, parts, strict=True):
            world.fill(topic, bodies(numbers))
            trial.strike(victim, random.randrange(2))
        world.fill(topic, bodies(last))
        trial.wait_until_committed(topic, MESSAGES)
        trial.traffic.look()
        (folder / "stop").touch()
        assert trial.driver.wait(timeout_s=300) == 0, trial.driver.tail()
    return trial


def check(trial: Trial, spark: SparkSession, output: Path) -> None:
    rows = spark.read.parquet(str(output))
    print(f"\n{rows.count()} rows for {MESSAGES} messages; {trial.report()}")
    assert rows.count() == MESSAGES
    numbers = rows.select("number").toArrow()["number"].to_pylist()
    assert sorted(numbers) == list(range(MESSAGES))
    places = rows.groupBy("broker", "queue_id").agg({"queue_offset": "max", "*": "count"}).collect()
    assert len(places) == 2 * QUEUES_PER_BROKER
    assert all(place["max(queue_offset)"] == place["count(1)"] - 1 for place in places)

    assert set(trial.kills) == set(VICTIMS)
    assert trial.replayed
    # What a driver asks are offsets and routes; the messages themselves go to executors, and to nobody else.
    assert trial.traffic.executors_bytes > MESSAGES * PADDING / 2
    assert trial.traffic.driver_bytes < trial.traffic.executors_bytes / 20


@pytest.mark.timeout(7_200 if IS_SOAK else 1_200)
@pytest.mark.parametrize("any_world", [OURS, APACHES] if IS_SOAK else [OURS], indirect=True)
def test_each_message_is_in_the_files_once(
    any_world: World, standalone: Standalone, spark: SparkSession, tmp_path: Path
) -> None:
    check(play(any_world, standalone, tmp_path), spark, tmp_path / "output")
