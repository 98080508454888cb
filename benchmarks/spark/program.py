"""A Spark that waits for jobs on standard input: `python -m benchmarks.spark.program FOLDER [JAR…]`.

With jars they are put on its class path; without, the data sources of this package are registered.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from apogeemq.spark.runtime.python import worker_python
from apogeemq.spark.runtime.session import ARROW_OPTIONS, worker_sockets
from benchmarks.spark.jobs import ANSWER, READY, Answer, Copy, CreateKafkaTopic, Job, Read, Stream, Write

CORES = 2
_HEAP = "2g"
_KEPT_PROGRESS = 10_000


def session(folder: Path, jars: list[str]) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = worker_python(folder)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": _HEAP,
        "spark.driver.extraJavaOptions": f"-Xms{_HEAP} -Djava.io.tmpdir={folder} {ARROW_OPTIONS}",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.streaming.numRecentProgressUpdates": str(_KEPT_PROGRESS),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **worker_sockets(),
    }
    if jars:
        settings["spark.driver.extraClassPath"] = os.pathsep.join(jars)
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("benchmark")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if not jars:
        from apogeemq.spark import register

        register(spark)
    return spark


def do(spark: SparkSession, job: Job) -> Answer:
    match job:
        case Read():
            return _read(spark, job)
        case Stream():
            return _stream(spark, job)
        case Write():
            return _write(spark, job)
        case Copy():
            began = time.perf_counter()
            frame = spark.read.format(job.format).options(**job.options).load()
            frame.write.format(job.to_format).mode("overwrite").save(job.path)
            return Answer(seconds=time.perf_counter() - began)
        case CreateKafkaTopic():
            _create_kafka_topic(spark, job)
            return Answer()


def _read(spark: SparkSession, job: Read) -> Answer:
    began = time.perf_counter()
    frame = spark.read.format(job.format).options(**job.options).load()
    rows = None
    if job.action == "count":
        rows = frame.count()
    else:
        frame.write.format("noop").mode("overwrite").save()
    return Answer(rows=rows, seconds=time.perf_counter() - began)


def _stream(spark: SparkSession, job: Stream) -> Answer:
    counted: list[int] = []
    began = time.perf_counter()
    frame = spark.readStream.format(job.format).options(**job.options).load()
    writer = frame.writeStream.option("checkpointLocation", job.checkpoint).trigger(availableNow=True)
    if job.action == "count":
        query = writer.foreachBatch(lambda batch, _: counted.append(batch.count())).start()
    else:
        query = writer.format("noop").start()
    query.awaitTermination()
    seconds = time.perf_counter() - began
    progress = [entry for entry in query.recentProgress if entry["numInputRows"]]
    return Answer(
        rows=sum(counted) if job.action == "count" else sum(entry["numInputRows"] for entry in progress),
        seconds=seconds,
        batch_ms=[float(entry["durationMs"]["triggerExecution"]) for entry in progress],
    )


def _write(spark: SparkSession, job: Write) -> Answer:
    began = time.perf_counter()
    rows: DataFrame = spark.range(0, job.rows, 1, job.partitions).selectExpr(*job.columns)
    rows.write.format(job.format).options(**job.options).mode("append").save()
    return Answer(rows=job.rows, seconds=time.perf_counter() - began)


def _create_kafka_topic(spark: SparkSession, job: CreateKafkaTopic) -> None:
    jvm: Any = spark.sparkContext._jvm
    where = jvm.java.util.HashMap()
    where.put("bootstrap.servers", job.server)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(where)
    optional = jvm.java.util.Optional
    topic = jvm.org.apache.kafka.clients.admin.NewTopic(job.topic, optional.of(job.partitions), optional.empty())
    admin.createTopics(jvm.java.util.Collections.singletonList(topic)).all().get()
    admin.close()


def _jobs() -> Iterator[Job]:
    print(READY, flush=True)
    for line in sys.stdin:
        yield msgspec.json.decode(line, type=Job)


def main(folder: Path, jars: list[str]) -> None:
    spark = session(folder, jars)
    for job in _jobs():
        try:
            answer = do(spark, job)
        except Exception as problem:  # the one who asked decides what it means
            answer = Answer(problem=str(problem)[-4_000:])
        print(f"{ANSWER}{msgspec.json.encode(answer).decode()}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
