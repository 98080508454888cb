"""Each message once in the Parquet files of a pipeline, whatever is killed on the way."""

from __future__ import annotations

import contextlib
import itertools
import os
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark import archive_program
from tests.spark.archive_program import checkpoint_of, output_of, state_of
from tests.spark.standalone import Driver, Standalone
from tests.spark.trial import DRIVER, VICTIMS, Trial
from tests.spark.worlds import APACHES, OURS, World

IS_SOAK = bool(os.environ.get("APOGEE_SOAK"))
MESSAGES = 1_000_000 if IS_SOAK else 30_000
EPOCH_SIZE = 10_000 if IS_SOAK else 1_000
ROUNDS = 3 if IS_SOAK else 1
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


def staged_files(output: Path) -> set[Path]:
    """Of attempts that do not count yet: of an epoch in flight, or left behind by one that was killed."""
    with contextlib.suppress(FileNotFoundError):  # an attempt is over meanwhile
        return set((output / "_staging").rglob("*.parquet"))
    return set()


def visible_files(output: Path) -> list[Path]:
    """All that any reader of Parquet files would find."""
    return [path for path in output.rglob("*.parquet") if not str(path.relative_to(output)).startswith(("_", "."))]


def is_midway(trial: Trial, output: Path, done: int, left: set[Path]) -> bool:
    """Epochs are done since the last strike, and the next one has a file that no earlier one left behind.

    So no two strikes meet the same epoch, and none meets a query that has written nothing yet.
    """
    checkpoint = trial.checkpoint
    is_further = checkpoint.last_committed() > done and checkpoint.in_flight() is not None
    return is_further and bool(staged_files(output) - left)


def play(world: World, standalone: Standalone, folder: Path) -> tuple[Trial, int]:
    """The pipeline while everything it needs is killed in turn. Gives also how many files had been begun by epochs at
    the moment they were cut short."""
    random, output = Random(SEED), output_of(folder)
    topic = world.topic("exactly-once", QUEUES_PER_BROKER)
    lives = itertools.count(1)

    def make_driver() -> Driver:
        args = (world.address, topic, str(folder), str(EPOCH_SIZE))
        return standalone.driver(f"archive-{next(lives)}", Path(archive_program.__file__), args)

    order = victims(random)
    *parts, last = shares(MESSAGES, len(order) + 1)
    done, cut_short, left = -1, 0, set[Path]()
    with Trial(world, standalone, make_driver, checkpoint_of(folder)) as trial:
        for victim, numbers in zip(order, parts, strict=True):
            world.fill(topic, bodies(numbers))
            trial.wait_for(partial(is_midway, trial, output, done, left), "an epoch is amid its writes")
            done = trial.checkpoint.last_committed()
            trial.strike(victim, random.randrange(2))
            left = staged_files(output)
            cut_short += len(left)
        world.fill(topic, bodies(last))
        trial.wait_until_committed(topic, MESSAGES)
        trial.traffic.look()
        state_of(folder).ask_to_stop()
        assert trial.driver.wait(timeout_s=300) == 0, trial.driver.tail()
    return trial, cut_short


def check(trial: Trial, cut_short: int, spark: SparkSession, output: Path) -> None:
    files = visible_files(output)
    raw = pa.concat_tables(map(pq.read_table, files))
    print(f"\n{raw.num_rows} rows in {len(files)} files for {MESSAGES} messages; {cut_short} files of epochs that were")
    print(f"cut short; {trial.report()}")
    assert raw.num_rows == MESSAGES
    assert sorted(raw["number"].to_pylist()) == list(range(MESSAGES))
    rows = spark.read.parquet(str(output))
    assert rows.count() == MESSAGES
    places = rows.groupBy("broker", "queue_id").agg({"queue_offset": "max", "*": "count"}).collect()
    assert len(places) == 2 * QUEUES_PER_BROKER
    assert all(place["max(queue_offset)"] == place["count(1)"] - 1 for place in places)

    assert set(trial.kills) == set(VICTIMS)
    # Epochs after the first, whose rows were partly in files when they were cut short.
    assert trial.replayed
    assert min(trial.replayed) > 0
    assert cut_short
    assert not staged_files(output)
    # What a driver asks are offsets and routes; the messages themselves go to executors, and to nobody else.
    assert trial.traffic.executors_bytes > MESSAGES * PADDING / 2
    assert trial.traffic.driver_bytes < trial.traffic.executors_bytes / 20


@pytest.mark.timeout(7_200 if IS_SOAK else 1_200)
@pytest.mark.parametrize("any_world", [OURS, APACHES] if IS_SOAK else [OURS], indirect=True)
def test_each_message_is_in_the_files_once(
    any_world: World, standalone: Standalone, spark: SparkSession, tmp_path: Path
) -> None:
    check(*play(any_world, standalone, tmp_path), spark, output_of(tmp_path))
