"""A program that runs a pipeline from a topic to Parquet files, for tests that kill it.

Run as: python archive_program.py NAME_SERVER TOPIC FOLDER EPOCH_SIZE. It ends when the pipeline is asked to stop.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from apogeemq.spark.pipeline.reading import read_pipeline
from apogeemq.spark.pipeline.running import run_pipeline
from apogeemq.spark.pipeline.status import StateFolder
from apogeemq.spark.runtime.session import embedded_session

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
PIPELINE = """\
[pipeline]
name = "trial"
trigger = "0 seconds"
[params]
name_server = {}
topic = {}
output = {}
epoch_size = {}
[sources.messages]
format = "rocketmq"
[sources.messages.options]
nameServer = "${name_server}"
subscribe = "${topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = "${epoch_size}"
minPartitions = "4"  # work for both executors
[steps.rows]
sql = "SELECT broker, queue_id, queue_offset, CAST(CAST(body AS STRING) AS BIGINT) AS number FROM messages"
[sinks.files]
from = "rows"
kind = "parquet"
path = "${output}"
"""


def output_of(folder: Path) -> Path:
    return folder / "output"


def checkpoint_of(folder: Path) -> Path:
    """Spark's own, of the one query that the pipeline has."""
    return state_of(folder).checkpoint / "0001" / "messages"


def state_of(folder: Path) -> StateFolder:
    return StateFolder(folder / "state" / "trial")


def main(name_server: str, topic: str, folder: Path, epoch_size: str) -> None:
    file = folder / "trial.toml"
    file.write_text(PIPELINE)
    params = {"name_server": name_server, "topic": topic, "output": str(output_of(folder)), "epoch_size": epoch_size}
    spec = read_pipeline(file, params)
    spark = embedded_session("archive", os.environ["SPARK_MASTER"], settings=SETTINGS, log_folder=folder / "logs")
    run_pipeline(spec, spark, state_of(folder))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
