"""A program whose executors have none of our package, nor what that needs; it adds up the bodies of a topic.

Run as: python shipped_program.py NAME_SERVER TOPIC FOLDER.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from apogeemq.spark.runtime.session import embedded_session
from tests.spark.archive_program import SETTINGS


def main(name_server: str, topic: str, folder: Path) -> None:
    spark = embedded_session(
        "shipped",
        os.environ["SPARK_MASTER"],
        settings=SETTINGS,
        log_folder=folder / "logs",
        ships_dependencies=True,
    )
    messages = spark.read.format("rocketmq").options(nameServer=name_server, subscribe=topic).load()
    (row,) = messages.selectExpr("sum(cast(cast(body as string) as bigint)) as total").collect()
    print("sum", row["total"], flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
