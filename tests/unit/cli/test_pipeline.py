"""`apogee pipeline`: what needs no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from apogeemq.spark.pipeline.progress import PipelineStatus, QueryStatus, SourceStatus, State
from apogeemq.spark.pipeline.status import StateFolder
from tests.unit.cli.commands import run

GOOD = """\
[pipeline]
name = "p"
[params]
where = "/x"
[sources.a]
format = "parquet"
path = "${where}"
[sinks.s]
from = "a"
kind = "console"
"""
WITH_STREAM = f"""\
{GOOD.replace('from = "a"', 'from = "b"')}
[sources.b]
format = "rocketmq"
options = {{ nameServer = "h:1", subscribe = "t" }}
"""


def pipeline_file(folder: Path, text: str = GOOD) -> str:
    (folder / "p.toml").write_text(text)
    return str(folder / "p.toml")


@pytest.mark.parametrize("command", ["run", "validate", "explain", "list", "status", "stop", "replay"])
def test_help_everywhere(tmp_path: Path, command: str) -> None:
    ended = run("main", "pipeline", command, "--help", home=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Usage: apogee pipeline" in ended.stdout


def test_brackets_in_help_are_shown(tmp_path: Path) -> None:
    assert "A value of [params]; may be repeated." in run("main", "pipeline", "run", "--help", home=tmp_path).stdout


def test_a_second_run_is_refused_before_spark_starts(tmp_path: Path) -> None:
    file = pipeline_file(tmp_path)
    folder = kept_status(tmp_path, State.STARTING)
    with folder.held():
        ended = run("main", "pipeline", "run", file, home=tmp_path)
    beside = "--state names another folder of states, to run a second one beside it"
    assert ended == (2, "", f"apogee: the pipeline p is running as process 42; {beside}\n")


def test_validate_good(tmp_path: Path) -> None:
    file = pipeline_file(tmp_path)
    ended = run("main", "pipeline", "validate", file, "--param", "where=/y", home=tmp_path)
    assert ended == (0, f"{file} is good: 1 source, 1 sink\n", "")


def test_validate_says_all_errors_with_their_lines(tmp_path: Path) -> None:
    file = pipeline_file(tmp_path, GOOD.replace('"a"', '"b"').replace("console", "consle"))
    ended = run("main", "pipeline", "validate", file, home=tmp_path)
    first, second, last = ended.stdout.splitlines()
    assert (ended.returncode, ended.stderr) == (1, "")
    assert first == f"{file}:9: sinks.s.from: there is no view b; there is a"
    assert second.startswith(f"{file}:10: sinks.s.kind: 'consle' is not one of topic, ")
    assert last == "2 errors"
    found = json.loads(run("main", "pipeline", "validate", file, "--json", home=tmp_path).stdout)
    assert found == {"file": file, "is_valid": False, "problems": [first, second]}


def test_a_bad_file_is_not_run(tmp_path: Path) -> None:
    file = pipeline_file(tmp_path, GOOD.replace('"a"', '"b"'))
    ended = run("main", "pipeline", "run", file, home=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (f"apogee: {file} has an error:\n  {file}:9: sinks.s.from: there is no view b; there is a\n")
    assert run("main", "pipeline", "run", "nowhere", home=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "FILE", "--param", "where"], "'where': expected NAME=VALUE"),
        (["run", "FILE", "--once", "--continuous"], "--once and --continuous contradict each other"),
        (["replay", "FILE", "--from", "yesterday"], "yesterday: expected a date and time such as"),
        (["replay", "FILE", "--from", "2h", "--param", "x=y"], "there is no parameter x"),
        (["status", "none"], "no pipeline none has run here"),
        (["stop", "none"], "no pipeline none has run here"),
    ],
)
def test_wrong_commands(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    file = pipeline_file(tmp_path)
    ended = run("main", "pipeline", *(file if word == "FILE" else word for word in arguments), home=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert sentence in ended.stderr


def test_without_the_extra_it_is_one_sentence(tmp_path: Path) -> None:
    file = pipeline_file(tmp_path, WITH_STREAM)
    with patch.dict(
        sys.modules, {"pyspark": None, "pyspark.sql": None, "pyspark.sql.datasource": None, "pyarrow": None}
    ):
        assert run("main", "pipeline", "validate", file, home=tmp_path).returncode == 0
        for command in (["run", file], ["explain", file], ["replay", file, "--from", "2h", "--yes"]):
            ended = run("main", "pipeline", *command, home=tmp_path)
            assert ended.returncode == 2
            assert "pip install 'apogeemq[spark]'" in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        ("n\n", "Nothing has been done.\n"),
        ("", "\nThere was no answer; --yes gives it beforehand.\nNothing has been done.\n"),
    ],
)
def test_a_replay_says_what_it_does_and_asks(tmp_path: Path, answer: str, end: str) -> None:
    file = pipeline_file(tmp_path, WITH_STREAM)
    command = [sys.executable, "-m", "apogeemq.cli.main", "pipeline", "replay", file, "--from", "2026-01-31T12:00"]
    ended = subprocess.run(command, input=answer, capture_output=True, text=True)
    assert ended.returncode == 130
    assert ended.stderr.endswith(end)
    assert ended.stderr.splitlines()[:3] == [
        "p begins a new checkpoint; the old one stays beside it, unused.",
        "  b: messages stored since 2026-01-31 12:00:00 are read again.",
        "  s: keeps what it has, and gets the rows that are read again, as new ones.",
    ]


@pytest.mark.parametrize("yes", [[], ["--yes"]])
def test_tables_are_not_replayed(tmp_path: Path, yes: list[str]) -> None:
    ended = run("main", "pipeline", "replay", pipeline_file(tmp_path), "--from", "2h", *yes, home=tmp_path)
    sentence = "p has no streams: there is no moment to read it again from; each run reads all its tables"
    assert ended == (2, "", f"apogee: {sentence}\n")


def kept_status(home: Path, state: State, error: str | None = None) -> StateFolder:
    source = SourceStatus("rocketmq", None, {"t": {"a": {"0": 3}}}, {"t": {"a": {"0": 1004}}}, 1001)
    query = QueryStatus(name="orders", rows=12_345, lag=1001, dead_letters=7, sources=[source], sinks={"files": 12_338})
    status = PipelineStatus(
        name="p", state=state, process=42, file="p.toml", log_file="/l/spark.log", queries=[query], error=error
    )
    folder = StateFolder(home / ".apogee" / "pipelines" / "p")
    folder.write(status)
    return folder


def test_status(tmp_path: Path) -> None:
    assert run("main", "pipeline", "status", home=tmp_path).stdout == "No pipeline has run here.\n"
    kept_status(tmp_path, State.FINISHED)
    ended = run("main", "pipeline", "status", "p", home=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    for word in ("finished", "12,345 rows", "lag 1,001", "files 12,338", "t a: 0=1004", "/l/spark.log"):
        assert word in ended.stdout
    found = json.loads(run("main", "pipeline", "status", "p", "--json", home=tmp_path).stdout)
    assert (found["state"], found["queries"][0]["lag"]) == ("finished", 1001)
    kept_status(tmp_path, State.FAILED, "the disk is full")
    ended = run("main", "pipeline", "status", home=tmp_path)
    assert ended.returncode == 1
    assert "last error: the disk is full" in ended.stdout


def test_what_is_no_terminal_gets_whole_lines(tmp_path: Path) -> None:
    kept_status(tmp_path, State.FAILED, "the disk is full, " * 20)
    ended = run("main", "pipeline", "status", "p", home=tmp_path, env={"COLUMNS": "40"})
    assert f"last error: {'the disk is full, ' * 20}".rstrip() in ended.stdout
    assert " t a: 0=3 " in ended.stdout


def test_list(tmp_path: Path) -> None:
    kept_status(tmp_path, State.STOPPED)
    ended = run("main", "pipeline", "list", home=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    for word in ("archive", "mirror", "stopped", "12,345"):
        assert word in ended.stdout
    found = json.loads(run("main", "pipeline", "list", "--json", home=tmp_path).stdout)
    assert found["pipelines"][0]["name"] == "p" and "mirror" in found["ready"]


def test_a_damaged_status_is_shown_as_such(tmp_path: Path) -> None:
    kept_status(tmp_path, State.FINISHED)
    damaged = tmp_path / ".apogee" / "pipelines" / "q" / "status.json"
    damaged.parent.mkdir()
    damaged.write_text("{")
    for command, status in (("list", 0), ("status", 1)):
        ended = run("main", "pipeline", command, home=tmp_path)
        assert (ended.returncode, ended.stderr) == (status, "")
        assert "finished" in ended.stdout and "damaged" in ended.stdout
    assert f"last error: {damaged} is damaged: " in ended.stdout
    found = json.loads(run("main", "pipeline", "list", "--json", home=tmp_path).stdout)
    assert [(one["name"], one["state"]) for one in found["pipelines"]] == [("p", "finished"), ("q", "damaged")]
    ended = run("main", "pipeline", "status", "q", "--json", home=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"apogee: {damaged} is damaged: ")


def test_stop(tmp_path: Path) -> None:
    folder = kept_status(tmp_path, State.RUNNING)
    ended = run("main", "pipeline", "stop", "p", home=tmp_path)
    assert ended == (1, "", "The pipeline p is not running: failed.\n")
    folder.acquire()
    try:
        ended = run("main", "pipeline", "stop", "p", "--timeout", "0", home=tmp_path)
        assert ended.returncode == 1 and "has not ended in 0 seconds" in ended.stderr
        assert folder.is_asked_to_stop()
    finally:
        folder.release()


def test_py_files(tmp_path: Path) -> None:
    ended = run("main", "spark", "py-files", str(tmp_path / "x.zip"), home=tmp_path)
    assert ended == (0, f"{tmp_path / 'x.zip'}\n", "")
    assert (tmp_path / "x.zip").stat().st_size > 10_000
    ended = run("main", "spark", "py-files", str(tmp_path / "no" / "x.zip"), home=tmp_path)
    assert ended.returncode == 2 and "No such file or directory" in ended.stderr
