"""A program with a streaming query from a topic to Parquet files, for tests that kill it.

Run as: python archive_program.py NAME_SERVER TOPIC FOLDER EPOCH_SIZE. It ends when FOLDER/stop exists.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

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


def main(name_server: str, topic: str, folder: Path, epoch_size: str) -> None:
    spark = embedded_session("archive", os.environ["SPARK_MASTER"], settings=SETTINGS, log_folder=folder / "logs")
    messages = (
        spark.readStream.format("rocketmq")
        .options(nameServer=name_server, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=epoch_size)
        .option("minPartitions", "4")  # work for both executors
        .load()
    )
    rows = messages.selectExpr("broker", "queue_id", "queue_offset", "cast(cast(body as string) as bigint) as number")
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.start(str(folder / "output"))
    print("started", flush=True)
    while not (folder / "stop").exists():
        if query.awaitTermination(1):
            break
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
