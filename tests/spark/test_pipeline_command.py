"""`apogee pipeline run` as people call it: a process with a Spark of its own, watched, interrupted, gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.peers import apache
from tests.peers.process import wait_for

pytestmark = pytest.mark.timeout(600)

BODIES = """\
[pipeline]
name = "bodies"
trigger = "200ms"
[spark]
conf = {{ "spark.jars" = "{jars}", "spark.sql.shuffle.partitions" = 1, "spark.driver.memory" = "700m" }}
[sources.avro]
format = "parquet"
stream = true
path = "{folder}/avro"
schema = "number INT, body BINARY"
[sources.avro.decode]
format = "avro"
skip_bytes = 5
schema_file = "order.avsc"
[sources.protobuf]
format = "parquet"
stream = true
path = "{folder}/protobuf"
schema = "number INT, body BINARY"
[sources.protobuf.decode]
format = "protobuf"
schema_file = "order.desc"
message = "shop.Order"
[dead_letters]
kind = "parquet"
path = "{folder}/dead"
[sinks.avro]
from = "avro"
kind = "json"
path = "{folder}/out-avro"
[sinks.protobuf]
from = "protobuf"
kind = "json"
path = "{folder}/out-protobuf"
"""


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}],
}


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of a Protobuf message."""
    return bytes([number << 3 | 2, len(content)]) + content


def descriptor_set() -> bytes:
    """`package shop; message Order { optional int32 id = 1; }`"""
    of_id = field(1, b"id") + bytes([3 << 3, 1, 4 << 3, 1, 5 << 3, 5])
    message = field(1, b"Order") + field(2, of_id)
    return field(1, field(1, b"order.proto") + field(2, b"shop") + field(4, message))


def avro_order(number: int, name: str) -> bytes:
    return b"\0\0\0\0\7" + bytes([number << 1, len(name) << 1]) + name.encode()


@pytest.fixture(scope="module")
def jars() -> str:
    """Spark's modules for Avro and Protobuf, which PySpark lacks."""
    artifacts = [f"org.apache.spark:spark-{name}_2.13:4.2.0" for name in ("avro", "protobuf")]
    try:
        folder = apache.resolve_jars("Spark's decoding of Avro and Protobuf", "spark-bodies-4.2.0", artifacts)
    except apache.PeersUnavailable as unavailable:
        pytest.skip(str(unavailable))
    return ",".join(str(path) for path in sorted(folder.glob("spark-[ap][vr]*_2.13-4.2.0.jar")))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "apogeemq.cli.main", "pipeline", *arguments]


def status_of(state: Path) -> dict[str, Any]:
    ended = subprocess.run(command("status", "bodies", "--json", "--state", str(state)), capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ended.stdout or "{}")
    return found


def rows(folder: Path) -> list[Any]:
    return [json.loads(line) for file in folder.glob("*.json") for line in file.read_text().splitlines()]


def test_a_process_decodes_bodies_until_it_is_interrupted(spark: SparkSession, tmp_path: Path, jars: str) -> None:
    (tmp_path / "order.desc").write_bytes(descriptor_set())
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    (tmp_path / "pipeline.toml").write_text(BODIES.format(folder=tmp_path, jars=jars))
    bodies = {
        "avro": [avro_order(5, "five"), b"\0\0\0\0\7\xff", avro_order(6, "six")],
        "protobuf": [bytes([1 << 3, 7]), b"\xff\xff\xff", bytes([1 << 3, 8])],
    }
    for name, found in bodies.items():
        frame = spark.createDataFrame(list(enumerate(found)), "number INT, body BINARY").coalesce(1)
        frame.write.parquet(str(tmp_path / name))
    state = tmp_path / "states"
    arguments = command("run", str(tmp_path / "pipeline.toml"), "--json", "--state", str(state))
    with (tmp_path / "out.log").open("w") as out, (tmp_path / "err.log").open("w") as err:
        process = subprocess.Popen(arguments, stdout=out, stderr=err, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        try:
            wait_for(
                lambda: (
                    process.poll() is not None
                    or (len(rows(tmp_path / "out-avro")) == 2 and len(rows(tmp_path / "out-protobuf")) == 2)
                ),
                "all bodies are written",
                timeout_s=400,
            )
            seen = status_of(state)
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 0, (tmp_path / "err.log").read_text()
        finally:
            process.kill()
    assert seen["state"] == "running"
    assert sorted(row["value"]["name"] for row in rows(tmp_path / "out-avro")) == ["five", "six"]
    assert sorted(row["value"]["id"] for row in rows(tmp_path / "out-protobuf")) == [7, 8]
    dead = spark.read.parquet(str(tmp_path / "dead")).collect()
    assert {bytes(row.body) for row in dead} == {b"\0\0\0\0\7\xff", b"\xff\xff\xff"}
    assert {row.properties["DLQ_RULES"] for row in dead} == {"malformed"}
    lines = [json.loads(line) for line in (tmp_path / "out.log").read_text().splitlines()]
    assert lines[-1]["state"] == "stopped" and status_of(state)["state"] == "stopped"
    assert "starting Spark; its log:" in (tmp_path / "err.log").read_text()
    assert (state / "bodies" / "logs" / "spark.log").exists()
