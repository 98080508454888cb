"""Pipelines on a real Spark, with real brokers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from apogeemq.errors import ConfigError, PipelineFailed
from apogeemq.spark.jobs.send_samples import COUNT, send_orders
from apogeemq.spark.pipeline.epoch_files import EpochFiles
from apogeemq.spark.pipeline.progress import PipelineStatus, State
from apogeemq.spark.pipeline.reading import read_pipeline
from apogeemq.spark.pipeline.spec import PipelineSpec, Trigger
from tests.peers.process import wait_for
from tests.shop_messages import AVRO_ORDER, ORDER_MESSAGE, avro_body, descriptor_set, protobuf_body
from tests.spark.pipeline_runs import ORDERS, Runs, order
from tests.spark.worlds import World

pytestmark = pytest.mark.timeout(300)


def test_sinks_and_dead_letters_share_out_every_message(
    runs: Runs, world: World, messages: Callable[[str], list[Any]]
) -> None:
    topic = world.topic("orders")
    world.fill(topic, [order(number) for number in range(40)])
    world.fill(topic, [b"not json", b"[1, 2]", b"[]", b'{"id": "x"}', b"\xff\xfe"])
    world.fill(topic, [order(100, price=-1), order(101, price=None)])
    spec = runs.spec(ORDERS, server=world.address, topic=topic, out=str(runs.folder))
    status = runs.run(spec)
    assert (status.state, status.error, status.is_bounded) == (State.FINISHED, None, True)
    assert runs.state(spec).read() == status

    lines = runs.spark.read.parquet(str(runs.folder / "lines"))
    assert sorted(row.id for row in lines.collect()) == list(range(40))
    assert {row.product for row in lines.collect()} == {"apple", "pear"}
    copies = messages(f"{topic}-copy")
    assert sorted(json.loads(row.body)["id"] for row in copies) == list(range(40))
    totals = {json.loads(row.body)["product"]: json.loads(row.body) for row in messages(f"{topic}-totals")}
    assert {product: (found["total"], found["n"]) for product, found in totals.items()} == {
        "apple": (50.0, 20),
        "pear": (50.0, 20),
    }

    dead = messages(f"{topic}-dead")
    rules = sorted(row.properties["DLQ_RULES"] for row in dead)
    assert rules == ["malformed"] * 5 + ["positive"] * 2
    assert {bytes(row.body) for row in dead} >= {b"not json", b"[1, 2]", b"[]", b"\xff\xfe"}
    one = next(row for row in dead if row.properties["DLQ_RULES"] == "positive")
    assert one.properties["DLQ_REASON"] == "positive: value.price > 0"
    assert one.properties["DLQ_PIPELINE"] == "orders" and one.properties["DLQ_VIEW"] == "orders"
    assert one.properties["DLQ_ORIGIN_TOPIC"] == topic and one.properties["DLQ_ORIGIN_OFFSET"].isdecimal()

    by_name = {query.name: query for query in status.queries}
    assert set(by_name) == {"orders", "totals-update"}
    assert (by_name["orders"].rows, by_name["orders"].dead_letters) == (47, 7)
    assert by_name["orders"].broken == {"orders.malformed": 5, "orders.positive": 2}
    assert by_name["orders"].sinks == {"files": 40, "copy": 40}
    assert by_name["orders"].lag == 0

    # Again: only what is new.
    world.fill(topic, [order(41)])
    status = runs.run(spec)
    assert {query.name: query.rows for query in status.queries} == {"orders": 1, "totals-update": 1}
    assert lines.sparkSession.read.parquet(str(runs.folder / "lines")).count() == 41
    assert len(messages(f"{topic}-copy")) == 41
    assert len(messages(f"{topic}-dead")) == 7


SHOP = """\
[pipeline]
name = "{form}"
[sources.orders]
format = "rocketmq"
options = {{ nameServer = "{server}", subscribe = "{topic}", startingOffsets = "earliest" }}
[sources.orders.decode]
format = "{form}"
schema_file = "schema"
{more}
[dead_letters]
topic = "{topic}-dead"
options = {{ nameServer = "{server}" }}
[steps.lines]
sql = "SELECT value.*, queue_id FROM orders"
[sinks.files]
from = "lines"
kind = "parquet"
path = "{folder}/lines"
"""
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_avro(runs: Runs, world: World, messages: Callable[[str], list[Any]]) -> None:
    topic = world.topic("avro")
    orders = [
        {"id": number, "product": "pear", "price": Decimal("2.50"), "at": AT, "note": "x" if number % 2 else None}
        for number in range(20)
    ]
    bodies = [b"\x00\x00\x00\x00\x07" + avro_body(AVRO_ORDER, order) for order in orders]
    world.fill(topic, [*bodies, bodies[0][:-1], bodies[0] + b"!", b"12345", b"1"])
    (runs.folder / "schema").write_text(AVRO_ORDER)
    text = SHOP.format(form="avro", server=world.address, topic=topic, folder=runs.folder, more="skip_bytes = 5")
    status = runs.run(runs.spec(text))
    assert (status.state, status.queries[0].rows, status.queries[0].dead_letters) == (State.FINISHED, 24, 4)
    rows = runs.spark.read.parquet(str(runs.folder / "lines")).drop("queue_id").collect()
    found = sorted((row.asDict() for row in rows), key=lambda row: int(row["id"]))
    assert [{**row, "at": row["at"].astimezone(UTC)} for row in found] == orders
    assert {bytes(row.body) for row in messages(f"{topic}-dead")} == {bodies[0][:-1], bodies[0] + b"!", b"12345", b"1"}


def test_protobuf(runs: Runs, world: World, messages: Callable[[str], list[Any]]) -> None:
    topic = world.topic("protobuf")
    first = {"product": "pear", "count": 3}
    at = {"seconds": int(AT.timestamp())}
    bodies = [
        protobuf_body(id=number, serial=2**64 - 1, state=1, first=first, at=at, lines=[first], counts={"a": number})
        for number in range(20)
    ]
    world.fill(topic, [*bodies, b"\xff\xff", bodies[0][:-1]])
    (runs.folder / "schema").write_bytes(descriptor_set())
    more = f'message = "{ORDER_MESSAGE}"'
    text = SHOP.format(form="protobuf", server=world.address, topic=topic, folder=runs.folder, more=more)
    status = runs.run(runs.spec(text))
    assert (status.state, status.queries[0].rows, status.queries[0].dead_letters) == (State.FINISHED, 22, 2)
    rows = sorted(runs.spark.read.parquet(str(runs.folder / "lines")).collect(), key=lambda row: int(row.id))
    assert [(row.id, row.counts) for row in rows] == [(number, {"a": number}) for number in range(20)]
    assert {(row.serial, row.state, row.at.astimezone(UTC), row.took) for row in rows} == {
        (Decimal(2**64 - 1), "PAID", AT, None)
    }
    assert all(row.first.asDict() == first and [line.asDict() for line in row.lines] == [first] for row in rows)
    assert {bytes(row.body) for row in messages(f"{topic}-dead")} == {b"\xff\xff", bodies[0][:-1]}


FILES = """\
[pipeline]
name = "files"
trigger = "{trigger}"
[sources.events]
format = "json"
stream = true
path = "{folder}/in"
schema = "id INT, kind STRING"
options = {{ maxFilesPerTrigger = 1 }}
[sources.kinds]
format = "json"
path = "{folder}/kinds"
[steps.named]
sql = "SELECT e.id, k.name FROM events e JOIN kinds k ON e.kind = k.kind"
[steps.big]
python = "own_steps:above"
from = "named"
options = {{ least = 2 }}
[sinks.files]
from = "big"
kind = "json"
path = "{folder}/out"
[sinks.seen]
from = "named"
kind = "console"
"""


@pytest.fixture
def files(runs: Runs) -> Callable[[str], PipelineSpec]:
    """A pipeline of files alone: `files(trigger)`."""
    (runs.folder / "own_steps.py").write_text("def above(df, least):\n    return df.where(df.id >= least)\n")
    put(runs, "kinds/k.json", [{"kind": "a", "name": "Anna"}, {"kind": "b", "name": "Bea"}])
    put(runs, "in/1.json", [{"id": 1, "kind": "a"}, {"id": 2, "kind": "b"}])
    put(runs, "in/2.json", [{"id": 3, "kind": "a"}])

    def make(trigger: str) -> PipelineSpec:
        return runs.spec(FILES.format(trigger=trigger, folder=runs.folder))

    return make


def put(runs: Runs, name: str, rows: list[dict[str, Any]]) -> None:
    path = runs.folder / name
    path.parent.mkdir(exist_ok=True)
    (runs.folder / "fresh").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (runs.folder / "fresh").rename(path)


def written(runs: Runs) -> list[tuple[int, str]]:
    return sorted(
        (row["id"], row["name"])
        for file in (runs.folder / "out").glob("*.json")
        for row in map(json.loads, file.read_text().splitlines())
    )


def test_files_python_steps_and_tables(runs: Runs, files: Callable[[str], PipelineSpec]) -> None:
    status = runs.run(files("available-now"))
    assert written(runs) == [(2, "Bea"), (3, "Anna")]
    assert {name for name, *_ in runs.tables} == {"seen"}
    assert sorted(row for *_, rows in runs.tables for row in rows) == [(1, "Anna"), (2, "Bea"), (3, "Anna")]
    assert runs.tables[0][2] == ["id", "name"]
    (query,) = status.queries
    assert (query.name, query.epochs, query.rows, query.sinks["files"]) == ("events", 2, 3, 2)
    assert not list((runs.folder / "out" / "_staging").rglob("*.json"))


def test_a_running_pipeline_can_be_seen_and_stopped(runs: Runs, files: Callable[[str], PipelineSpec]) -> None:
    spec = files("0 seconds")
    state = runs.state(spec)
    ended: list[PipelineStatus] = []
    thread = threading.Thread(target=lambda: ended.append(runs.run(spec)))
    thread.start()
    try:
        wait_for(lambda: written(runs) == [(2, "Bea"), (3, "Anna")], "the first files are written", timeout_s=120)
        seen = state.present()
        assert (seen.state, seen.is_bounded) == (State.RUNNING, False)
        with pytest.raises(ConfigError, match="the pipeline files is running"):
            runs.run(spec)
        put(runs, "in/3.json", [{"id": 4, "kind": "b"}])
        wait_for(lambda: (4, "Bea") in written(runs), "what comes later is written")
    finally:
        state.ask_to_stop()
        thread.join(60)
    assert ended[0].state is State.STOPPED
    assert state.present().state is State.STOPPED
    put(runs, "in/4.json", [{"id": 5, "kind": "a"}])
    runs.run(files("available-now"))
    assert written(runs) == [(2, "Bea"), (3, "Anna"), (4, "Bea"), (5, "Anna")]


def test_a_rule_that_must_hold_fails_the_pipeline(runs: Runs, files: Callable[[str], PipelineSpec]) -> None:
    files("available-now")
    text = FILES.format(trigger="available-now", folder=runs.folder)
    spec = runs.spec(text + '[quality.named]\naction = "fail"\nrules = { small = "id < 3" }\n')
    with pytest.raises(PipelineFailed, match="a row of named breaks the rule small: id < 3"):
        runs.run(spec)
    status = runs.state(spec).present()
    assert status.state is State.FAILED and status.error is not None and "rule small" in status.error
    # What was written before is kept, and the rest is written when the rule is gone.
    runs.run(runs.spec(text))
    assert written(runs) == [(2, "Bea"), (3, "Anna")]


def test_a_step_that_raises_is_said_in_its_own_words(runs: Runs, files: Callable[[str], PipelineSpec]) -> None:
    spec = files("available-now")
    (runs.folder / "failing.py").write_text(
        "def fails(df):\n    if not df.isStreaming:\n        raise ValueError('no such luck')\n    return df\n"
    )
    text = (runs.folder / "pipeline.toml").read_text().replace("own_steps:above", "failing:fails")
    spec = runs.spec(text.replace("options = { least = 2 }", ""))
    with pytest.raises(PipelineFailed, match="no such luck"):
        runs.run(spec)


# -- an epoch that is done again -----------------------------------------------------------------------------


def test_an_epoch_whose_writing_was_cut_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    files = EpochFiles(spark, str(folder), "query", "parquet")
    assert files.write(spark.range(10).selectExpr("id", "id % 2 AS part"), 0, ("part",), {}) == 10
    assert files.write(spark.range(10, 15).selectExpr("id", "0 AS part"), 1, ("part",), {}) == 5

    # As a crash right after the line of epoch 1 would leave it: one of its files not yet in place.
    line = json.loads((folder / "_epochs/query/00000001.json").read_bytes())
    name = line["files"][0]
    place, _, file = name.rpartition("/")
    staged = folder / line["attempt"] / name
    staged.parent.mkdir(parents=True)
    (folder / place / f"00000001-{file}").rename(staged)
    assert spark.read.parquet(str(folder)).count() < 15
    assert files.write(spark.range(100, 105).selectExpr("id", "0 AS part"), 1, ("part",), {}) == 5
    assert sorted(row.id for row in spark.read.parquet(str(folder)).collect()) == list(range(15))

    # As a crash before the line would leave it: an attempt that counts for nothing.
    stray = folder / "_staging/query/00000002-dead/part=0"
    stray.mkdir(parents=True)
    (stray / "part-0.parquet").write_bytes(b"half a file")
    assert files.write(spark.range(15, 20).selectExpr("id", "0 AS part"), 2, ("part",), {}) == 5
    assert sorted(row.id for row in spark.read.parquet(str(folder)).collect()) == list(range(20))
    assert not stray.exists()
    assert files.write(spark.range(0).selectExpr("id", "0 AS part"), 3, ("part",), {}) == 0
    assert not list(folder.rglob("00000003-*"))


def test_rows_that_the_watermark_has_passed_are_counted(runs: Runs) -> None:
    """As rows of the aggregation: two orders of one product and minute are one."""
    (runs.folder / "in").mkdir()
    spec = runs.spec(
        f"""\
