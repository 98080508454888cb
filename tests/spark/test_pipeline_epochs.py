"""Epochs of pipelines of files: of which all is computed, that are done again, or that break a rule."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from apogeemq.errors import ConfigError, PipelineFailed, StorageFailed, WrongState
from apogeemq.spark.pipeline.epoch_files import EpochFiles
from apogeemq.spark.pipeline.hadoop_files import HadoopFolder
from apogeemq.spark.pipeline.planning import make_plan
from apogeemq.spark.pipeline.progress import State
from apogeemq.spark.pipeline.sessions import prepared
from tests.spark.pipeline_runs import Runs

pytestmark = pytest.mark.timeout(300)

COUNTED = """\
[pipeline]
name = "counted"
[spark.conf]
"spark.sql.shuffle.partitions" = "8"
[sources.events]
format = "json"
stream = true
path = "{folder}/in"
schema = "id INT, at TIMESTAMP"
options = {{ maxFilesPerTrigger = 1 }}
watermark = {{ column = "at", delay = "1 minute" }}
[steps.counts]
sql = "SELECT window(at, '1 minute').start AS minute, id, count(*) AS n FROM events GROUP BY window(at, '1 minute'), id"
"""
SHOWN = """\
[sinks.shown]
from = "counts"
kind = "console"
mode = "update"
options = { rows = 1 }
"""
FILES = """\
[sinks.files]
from = "counts"
kind = "json"
path = "{folder}/out"
"""


def put(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def at(minute: int, ids: range) -> list[dict[str, Any]]:
    return [{"id": number, "at": f"2026-01-01T00:{minute:02d}:00Z"} for number in ids]


def test_a_view_with_state_of_which_a_few_rows_are_shown_goes_on(runs: Runs) -> None:
    """Spark fails a query whose state was not looked through to its end."""
    put(runs.folder, "in/1.json", at(0, range(100)))
    put(runs.folder, "in/2.json", at(0, range(100)))
    status = runs.run(runs.spec(COUNTED.format(folder=runs.folder) + SHOWN))
    assert (status.state, status.queries[0].rows) == (State.FINISHED, 200)
    assert [rows[0][2] for _, _, _, rows in runs.tables] == [1, 2]


def test_a_view_with_state_whose_sinks_have_the_epoch_goes_on(runs: Runs) -> None:
    """As after a crash between the last sink and Spark's own note that the epoch is over."""
    text = COUNTED + FILES
    put(runs.folder, "in/1.json", at(0, range(10)))
    put(runs.folder, "in/2.json", at(5, range(10)))
    spec = runs.spec(text.format(folder=runs.folder))
    status = runs.run(spec)
    commits = sorted(Path(status.checkpoint, "0001/counts-append/commits").glob("[0-9]*"), key=lambda file: file.name)
    commits[-1].unlink()
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink()
    assert runs.run(spec).state is State.FINISHED
    put(runs.folder, "in/3.json", at(20, range(1)))
    put(runs.folder, "in/4.json", at(40, range(1)))
    assert runs.run(spec).state is State.FINISHED
    found = [(row.minute[14:16], row.n) for row in runs.spark.read.json(f"{runs.folder}/out").collect()]
    assert sorted(found) == [("00", 1)] * 10 + [("05", 1)] * 10


PLAIN = """\
[pipeline]
name = "plain"
[sources.events]
format = "json"
stream = true
path = "{folder}/in"
schema = "id INT, `a.b` STRING, properties STRING"
[sources.kinds]
format = "json"
path = "{folder}/kinds"
schema = "kind STRING"
[steps.small]
sql = "SELECT * FROM events"
[sinks.files]
from = "events"
kind = "json"
path = "{folder}/out"
"""


def test_a_rule_of_a_view_that_no_sink_reads_fails_the_pipeline_before_anything_is_written(runs: Runs) -> None:
    put(runs.folder, "in/1.json", [{"id": 1}, {"id": 5}, {"id": 6}])
    (runs.folder / "kinds").mkdir()
    rule = '[quality.small]\naction = "fail"\nrules = { small = "id < 5" }\n'
    with pytest.raises(PipelineFailed, match="2 rows of small break the rule small: id < 5"):
        runs.run(runs.spec(PLAIN.format(folder=runs.folder) + rule))
    assert not (runs.folder / "out").exists()


