"""`apogee pipeline run` as people call it: a process with a Spark of its own, watched, interrupted, gone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.peers.process import wait_for

pytestmark = pytest.mark.timeout(600)

BODIES = """\
[pipeline]
name = "bodies"
trigger = "200ms"
[spark]
conf = {{ "spark.sql.shuffle.partitions" = 1, "spark.driver.memory" = "700m" }}
[sources.orders]
format = "parquet"
stream = true
path = "{folder}/in"
schema = "number INT, body BINARY"
[sources.orders.decode]
{decode}
[dead_letters]
kind = "parquet"
path = "{folder}/dead"
[sinks.out]
from = "orders"
kind = "json"
path = "{folder}/out"
"""

DECODE = 'format = "json"\nschema = "id INT"'
ORDERS = [b'{"id": 5}', b"{", b'{"id": 6}']


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "apogeemq.cli.main", "pipeline", *arguments]


def status_of(state: Path) -> dict[str, Any]:
    ended = subprocess.run(command("status", "bodies", "--json", "--state", str(state)), capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ended.stdout or "{}")
    return found


def rows(folder: Path) -> list[Any]:
    return [json.loads(line) for file in folder.glob("*.json") for line in file.read_text().splitlines()]


def test_a_process_decodes_bodies_until_it_is_interrupted(spark: SparkSession, tmp_path: Path) -> None:
    text = BODIES.format(folder=tmp_path, decode=DECODE)
    (tmp_path / "pipeline.toml").write_text(text)
    frame = spark.createDataFrame(list(enumerate(ORDERS)), "number INT, body BINARY").coalesce(1)
    frame.write.parquet(str(tmp_path / "in"))
    state = tmp_path / "states"
    arguments = command("run", str(tmp_path / "pipeline.toml"), "--json", "--state", str(state))
    with (tmp_path / "out.log").open("w") as out, (tmp_path / "err.log").open("w") as err:
        process = subprocess.Popen(arguments, stdout=out, stderr=err)
        try:
            wait_for(
                lambda: process.poll() is not None or len(rows(tmp_path / "out")) == 2,
                "all bodies are written",
                timeout_s=400,
            )
            seen = status_of(state)
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 0, (tmp_path / "err.log").read_text()
        finally:
            process.kill()
    assert seen["state"] == "running"
    assert sorted(row["value"]["id"] for row in rows(tmp_path / "out")) == [5, 6]
    (dead,) = spark.read.parquet(str(tmp_path / "dead")).collect()
    assert (bytes(dead.body), dead.properties["DLQ_RULES"]) == (ORDERS[1], "malformed")
    lines = [json.loads(line) for line in (tmp_path / "out.log").read_text().splitlines()]
    assert lines[-1]["state"] == "stopped" and status_of(state)["state"] == "stopped"
    assert "starting Spark; its log:" in (tmp_path / "err.log").read_text()
    assert (state / "bodies" / "logs" / "spark.log").exists()


def test_a_spark_that_cannot_start_is_one_sentence(tmp_path: Path) -> None:
    text = BODIES.format(folder=tmp_path, decode=DECODE)
    (tmp_path / "pipeline.toml").write_text(text.replace("[spark]\n", '[spark]\npackages = ["no.such:package:1"]\n'))
    arguments = command("run", str(tmp_path / "pipeline.toml"), "--state", str(tmp_path / "states"))
    ended = subprocess.run(arguments, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "apogee: Spark did not start with the packages no.such:package:1" in ended.stderr
    assert "Traceback" not in ended.stderr
