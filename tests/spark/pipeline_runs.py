"""What tests of pipelines share: runs of one test in one folder, and a pipeline of orders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from apogeemq.spark.pipeline.progress import PipelineStatus
from apogeemq.spark.pipeline.reading import read_pipeline
from apogeemq.spark.pipeline.running import run_pipeline
from apogeemq.spark.pipeline.spec import PipelineSpec
from apogeemq.spark.pipeline.status import StateFolder

ORDERS = '''\
[pipeline]
name = "orders"
[params]
server = {}
topic = {}
out = {}
[sources.orders]
format = "rocketmq"
options = { nameServer = "${server}", subscribe = "${topic}", startingOffsets = "earliest" }
[sources.orders.decode]
format = "json"
schema = "id INT, product STRING, price DECIMAL(10,2), at TIMESTAMP"
[quality.orders.rules]
positive = "value.price > 0"
[dead_letters]
topic = "${topic}-dead"
options = { nameServer = "${server}" }
[steps.lines]
sql = "SELECT value.*, topic, broker, queue_id, queue_offset FROM orders"
watermark = { column = "at", delay = "1 minute" }
[sinks.files]
from = "lines"
kind = "parquet"
path = "${out}/lines"
partition_by = ["product"]
[sinks.copy]
from = "lines"
kind = "topic"
topic = "${topic}-copy"
options = { nameServer = "${server}" }
[steps.totals]
sql = """
SELECT window(at, '1 minute').start AS minute, product, sum(price) AS total, count(*) AS n
FROM lines GROUP BY window(at, '1 minute'), product
"""
[sinks.totals]
from = "totals"
kind = "topic"
topic = "${topic}-totals"
mode = "update"
id_columns = ["minute", "product"]
options = { nameServer = "${server}" }
'''


class Runs:
    """Pipelines of one test: their files, states and outputs in one folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.tables: list[tuple[str, int, list[str], list[Any]]] = []

    def spec(self, text: str, **params: str) -> PipelineSpec:
        file = self.folder / "pipeline.toml"
        file.write_text(text)
        return read_pipeline(file, params)

    def state(self, spec: PipelineSpec) -> StateFolder:
        return StateFolder(self.folder / "states" / spec.name)

    def run(self, spec: PipelineSpec, **more: Any) -> PipelineStatus:
        def show(name: str, epoch: int, columns: Any, rows: Any) -> None:
            self.tables.append((name, epoch, list(columns), list(rows)))

        return run_pipeline(spec, self.spark, self.state(spec), on_table=show, **more)


def order(number: int, **changes: Any) -> bytes:
    product = ("apple", "pear")[number % 2]
    return json.dumps(
        {"id": number, "product": product, "price": 2.5, "at": "2026-01-01T00:00:30Z", **changes}
    ).encode()
