"""A program with a streaming query from a topic to another by the topic sink, for tests that kill it.

Run as: python topic_copy_program.py NAME_SERVER SOURCE TARGET FOLDER EPOCH_SIZE. It ends when FOLDER/stop exists. Until
FOLDER/hurry exists rows come slowly, so that there is a middle of an epoch to be killed in.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from apogeemq.spark.arrow_map import map_in_arrow
from apogeemq.spark.runtime.session import embedded_session
from apogeemq.spark.sink.epochs import TopicSink
from tests.spark.archive_program import SETTINGS

ROWS_AT_ONCE = 100


def paced(hurry: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield batch.slice(start, ROWS_AT_ONCE)
            if not hurry.exists():
                time.sleep(0.1)


def main(name_server: str, source: str, target: str, folder: Path, epoch_size: str) -> None:
    settings = {**SETTINGS, "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_AT_ONCE)}
    spark = embedded_session("copy", os.environ["SPARK_MASTER"], settings=settings, log_folder=folder / "logs")
    messages = (
        spark.readStream.format("rocketmq")
        .options(nameServer=name_server, subscribe=source, startingOffsets="earliest")
        .options(maxOffsetsPerTrigger=epoch_size, minPartitions="4")
        .load()
    )
    rows = messages.select("topic", "broker", "queue_id", "queue_offset", "body")
    options = {"nameServer": name_server, "topic": target, "sendTimeoutMs": "2500", "maxInFlight": "2"}
    sink = TopicSink(spark, options, "", str(folder / "checkpoint" / "sink"))

    def write(batch: DataFrame, epoch: int) -> None:
        sink.write_epoch(map_in_arrow(batch, partial(paced, folder / "hurry"), batch.schema), epoch)
        print("epoch", epoch, sink.last_result, flush=True)

    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint")).start()
    print("started", flush=True)
    while not (folder / "stop").exists():
        if query.awaitTermination(1):
            break
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5])