def test_a_rule_that_fails_looks_at_no_row_that_a_rule_before_it_has_taken_out(runs: Runs) -> None:
    put(runs.folder, "in/1.json", [{"id": 1}, {"properties": "no id"}])
    (runs.folder / "kinds").mkdir()
    guard = '[quality.guard]\nview = "small"\nrules = { has_id = "id IS NOT NULL" }\n'
    rule = '[quality.small]\naction = "fail"\nrules = { small = "id < 5" }\n'
    letters = f'[dead_letters]\nkind = "json"\npath = "{runs.folder}/dead"\n'
    status = runs.run(runs.spec(PLAIN.format(folder=runs.folder) + guard + rule + letters))
    assert (status.state, status.dead_letters) == (State.FINISHED, 1)
    put(runs.folder, "in/2.json", [{"id": 7}])
    with pytest.raises(PipelineFailed, match="a row of small breaks the rule small: id < 5"):
        runs.run(runs.spec(PLAIN.format(folder=runs.folder) + guard + rule + letters))


def test_dead_letters_of_rows_with_columns_of_any_kind(runs: Runs) -> None:
    put(runs.folder, "in/1.json", [{"id": 1}, {"id": 5, "a.b": "x", "properties": "none"}])
    (runs.folder / "kinds").mkdir()
    rule = f'[quality.small.rules]\nsmall = "id < 5"\n[dead_letters]\nkind = "json"\npath = "{runs.folder}/dead"\n'
    assert runs.run(runs.spec(PLAIN.format(folder=runs.folder) + rule)).dead_letters == 1
    (dead,) = runs.spark.read.json(f"{runs.folder}/dead").collect()
    assert json.loads(base64.b64decode(dead.body)) == {"id": 5, "a.b": "x", "properties": "none"}
    assert dead.properties.DLQ_REASON == "small: id < 5"


def test_rules_of_a_table_in_a_pipeline_of_streams_are_refused(runs: Runs) -> None:
    """Nobody could tell which of its rows an epoch has left out."""
    rule = '[steps.known]\nsql = "SELECT * FROM kinds"\n[quality.known]\nrules = { known = "kind IS NOT NULL" }\n'
    letters = f'[dead_letters]\nkind = "json"\npath = "{runs.folder}/dead"\n'
    (runs.folder / "in").mkdir()
    (runs.folder / "kinds").mkdir()
    for more in (rule + letters, rule + 'action = "count"\n'):
        spec = runs.spec(PLAIN.format(folder=runs.folder) + more)
        with prepared(spec, runs.spark) as session, pytest.raises(ConfigError, match="the rule known of known: "):
            make_plan(spec, session)
    spec = runs.spec(PLAIN.format(folder=runs.folder) + rule + 'action = "fail"\n')
    with prepared(spec, runs.spark) as session:
        assert make_plan(spec, session).queries


TABLES = """\
[pipeline]
name = "tables"
[sources.events]
format = "json"
path = "{folder}/{name}.json"
[sinks.files]
from = "events"
kind = "json"
path = "{folder}/out"
[sinks.then]
from = "events"
kind = "jdbc"
options = {{ url = "jdbc:nothing:x", dbtable = "t" }}
"""