[pipeline]
name = "late"
[sources.orders]
format = "json"
stream = true
path = "{runs.folder}/in"
schema = "product STRING, at TIMESTAMP"
watermark = {{ column = "at", delay = "1 minute" }}
[steps.totals]
sql = "SELECT product, count(*) AS n FROM orders GROUP BY window(at, '1 minute'), product"
[sinks.shown]
from = "totals"
kind = "console"
mode = "update"
[sinks.again]
from = "totals"
kind = "console"
mode = "update"
"""
    )
    late = []
    for number, years in enumerate(([2026, 2100], [2100], [2026, 2026, 2027, 2100])):
        orders = [{"product": "apple", "at": f"{year}-01-01T00:00:00Z"} for year in years]
        put(runs, f"in/{number}.json", orders)
        late.append(runs.run(spec).late_rows)
    assert late == [0, 0, 2]


def test_tables_are_written_once_a_run(runs: Runs) -> None:
    put(runs, "in.json", [{"id": number} for number in range(5)])
    spec = runs.spec(
        f"""\
[pipeline]
name = "tables"
[sources.events]
format = "json"
path = "{runs.folder}/in.json"
[quality.events.rules]
small = "id < 4"
[dead_letters]
kind = "json"
path = "{runs.folder}/dead"
[steps.counted]
sql = "SELECT count(*) AS n FROM events"
[sinks.counted]
from = "counted"
kind = "parquet"
path = "{runs.folder}/out"
[sinks.all]
from = "events"
kind = "console"
"""
    )
    status = runs.run(spec)
    assert (status.state, status.queries[0].dead_letters) == (State.FINISHED, 1)
    runs.run(spec)
    assert [row.n for row in runs.spark.read.parquet(f"{runs.folder}/out").collect()] == [4, 4]
    dead = runs.spark.read.json(f"{runs.folder}/dead").collect()
    assert len(dead) == 2 and dead[0].properties.DLQ_REASON == "small: id < 4"


def test_the_example_of_the_guide_runs(runs: Runs, world: World, messages: Callable[[str], list[Any]]) -> None:
    """With the sample orders, as the guide sends them."""
    send_orders(world.address, "orders")
    file = Path(__file__).parents[2] / "examples" / "pipelines" / "orders.toml"
    spec = read_pipeline(file, {"name_server": world.address, "out": str(runs.folder / "out")})
    as_usual = {**spec.spark_conf, "spark.sql.streaming.noDataMicroBatches.enabled": "true"}  # off in these tests
    status = runs.run(msgspec.structs.replace(spec, trigger=Trigger(), spark_conf=as_usual))
    assert status.dead_letters == 2
    rows = runs.spark.read.parquet(str(runs.folder / "out")).collect()
    assert (sum(row["orders"] for row in rows), len({row["minute"] for row in rows})) == (COUNT - 2, 10)
    sent = [json.loads(message.body, parse_float=Decimal) for message in messages("revenue")]
    assert sum(found["revenue"] for found in sent) == sum(row["revenue"] for row in rows)
    assert {dead.properties["DLQ_PIPELINE"] for dead in messages("orders-dead")} == {"orders-example"}
