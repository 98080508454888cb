"""Dead letters in a topic, of messages that leave them little room."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from apogeemq.blocking import Message
from apogeemq.spark.pipeline.progress import State
from apogeemq.spark.pipeline.reading import read_pipeline
from apogeemq.spark.pipeline.running import run_pipeline
from apogeemq.spark.pipeline.status import StateFolder
from apogeemq.spark.sink.letter_size import TRUNCATED, fitting
from tests.spark.pipeline_runs import Runs
from tests.spark.worlds import World

pytestmark = pytest.mark.timeout(300)

PIPELINE = """\
[pipeline]
name = "letters"
[sources.orders]
format = "rocketmq"
options = {{ nameServer = "{server}", subscribe = "{topic}", startingOffsets = "earliest" }}
[sources.orders.decode]
format = "json"
schema = "id INT"
[steps.texts]
sql = "SELECT CAST(body AS STRING) AS text, length(body) AS size FROM orders"
[quality.texts.rules]
short = "size < 100"
[dead_letters]
topic = "{topic}-dead"
options = {{ nameServer = "{server}", maxMessageBytes = 50_000, batchBytes = 50_000 }}
[sinks.seen]
from = "texts"
kind = "console"
"""
LARGE = "x" * 31_500


def test_a_letter_fits_whatever_its_message_was(spark: SparkSession, world: World, tmp_path: Path) -> None:
    topic = world.topic("letters")
    world.send(
        Message(topic, b"small", properties={"own": "1"}),
        Message(topic, b"properties", properties={"a": "1", "large": LARGE, "z": "2"}, keys=("k",), tags="t"),
        Message(topic, b"keys", properties={"a": "1"}, keys=(LARGE,), tags="t"),
        Message(topic, b"body" * 20_000),
        Message(topic, b'{"id":1, "more": "' + "é".encode() * 40_000 + b'"}'),
    )
    (tmp_path / "p.toml").write_text(PIPELINE.format(server=world.address, topic=topic))
    spec = read_pipeline(tmp_path / "p.toml")
    status = run_pipeline(spec, spark, StateFolder(tmp_path / "state"))
    assert (status.state, status.dead_letters) == (State.FINISHED, 5)
    read = spark.read.format("rocketmq").options(**world.options, subscribe=f"{topic}-dead").load()
    found = {bytes(row.body)[:5]: row for row in read.collect()}
    assert {name for name, row in found.items() if TRUNCATED not in row.properties} == {b"small"}
    row = found[b"prope"]
    assert {name: row.properties.get(name) for name in ("a", "large", "z")} == {"a": "1", "large": None, "z": "2"}
    assert (row["keys"], row.tags, row.properties[TRUNCATED]) == (["k"], "t", "true")
    assert row.properties["DLQ_RULES"] == "malformed" and row.properties["DLQ_ORIGIN_TOPIC"] == topic
    assert found[b"keys"].properties["a"] == "1"
    assert {name: len(row.body) for name, row in found.items() if len(row.body) > 1000} == {
        b"bodyb": 50_000,
        b'{"tex': 50_000,
    }


def test_what_is_left_out(spark: SparkSession) -> None:
    """Only as much as it takes, and whatever no message can hold."""
    made = {"DLQ_REASON": "r" * 2000, "DLQ_RULES": "n\x01" + "n" * 3000}
    rows = [
        (b"reason", {**made, "own": "o" * 30_000}, ["k"], "t"),
        (b"own", {**made, "a": "a" * 20_000, "b": "b" * 20_000, "c": "c"}, ["k"], "t"),
        (b"names", {**made, "a": "a" * 20_000}, ["k" * 32_000, None], "t" * 31_000),
        (b"many", {**made, **{f"p{number:05}": "é" for number in range(5000)}}, None, None),
        (b"odd", {**made, "a\x01": "x", "b": "y\x02", "c": "", "KEYS": "z", "d": "1"}, ["\x01k"], "\x02t"),
    ]
    schema = "body BINARY, properties MAP<STRING, STRING>, keys ARRAY<STRING>, tags STRING"
    fitted = fitting(spark.createDataFrame(rows, schema).coalesce(1), {}).collect()
    found = {bytes(row.body): row for row in fitted}
    for row in fitted:
        size = sum(len((name + value).encode()) + 2 for name, value in row.properties.items())
        names = " ".join(key or "" for key in row["keys"] or []) + (row.tags or "")
        assert size + len(names) < 32_000 and row.properties[TRUNCATED] == "true"
        assert row.properties["DLQ_RULES"] == "n " + "n" * 498
    assert found[b"reason"].properties["DLQ_REASON"] == "r" * 100 + "…"
    assert len(found[b"reason"].properties["own"]) == 30_000
    assert {"a", "c"} <= set(found[b"own"].properties) and "b" not in found[b"own"].properties
    assert (found[b"names"]["keys"], found[b"names"].tags, "a" in found[b"names"].properties) == (
        None,
        "t" * 31_000,
        False,
    )
    assert len(found[b"many"].properties) > 2500
    odd = found[b"odd"]
    assert ({name for name in odd.properties if "DLQ" not in name}, odd["keys"], odd.tags) == ({"d"}, [" k"], " t")


BASKETS = """\
[pipeline]
name = "baskets"
[sources.baskets]
format = "rocketmq"
options = {{ nameServer = "{server}", subscribe = "{topic}", startingOffsets = "earliest" }}
[steps.items]
sql = "SELECT * EXCEPT (body), explode(split(CAST(body AS STRING), ',')) AS item FROM baskets"
[quality.items.rules]
whole = "item NOT LIKE 'broken%'"
[dead_letters]
topic = "{topic}-dead"
options = {{ nameServer = "{server}" }}
[sinks.files]
from = "items"
kind = "parquet"
path = "{folder}/items"
"""


def test_each_bad_row_of_one_message_is_a_dead_letter(
    runs: Runs, world: World, messages: Callable[[str], list[Any]]
) -> None:
    topic = world.topic("baskets")
    world.fill(topic, [b"pear,broken pear,broken pear,broken apple", b"broken pear"])
    spec = runs.spec(BASKETS.format(server=world.address, topic=topic, folder=runs.folder))
    assert runs.run(spec).queries[0].dead_letters == 4
    dead = messages(f"{topic}-dead")
    assert sorted(json.loads(row.body)["item"] for row in dead) == ["broken apple", *["broken pear"] * 3]
    assert len({row.msg_id for row in dead}) == 4
    assert {row.properties["DLQ_ORIGIN_TOPIC"] for row in dead} == {topic}
