"""Rows of a topic in the table of a database: Derby, whose jars come with Spark, inside Spark's own process."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from apogeemq.errors import PipelineFailed
from apogeemq.spark.pipeline.progress import PipelineStatus
from apogeemq.spark.pipeline.reading import read_pipeline
from apogeemq.spark.pipeline.running import run_pipeline
from apogeemq.spark.pipeline.status import StateFolder
from tests.spark.ready import forget_last_epoch
from tests.spark.worlds import World

pytestmark = pytest.mark.timeout(300)

DRIVER = "org.apache.derby.jdbc.EmbeddedDriver"
ORDERS = """\
[pipeline]
name = "orders"
[params]
server = {}
topic = {}
url = {}
table = "ORDERS"
[spark]
conf = { "spark.sql.shuffle.partitions" = 1, "spark.driver.memory" = "700m" }
[sources.orders]
format = "rocketmq"
options = { nameServer = "${server}", subscribe = "${topic}", startingOffsets = "earliest" }
[steps.lines]
sql = "SELECT broker, queue_id, queue_offset, CAST(body AS STRING) AS line FROM orders"
[sinks.database]
from = "lines"
kind = "jdbc"
options = { url = "${url}", dbTable = "${table}", driver = "org.apache.derby.jdbc.EmbeddedDriver", batchsize = 10 }
"""


class Database:
    """One in a folder of the test's own, and the pipeline that fills it."""

    def __init__(self, spark: SparkSession, world: World, folder: Path) -> None:
        self._spark = spark
        self._world = world
        self._state = folder / "state"
        self.file = folder / "orders.toml"
        self.file.write_text(ORDERS)
        self.url = f"jdbc:derby:{folder / 'database'};create=true"
        self.topic = world.topic("jdbc")

    def params(self, **changes: str) -> dict[str, str]:
        return {"server": self._world.address, "topic": self.topic, "url": self.url, **changes}

    def run(self, **changes: str) -> PipelineStatus:
        return run_pipeline(read_pipeline(self.file, self.params(**changes)), self._spark, StateFolder(self._state))

    def forget_last_epoch(self) -> None:
        forget_last_epoch(self._state)

    def execute(self, statement: str) -> None:
        jvm: Any = self._spark._jvm
        connection = jvm.java.sql.DriverManager.getConnection(self.url)
        try:
            connection.createStatement().execute(statement)
        finally:
            connection.close()

    def lines(self, table: str = "ORDERS") -> Counter[str]:
        found = self._spark.read.format("jdbc").options(url=self.url, dbtable=table, driver=DRIVER).load()
        return Counter(row["LINE"] for row in found.toDF(*(name.upper() for name in found.columns)).collect())


@pytest.fixture
def database(spark: SparkSession, world: World, tmp_path: Path) -> Database:
    jvm: Any = spark._jvm
    # Before Derby is first used: its log would be in the current folder.
    jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path.parent / "derby.log"))
    jvm.java.lang.Class.forName(DRIVER)
    return Database(spark, world, tmp_path)


def fill(database: Database, world: World, *numbers: int) -> Counter[str]:
    lines = [f"no. {number}" for number in numbers]
    world.fill(database.topic, (line.encode() for line in lines))
    return Counter(lines)


def test_rows_arrive_in_a_table_that_is_made_for_them(database: Database, world: World) -> None:
    lines = fill(database, world, *range(40))
    status = database.run()
    assert database.lines() == lines
    assert (status.queries[0].rows, dict(status.queries[0].sinks)) == (40, {}), "nobody counted what was written"


def test_rows_of_an_epoch_done_again_arrive_again(database: Database, world: World) -> None:
    """And what the guide advises: a table for what arrives, and a view that has each message once."""
    database.execute("CREATE TABLE arrived (broker VARCHAR(100), queue_id INT, queue_offset BIGINT, line VARCHAR(100))")
    database.execute("CREATE VIEW each_once AS SELECT DISTINCT broker, queue_id, queue_offset, line FROM arrived")
    lines = fill(database, world, *range(20))
    database.run(table="arrived")
    database.forget_last_epoch()
    database.run(table="arrived")
    assert database.lines("arrived") == lines + lines
    assert database.lines("each_once") == lines


def test_a_unique_key_refuses_an_epoch_done_again_in_one_sentence(database: Database, world: World) -> None:
    database.execute(
        """CREATE TABLE keyed ("broker" VARCHAR(100), "queue_id" INT, "queue_offset" BIGINT, "line" VARCHAR(100),
        CONSTRAINT one_place UNIQUE ("broker", "queue_id", "queue_offset"))"""
    )
    lines = fill(database, world, *range(20))
    database.run(table="keyed")
    database.forget_last_epoch()
    with pytest.raises(PipelineFailed, match=r"^[A-Za-z]+Exception: .*duplicate key.*ONE_PLACE") as failed:
        database.run(table="keyed")
    assert "\n" not in str(failed.value)
    assert database.lines("keyed") == lines


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"table": "no such table"}, "^SQLSyntaxErrorException: Syntax error: Encountered"),
        ({"table": "SHAPED"}, "column `broker` is not defined in table `SHAPED`"),
        ({"url": "jdbc:nonsense"}, "could not open a JDBC connection. Check the URL"),
    ],
)
def test_what_cannot_be_written_to_is_said_in_one_sentence(
    database: Database, world: World, changes: dict[str, str], sentence: str
) -> None:
    database.execute("CREATE TABLE shaped (colour INT)")
    fill(database, world, 1)
    with pytest.raises(PipelineFailed, match=sentence) as failed:
        database.run(**changes)
    assert "\n" not in str(failed.value)


def test_the_command_says_no_more_than_that_sentence(database: Database, world: World, tmp_path: Path) -> None:
    fill(database, world, 1)
    params = [f"--param={name}={value}" for name, value in database.params(url="jdbc:derby:absent").items()]
    command = [sys.executable, "-m", "apogeemq.cli.main", "pipeline", "run", str(database.file), "--once", *params]
    ended = subprocess.run([*command, "--state", "states"], capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 1, ended.stderr
    log = tmp_path / "states" / "orders" / "logs" / "spark.log"
    assert ended.stderr.splitlines()[1:] == [
        "apogee: the pipeline orders failed: SQLException: Database 'absent' not found.",
        f"Spark's log: {log}",
    ]
    assert "Exception" not in ended.stdout
    assert "SQLException" in log.read_text()
