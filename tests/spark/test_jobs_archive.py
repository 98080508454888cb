"""The archive: every message once, in large files in the end, whoever reads and whatever is killed."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from apogeemq.blocking import Message
from apogeemq.errors import StorageFailed
from apogeemq.spark.jobs.archive import PARTITIONS, compact, coverage, coverage_by_topic, read_archive
from apogeemq.spark.pipeline.epoch_files import EpochFiles, EpochLine
from apogeemq.spark.pipeline.reading import read_pipeline
from apogeemq.spark.source.columns import ALL_COLUMNS
from tests.peers.process import Process, wait_for
from tests.spark.ready import run_ready
from tests.spark.worlds import World

pytestmark = pytest.mark.timeout(300)

HOUR_MS = 3_600_000


def later(hours: int = 3) -> int:
    return int(time.time() * 1000) + hours * HOUR_MS


def bodies(spark: SparkSession, archive: Path) -> Counter[bytes]:
    return Counter(bytes(row["body"]) for row in read_archive(spark, archive).select("body").collect())


def files(folder: Path, name: str = "[!._]*.parquet") -> list[Path]:
    return [path for path in sorted(folder.rglob(name)) if "_staging" not in path.parts]


def expected(count: int) -> Counter[bytes]:
    return Counter(b"no. %d" % number for number in range(count))


def test_topics_become_files_by_hour_and_then_fewer_files(
    spark: SparkSession, any_world: World, tmp_path: Path
) -> None:
    topic, other = any_world.topic("archived"), any_world.topic("archived")
    archive = tmp_path / "archive"
    given = {"name_server": any_world.address, "topics": f"{topic}|{other}", "archive": str(archive)}
    any_world.fill(topic, (b"no. %d" % number for number in range(100)))
    run_ready(spark, "archive", tmp_path / "state", **given)
    any_world.fill(topic, (b"no. %d" % number for number in range(100, 300)))
    any_world.send(Message(other, b"no. 300", tags="x", keys=["a", "b"], properties={"colour": "blue"}))
    run_ready(spark, "archive", tmp_path / "state", **given)
    small = files(archive / "recent")
    assert {path.parent.parent.parent.name for path in small} == {f"topic={topic}", f"topic={other}"}
    assert bodies(spark, archive) == expected(301)

    assert compact(spark, archive) == []  # the hour is not over
    (run,) = compact(spark, archive, now_ms=later())
    hours = len({path.parent for path in small})
    assert (run.files_before, run.files_after, run.rows) == (len(small), hours, 301)
    assert len(small) > hours
    assert bodies(spark, archive) == expected(301)
    alone = spark.read.parquet(str(archive / "hours"))
    assert alone.count() == 301
    row = read_archive(spark, archive).where(f"topic = '{other}'").first()
    assert row is not None
    assert (row["tags"], row["keys"], row["properties"]["colour"], len(row["hour"])) == ("x", ["a", "b"], "blue", 2)
    for found in coverage_by_topic(read_archive(spark, archive)).collect():
        assert (found["duplicates"], found["missing"]) == (0, 0)


@pytest.mark.parametrize("name", ["archive", "archive-delta"])
def test_date_and_hour_are_in_utc_on_the_days_when_clocks_change(spark: SparkSession, name: str) -> None:
    moments = ["2026-03-29 00:59:59.9", "2026-03-29 01:30:00", "2026-03-29 02:15:00", "2026-10-25 00:30:00"]
    moments += ["2026-10-25 01:30:00", "2026-10-24 22:30:00", "2026-12-31 23:59:59.999"]
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    others = (f"NULL AS {column}" for column in ALL_COLUMNS if column != "store_timestamp")
    stored = session.createDataFrame([(f"{moment}Z",) for moment in moments], "said STRING")
    stored.selectExpr("CAST(said AS TIMESTAMP) AS store_timestamp", *others).createOrReplaceTempView("messages")
    found = session.sql(read_pipeline(name, {"topics": ".*"}).steps["kept"].sql).select("date", "hour")
    assert [tuple(row) for row in found.collect()] == [(moment[:10], moment[11:13]) for moment in moments]
    assert [kind for _, kind in found.dtypes] == ["string", "string"]


@pytest.fixture
def filled(spark: SparkSession, tmp_path: Path) -> Path:
    """Sixty small files of three topics and two hours, 600 rows; topics with names that files cannot have."""
    archive = tmp_path / "archive"
    rows = spark.range(600).selectExpr(
        "concat('%RETRY%group', id % 3) AS topic",
        "'2024-11-16' AS date",
        "format_string('%02d', id % 2 + 6) AS hour",
        "'broker-a' AS broker",
        "CAST(id DIV 6 % 10 AS INT) AS queue_id",
        "id AS queue_offset",
        "CAST(concat('no. ', id) AS BINARY) AS body",
    )
    rows.repartition(10).write.partitionBy("topic", "date", "hour").parquet(str(archive / "recent"))
    assert len(files(archive / "recent")) == 60
    return archive


def test_large_hours_are_split_by_queue_and_sorted(spark: SparkSession, filled: Path) -> None:
    size = sum(path.stat().st_size for path in files(filled / "recent")) // 6
    (run,) = compact(spark, filled, target_bytes=size // 2)
    assert 6 < run.files_after <= 6 * 3
    for path in files(filled / "hours"):
        places = spark.read.parquet(str(path)).select("broker", "queue_id", "queue_offset").collect()
        assert places == sorted(places)
    assert bodies(spark, filled) == expected(600)
    found = coverage(read_archive(spark, filled)).collect()
    assert {(row["rows"], row["duplicates"]) for row in found} == {(20, 0)}


def test_columns_that_came_later_are_kept(spark: SparkSession, filled: Path) -> None:
    """Somebody added one to their copy of the pipeline."""
    place = "topic=%RETRY%group0/date=2024-11-16/hour=06".replace("%", "%25")
    assert (filled / "recent" / place).is_dir()
    rows = "'broker-a' AS broker, CAST(9 AS INT) AS queue_id, id AS queue_offset, CAST('new' AS BINARY) AS body"
    wider = spark.range(3).selectExpr(*rows.split(", "), "'blue' AS colour").coalesce(1)
    wider.write.mode("append").parquet(str(filled / "recent" / place))
    compact(spark, filled)
    blue = read_archive(spark, filled).where("colour = 'blue'")
    assert (blue.count(), spark.read.parquet(str(filled / "hours")).where("colour = 'blue'").count()) == (3, 3)
    assert read_archive(spark, filled).count() == 603

    for colour in ("'blue'", "true"):
        other = spark.range(1).selectExpr(*rows.split(", "), f"{colour} AS colour")
        other.write.mode("append").parquet(str(filled / "recent" / place.replace("group0", "group3")))
    with pytest.raises(StorageFailed, match="do not go together"):
        compact(spark, filled, now_ms=later())
    assert blue.count() == 3


def test_small_files_go_away_later(spark: SparkSession, filled: Path) -> None:
    now_ms = later()
    compact(spark, filled, now_ms=now_ms)
    compact(spark, filled, now_ms=now_ms + 47 * HOUR_MS)
    assert len(files(filled / "recent")) == 60
    orphan = filled / "recent" / "_staging" / "another" / "00000009-abc"  # of a pipeline that was killed
    orphan.mkdir(parents=True)
    compact(spark, filled, now_ms=now_ms + 49 * HOUR_MS)
    assert files(filled / "recent") == []
    assert bodies(spark, filled) == expected(600)


def test_an_epoch_that_was_cut_off_goes_on_after_days(spark: SparkSession, filled: Path) -> None:
    """It had put one of its files in place. They are compacted, and all others deleted meanwhile."""
    recent, now_ms = filled / "recent", later()
    rows = read_archive(spark, filled).where("queue_id = 0")
    sink = EpochFiles(spark, str(recent), "query", "parquet")
    sink.write(rows.coalesce(1), 1, PARTITIONS, {})
    moved = files(recent, "00000001-*.parquet")
    assert len(moved) == 6
    line = msgspec.json.decode((recent / "_epochs" / "query" / "00000001.json").read_bytes(), type=EpochLine)
    staged = next(name for name in line.files if line.place_of(name) == str(moved[0].relative_to(recent)))
    (recent / line.attempt / staged).parent.mkdir(parents=True)
    moved[0].rename(recent / line.attempt / staged)

    compact(spark, filled, now_ms=now_ms)
    compact(spark, filled, now_ms=now_ms + 49 * HOUR_MS)
    assert files(recent) == moved[1:]
    sink.write(rows.limit(0), 1, PARTITIONS, {})
    assert files(recent) == moved
    compact(spark, filled, now_ms=now_ms + 50 * HOUR_MS)
    assert files(recent) == moved[:1]
    assert read_archive(spark, filled).count() == 660


def test_a_folder_without_messages_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match="has no messages"):
        read_archive(spark, tmp_path)
    assert compact(spark, tmp_path) == []


@pytest.fixture
def compactor(filled: Path) -> Iterator[Process]:
    """`apogee archive compact`, as a person runs it."""
    command = (sys.executable, "-m", "apogeemq.cli.main", "archive", "compact", str(filled), "--master", "local[1]")
    process = Process(command, name="compact", work_dir=filled.parent / "work")
    yield process
    process.kill()


@pytest.mark.timeout(600)
def test_a_compaction_that_is_killed_costs_nothing(spark: SparkSession, filled: Path, compactor: Process) -> None:
    """Once while it writes, once when its run has just come to count; then one is let through."""
    own = filled / "_compaction"
    for moment in ("staging/*/_temporary", "runs/*.json"):
        compactor.launch()
        wait_for(lambda: any(own.glob(moment)), f"{moment} is there", timeout_s=200, interval_s=0.001)  # noqa: B023
        compactor.kill()
        assert bodies(spark, filled) == expected(600)
        if files(filled / "hours"):
            alone = Counter(bytes(row["body"]) for row in spark.read.parquet(str(filled / "hours")).collect())
            assert alone <= expected(600)
    compactor.launch()
    assert compactor.wait(timeout_s=200) == 0, compactor.tail()
    assert bodies(spark, filled) == expected(600)
    assert spark.read.parquet(str(filled / "hours")).count() == 600
    assert not any((own / "staging").glob("*/**/*.parquet"))
