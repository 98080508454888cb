"""How a running pipeline is seen within an epoch, and how it ends: after an epoch that is written, not one planned."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from apogeemq.spark.pipeline.progress import PipelineStatus, State
from apogeemq.spark.pipeline.reading import read_pipeline
from apogeemq.spark.pipeline.running import run_pipeline
from apogeemq.spark.pipeline.status import StateFolder
from tests.peers.process import wait_for
from tests.spark.worlds import World

pytestmark = pytest.mark.timeout(300)

STUCK = """\
[pipeline]
name = "stuck"
trigger = "0 seconds"
[sources.numbers]
format = "stuck"
stream = true
options = {{ blocker = "{folder}/blocker" }}
[sinks.out]
from = "numbers"
kind = "json"
path = "{folder}/out"
"""

SHOWN = """\
[pipeline]
name = "shown"
trigger = "{trigger}"
[sources.orders]
format = "rocketmq"
options = {{ nameServer = "{server}", subscribe = "{topic}", startingOffsets = "earliest" }}
[sinks.out]
from = "orders"
kind = "console"
"""


def stuck_source() -> type[DataSource]:
    """It plans its second epoch for as long as a file is there. Made here, so that Spark sends it whole."""

    class Reader(DataSourceStreamReader):
        def __init__(self, blocker: str) -> None:
            self.blocker = blocker
            self.asked = 0

        def initialOffset(self) -> dict[str, int]:
            return {"number": 0}

        def latestOffset(self, *_: Any) -> dict[str, int]:
            import time
            from pathlib import Path

            self.asked += 1
            if self.asked > 1:
                Path(self.blocker + ".waits").touch()
                while Path(self.blocker).exists():
                    time.sleep(0.05)
            return {"number": 5 * self.asked}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
            return [InputPartition((start["number"], end["number"]))]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            return ((number,) for number in range(*partition.value))

    class Stuck(DataSource):
        @classmethod
        def name(cls) -> str:
            return "stuck"

        def schema(self) -> str:
            return "number INT"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return Reader(self.options["blocker"])

    return Stuck


class Watched:
    """A run in a thread of its own, and all that it published."""

    def __init__(self, spark: SparkSession, folder: Path, text: str, on_table: Callable[..., object] | None) -> None:
        (folder / "pipeline.toml").write_text(text)
        self.spec = read_pipeline(folder / "pipeline.toml", {})
        self.state = StateFolder(folder / "states" / self.spec.name)
        self.seen: list[PipelineStatus] = []
        self.thread = threading.Thread(
            target=run_pipeline,
            args=(self.spec, spark, self.state),
            kwargs={"on_status": self.seen.append, "on_table": on_table},
        )

    def has(self, what: Callable[[PipelineStatus], object]) -> bool:
        return any(what(status) for status in self.seen)


@contextmanager
def watched(
    spark: SparkSession, folder: Path, text: str, on_table: Callable[..., object] | None = None
) -> Iterator[Watched]:
    run = Watched(spark, folder, text, on_table)
    run.thread.start()
    try:
        yield run
    finally:
        run.state.ask_to_stop()
        run.thread.join(60)


def test_an_epoch_that_is_only_planned_is_not_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(stuck_source())
    blocker = tmp_path / "blocker"
    blocker.touch()
    try:
        with watched(spark, tmp_path, STUCK.format(folder=tmp_path)) as run:
            wait_for((tmp_path / "blocker.waits").exists, "the second epoch is being planned", timeout_s=120)
            wait_for(lambda: run.has(lambda status: status.rows == 5), "the first is done", timeout_s=60)
            run.state.ask_to_stop()
            wait_for(lambda: not run.thread.is_alive(), "it has ended", timeout_s=60)
    finally:
        blocker.unlink()
    last = run.seen[-1]
    assert (last.state, last.error, last.queries[0].epochs) == (State.STOPPED, None, 1)
    assert last.queries[0].sources[0].description == "numbers (stuck)"


@pytest.mark.parametrize("trigger", ["available-now", "0 seconds"])
def test_an_epoch_is_seen_from_its_beginning_and_finished(
    spark: SparkSession, tmp_path: Path, world: World, trigger: str
) -> None:
    topic = world.topic("orders")
    world.fill(topic, [b"x"] * 15)
    goes_on = threading.Event()
    with watched(
        spark,
        tmp_path,
        SHOWN.format(trigger=trigger, server=world.address, topic=topic),
        lambda *_: goes_on.wait(120),
    ) as run:
        try:
            wait_for(
                lambda: run.has(lambda status: status.queries and status.queries[0].current is not None),
                "an epoch is seen",
                timeout_s=120,
            )
            begun = run.seen[-1].queries[0]
            run.state.ask_to_stop()
            wait_for(lambda: run.has(lambda status: status.state is State.STOPPING), "the wish is seen", timeout_s=60)
            assert run.thread.is_alive()
        finally:
            goes_on.set()
        wait_for(lambda: not run.thread.is_alive(), "it has ended", timeout_s=60)
    assert begun.current is not None
    assert (begun.current.epoch, begun.current.rows, begun.rows) == (0, 15, 0)
    assert (begun.total, begun.lag, begun.sources[0].description) == (15, 15, "orders (rocketmq)")
    (last,) = run.seen[-1].queries
    assert (run.seen[-1].state, last.epochs, last.rows, last.current) == (State.STOPPED, 1, 15, None)
    assert list((tmp_path / "states" / "shown" / "checkpoint").rglob("commits/0"))