def test_a_run_that_did_not_end_is_not_taken_for_one_that_does_something_else(runs: Runs) -> None:
    """The sink that it had written would leave out the other rows."""
    put(runs.folder, "a.json", [{"id": 1}])
    put(runs.folder, "b.json", [{"id": 2}])

    def spec(name: str, *, ends: bool) -> Any:
        text = TABLES.format(folder=runs.folder, name=name)
        return runs.spec(text.partition("[sinks.then]")[0] if ends else text)

    def out() -> list[int]:
        return sorted(row.id for row in runs.spark.read.json(f"{runs.folder}/out").collect())

    for _ in range(2):  # the same again: what is written is left out
        with pytest.raises(PipelineFailed):
            runs.run(spec("a", ends=False))
        assert out() == [1]
    with pytest.raises(ConfigError, match="the last run of tables did not end"):
        runs.run(spec("b", ends=True))
    assert runs.run(spec("b", ends=True), accepts_changes=True).state is State.FINISHED
    assert out() == [1, 2]
    assert runs.run(spec("a", ends=True)).state is State.FINISHED
    assert out() == [1, 1, 2]


def test_files_of_an_epoch_that_others_have_left_behind_are_not_written(spark: SparkSession, tmp_path: Path) -> None:
    files = EpochFiles(spark, str(tmp_path), "query", "json")
    for epoch in (3, 4):
        files.write(spark.range(1), epoch, (), {})
    (tmp_path / "_epochs/query/00000003.json").unlink()
    (tmp_path / "_epochs/query/00000009.json.abc.tmp").touch()
    with pytest.raises(WrongState, match="epoch 3 comes after epoch 4"):
        files.write(spark.range(1), 3, (), {})
    assert files.write(spark.range(2), 5, (), {}) == 2


def test_files_of_an_epoch_that_is_not_done_again_are_put_in_place_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = EpochFiles(spark, str(tmp_path), "query", "json")
    moved: list[str] = []

    def moves_one(folder: HadoopFolder, name: str, target: str) -> None:
        if moved:
            raise StorageFailed("killed")
        moved.append(name)
        move(folder, name, target)

    move = HadoopFolder.move
    with monkeypatch.context() as patch, pytest.raises(StorageFailed):
        patch.setattr(HadoopFolder, "move", moves_one)
        files.write(spark.range(6, numPartitions=3), 4, (), {})
    assert spark.read.json(str(tmp_path)).count() == 2
    files.write(spark.range(6, 8), 5, (), {})
    assert sorted(row.id for row in spark.read.json(str(tmp_path)).collect()) == list(range(8))
    assert not list((tmp_path / "_staging/query").iterdir())


def test_files_of_a_driver_that_stood_still_while_it_wrote_are_taken_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the line of its epoch was so old that another driver had removed it."""
    slow, quick = (EpochFiles(spark, str(tmp_path), "query", "json") for _ in range(2))

    def meanwhile(folder: HadoopFolder, name: str, data: bytes) -> bool:
        monkeypatch.undo()
        for epoch in (5, 5 + 101):
            quick.write(spark.range(1), epoch, (), {})
        (tmp_path / "_epochs/query/00000005.json").unlink()
        return folder.create(name, data)

    monkeypatch.setattr(HadoopFolder, "create", meanwhile)
    with pytest.raises(WrongState, match="epoch 5 comes after epoch 106"):
        slow.write(spark.range(1), 5, (), {})
    assert spark.read.json(str(tmp_path)).count() == 2
    assert not (tmp_path / "_epochs/query/00000005.json").exists()


def test_rows_whose_files_nobody_would_see_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    files = EpochFiles(spark, str(tmp_path), "query", "json")
    with pytest.raises(StorageFailed, match="no file of the 2 rows of epoch 0 is to be seen"):
        files.write(spark.range(2).selectExpr("id", "id AS `.part`"), 0, (".part",), {})


def test_files_of_tasks_that_nobody_waited_for_are_not_taken(spark: SparkSession, tmp_path: Path) -> None:
    files = EpochFiles(spark, str(tmp_path), "query", "json")
    files.write(spark.range(4).selectExpr("id", "id % 2 AS _part"), 0, ("_part",), {})
    kept = [file for file in tmp_path.rglob("*.json") if file.parent.name.startswith("_part=")]
    assert len(kept) >= 2
    stray = tmp_path / "somewhere/_temporary/0/part-0.json"
    stray.parent.mkdir(parents=True)
    stray.write_text("{}")
    assert files._folder.data_files("somewhere") == []
