"""`apogee pipeline run` as people call it: a process with a Spark of its own, watched, interrupted, gone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
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


CASES = {
    "json": ('format = "json"\nschema = "id INT"', [b'{"id": 5}', b"{", b'{"id": 6}']),
    "avro": (
        'format = "avro"\nschema_file = "order.avsc"\nskip_bytes = 5',
        [avro_order(5, "five"), b"\0\0\0\0\7\xff", avro_order(6, "six")],
    ),
    "protobuf": (
        'format = "protobuf"\nschema_file = "order.desc"\nmessage = "shop.Order"',
        [bytes([1 << 3, 5]), b"\xff\xff\xff", bytes([1 << 3, 6])],
    ),
}


def jars_for(form: str) -> str:
    """Spark's module for a format, which PySpark lacks, in the version that the runner would take."""
    if form == "json":
        return ""
    artifact = f"org.apache.spark:spark-{form}_2.13:{pyspark.__version__}"
    try:
        folder = apache.resolve_jars(
            f"Spark's module for {form}", f"spark-{form}-{pyspark.__version__}", [artifact], alone=True
        )
    except apache.PeersUnavailable as unavailable:
        pytest.skip(str(unavailable))
    return ",".join(str(path) for path in sorted(folder.glob("*.jar")))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "apogeemq.cli.main", "pipeline", *arguments]


def status_of(state: Path) -> dict[str, Any]:
    ended = subprocess.run(command("status", "bodies", "--json", "--state", str(state)), capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ended.stdout or "{}")
    return found


def rows(folder: Path) -> list[Any]:
    return [json.loads(line) for file in folder.glob("*.json") for line in file.read_text().splitlines()]


@pytest.mark.parametrize("form", CASES)
def test_a_process_decodes_bodies_until_it_is_interrupted(spark: SparkSession, tmp_path: Path, form: str) -> None:
    decode, bodies = CASES[form]
    text = BODIES.format(folder=tmp_path, jars=jars_for(form), decode=decode)
    (tmp_path / "pipeline.toml").write_text(text)
    (tmp_path / "order.desc").write_bytes(descriptor_set())
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    frame = spark.createDataFrame(list(enumerate(bodies)), "number INT, body BINARY").coalesce(1)
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
    assert (bytes(dead.body), dead.properties["DLQ_RULES"]) == (bodies[1], "malformed")
    lines = [json.loads(line) for line in (tmp_path / "out.log").read_text().splitlines()]
    assert lines[-1]["state"] == "stopped" and status_of(state)["state"] == "stopped"
    assert "starting Spark; its log:" in (tmp_path / "err.log").read_text()
    assert (state / "bodies" / "logs" / "spark.log").exists()


def test_a_spark_that_cannot_start_is_one_sentence(tmp_path: Path) -> None:
    text = BODIES.format(folder=tmp_path, jars="", decode=CASES["json"][0])
    (tmp_path / "pipeline.toml").write_text(text.replace("[spark]\n", '[spark]\npackages = ["no.such:package:1"]\n'))
    arguments = command("run", str(tmp_path / "pipeline.toml"), "--state", str(tmp_path / "states"))
    ended = subprocess.run(arguments, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "apogee: Spark did not start with the packages no.such:package:1" in ended.stderr
    assert "Traceback" not in ended.stderr
