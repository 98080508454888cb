"""What only Spark can say of a pipeline, before anything is read or written."""

from __future__ import annotations

import re

import msgspec
import pytest

from apogeemq.errors import PipelineInvalid
from apogeemq.spark.pipeline.explaining import explain
from apogeemq.spark.pipeline.planning import make_plan
from apogeemq.spark.pipeline.sessions import prepared
from tests.spark.pipeline_runs import ORDERS, Runs

pytestmark = pytest.mark.timeout(300)

SOURCE = """\
[pipeline]
name = "p"
[sources.a]
format = "rocketmq"
options = { nameServer = "127.0.0.1:1", subscribe = "t" }
[sinks.s]
from = "v"
kind = "topic"
topic = "out"
options = { nameServer = "127.0.0.1:1" }
"""


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ("SELECT nothing FROM a", r"steps\.v: .*nothing.* cannot be resolved"),
        (
            "SELECT topic, count(*) AS n FROM a GROUP BY topic",
            r"sinks\.s: rows of v .* after Aggregate .*id_columns",
        ),
        ("SELECT body FROM a", r"sinks\.s: rows of v .* it has no column broker"),
        ("SELECT a.* FROM a JOIN a AS b ON a.msg_id = b.msg_id", r"sinks\.s: rows of v .* after Join "),
        ("SELECT *, 1 AS delay FROM a", r"sinks\.s: column delay cannot be written once"),
        ("SELECT * EXCEPT (keys), 1 AS keys FROM a", r"sinks\.s: column keys is int: expected string or array<string>"),
    ],
)
def test_what_is_refused_before_anything_is_read(runs: Runs, step: str, sentence: str) -> None:
    text = SOURCE + f'[steps.v]\nsql = "{step}"\n'
    (problem,) = problems_of(runs, text)
    table = "[steps.v]" if sentence.startswith("steps") else "[sinks.s]"
    assert re.match(rf":{text.splitlines().index(table) + 1}: {sentence}", problem)


def problems_of(runs: Runs, text: str) -> list[str]:
    """Without the name of the file."""
    spec = runs.spec(text)
    with prepared(spec, runs.spark) as session, pytest.raises(PipelineInvalid) as invalid:
        make_plan(spec, session)
    return [problem.removeprefix(str(spec.file)) for problem in invalid.value.problems]


def test_all_sinks_of_tables_are_checked_before_one_is_written(runs: Runs) -> None:
    (runs.folder / "in.json").write_text('{"id": 1, "part": 0}\n')
    text = f"""\
[pipeline]
name = "tables"
[sources.events]
format = "json"
path = "{runs.folder}/in.json"
[sinks.parts]
from = "events"
kind = "parquet"
path = "{runs.folder}/out"
partition_by = ["prat"]
[sinks.ids]
from = "events"
kind = "topic"
topic = "one"
id_columns = ["di"]
options = {{ nameServer = "127.0.0.1:1" }}
[sinks.nothing]
from = "events"
kind = "topic"
topic = "two"
options = {{ nameServer = "127.0.0.1:1" }}
[sinks.fraction]
from = "halves"
kind = "topic"
topic = "three"
id_columns = ["half"]
options = {{ nameServer = "127.0.0.1:1" }}
[steps.halves]
sql = "SELECT id / 2D AS half FROM events"
"""
    lines = text.splitlines()
    expected = {
        "parts": r"sinks\.parts\.partition_by: events has no column prat; it has id, part",
        "ids": r"sinks\.ids\.id_columns: events has no column di; it has id, part",
        "nothing": r"sinks\.nothing: rows of events .* it has no column broker",
        "fraction": r"sinks\.fraction: option idColumns names half, which is double",
    }
    for (sink, sentence), problem in zip(expected.items(), problems_of(runs, text), strict=True):
        assert re.match(rf":{lines.index(f'[sinks.{sink}]') + 1}: {sentence}", problem)


def test_all_that_only_spark_finds_is_told_at_once_with_its_place(runs: Runs) -> None:
    """Not what follows from it: `after` reads a view that is wrong."""
    text = (
        SOURCE.replace('from = "v"', 'from = "a"')
        + """\
[sources.b]
format = "rocketmq"
options = { nameServer = "127.0.0.1:1", subscribe = "t" }
[steps.one]
sql = "SELECT nothing FROM b"
[steps.two]
sql = "SELECT missing_function(body) FROM b"
[steps.after]
sql = "SELECT whatever FROM one"
[quality.a.rules]
good = "length(body) > 0"
bad = "colour = 'red'"
[dead_letters]
topic = "dead"
options = { nameServer = "127.0.0.1:1" }
"""
    )
    spec = runs.spec(text)
    with prepared(spec, runs.spark) as session, pytest.raises(PipelineInvalid) as invalid:
        make_plan(spec, session)
    expected = {
        "[steps.one]": r"steps\.one: .*nothing",
        "[steps.two]": r"steps\.two: .*missing_function",
        "[quality.a.rules]": r"quality\.a\.rules\.bad: .*colour",
    }
    assert len(invalid.value.problems) == len(expected)
    for (table, sentence), problem in zip(expected.items(), invalid.value.problems, strict=True):
        assert re.match(rf"{spec.file}:{text.splitlines().index(table) + 1}: {sentence}", problem)


def test_what_fails_while_it_is_planned_is_told_with_its_place(runs: Runs) -> None:
    """In Python and in Java: neither is a traceback."""
    (runs.folder / "failing_steps.py").write_text("def first(rows, limit=1): return rows.limit(limit)\n")
    text = (
        SOURCE
        + """\
[sources.prices]
format = "jdbc"
options = { url = "jdbc:nowhere:prices", dbtable = "prices", driver = "no.such.Driver" }
[steps.v]
python = "failing_steps:first"
from = "a"
options = { limt = 5 }
"""
    )
    lines = text.splitlines()
    expected = {
        "[sources.prices]": r"sources\.prices: ClassNotFoundException: no\.such\.Driver",
        "[steps.v]": r"steps\.v: failing_steps:first: TypeError: first\(\) got an unexpected keyword argument 'limt'",
    }
    for (table, sentence), problem in zip(expected.items(), problems_of(runs, text), strict=True):
        assert re.match(rf":{lines.index(table) + 1}: {sentence}", problem)


def test_explain(runs: Runs) -> None:
    spec = runs.spec(ORDERS, server="127.0.0.1:1", topic="t", out="/out")
    found = explain(spec, runs.spark)
    by_name = {query.name: query for query in found.queries}
    assert (by_name["orders"].steps, by_name["orders"].dead_letters_of) == (["lines"], ["orders"])
    assert by_name["totals-update"].keeps_state and not by_name["orders"].keeps_state
    assert {sink.name: sink.promise for query in found.queries for sink in query.sinks} == {
        "files": "exactly once",
        "copy": "effectively once, by id",
        "totals": "effectively once, by id",
    }
    view = next(view for view in found.views if view.name == "lines")
    assert view.is_stream and view.columns["price"] == "decimal(10,2)"
    assert msgspec.json.encode(found)
