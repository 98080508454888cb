"""`apogee pipeline run` as people call it: a process with a Spark of its own, watched, interrupted, gone."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.peers.process import wait_for
from tests.spark.processes import family

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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_decodes_bodies_until_its_group_is_signalled(
    spark: SparkSession, tmp_path: Path, number: signal.Signals
) -> None:
    text = BODIES.format(folder=tmp_path, decode=DECODE)
    (tmp_path / "pipeline.toml").write_text(text)
    frame = spark.createDataFrame(list(enumerate(ORDERS)), "number INT, body BINARY").coalesce(1)
    frame.write.parquet(str(tmp_path / "in"))
    state = tmp_path / "states"
    arguments = command("run", str(tmp_path / "pipeline.toml"), "--json", "--state", str(state))
    with (tmp_path / "out.log").open("w") as out, (tmp_path / "err.log").open("w") as err:
        process = subprocess.Popen(arguments, stdout=out, stderr=err, start_new_session=True)
        try:
            wait_for(
                lambda: process.poll() is not None or len(rows(tmp_path / "out")) == 2,
                "all bodies are written",
                timeout_s=400,
            )
            seen = status_of(state)
            os.killpg(process.pid, number)
            assert process.wait(120) == 0, (tmp_path / "err.log").read_text()
        finally:
            process.kill()
    assert seen["state"] == "running"
    assert sorted(row["value"]["id"] for row in rows(tmp_path / "out")) == [5, 6]
    (dead,) = spark.read.parquet(str(tmp_path / "dead")).collect()
    assert (bytes(dead.body), dead.properties["DLQ_RULES"]) == (ORDERS[1], "malformed")
    lines = [json.loads(line) for line in (tmp_path / "out.log").read_text().splitlines()]
    assert lines[-1]["state"] == "stopped" and status_of(state)["state"] == "stopped"
    assert (tmp_path / "err.log").read_text() == f"starting Spark; its log: {state}/bodies/logs/spark.log\n"
    assert (state / "bodies" / "logs" / "spark.log").exists()


SLOW = """\
[pipeline]
name = "bodies"
trigger = "0 seconds"
[spark]
conf = { "spark.driver.memory" = "700m" }
[sources.numbers]
format = "rate"
stream = true
options = { rowsPerSecond = "5" }
[steps.slow]
sql = "SELECT value, reflect('java.lang.Thread', 'sleep', 600000L) AS slept FROM numbers"
[sinks.out]
from = "slow"
kind = "console"
"""


def test_a_second_interrupt_leaves_a_terminal_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(SLOW)
    state = tmp_path / "states"
    parent, child = pty.openpty()
    arguments = command("run", str(tmp_path / "pipeline.toml"), "--state", str(state))
    process = subprocess.Popen(arguments, stdin=child, stdout=child, stderr=child, start_new_session=True)
    os.close(child)
    seen = bytearray()
    reader = threading.Thread(target=read_all, args=(parent, seen))
    reader.start()
    try:
        wait_for(lambda: process.poll() is not None or b" tasks" in seen, "an epoch is seen at work", timeout_s=200)
        javas = family(process.pid)[1:]
        process.send_signal(signal.SIGINT)
        wait_for(lambda: b"stopping" in seen, "the wish is seen", timeout_s=60)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130, bytes(seen).decode(errors="replace")
    finally:
        process.kill()
    reader.join(60)
    os.close(parent)
    sentence = b"apogee: bodies: interrupted in the middle of an epoch; the next run does it again"
    assert bytes(seen).endswith(b"\x1b[?25h\r\n" + sentence + b"\r\n")
    assert b"Traceback" not in seen
    found = status_of(state)
    assert (found["state"], found["error"]) == ("stopped", sentence.decode().partition(": bodies: ")[2])
    wait_for(lambda: not any(Path("/proc", str(java)).exists() for java in javas), "Spark has gone", timeout_s=60)


def read_all(descriptor: int, into: bytearray) -> None:
    """To the end, which is an error: nobody is at the other side of the terminal any more."""
    with suppress(OSError):
        while found := os.read(descriptor, 65_536):
            into += found


def test_a_start_is_seen_and_can_be_interrupted(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(SLOW)
    state = tmp_path / "states"
    arguments = command("run", str(tmp_path / "pipeline.toml"), "--state", str(state))
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(family(process.pid)) > 1, "Spark is being started", timeout_s=60)
    assert status_of(state)["state"] == "starting"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[1:] == ["apogee: bodies: interrupted while Spark started; nothing has been done"]
    assert status_of(state)["state"] == "stopped"


def test_a_spark_that_cannot_start_is_one_sentence(tmp_path: Path) -> None:
    text = BODIES.format(folder=tmp_path, decode=DECODE)
    (tmp_path / "pipeline.toml").write_text(text.replace("[spark]\n", '[spark]\npackages = ["no.such:package:1"]\n'))
    arguments = command("run", str(tmp_path / "pipeline.toml"), "--state", str(tmp_path / "states"))
    ended = subprocess.run(arguments, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "apogee: Spark did not start with the packages no.such:package:1" in ended.stderr
    assert "Traceback" not in ended.stderr
