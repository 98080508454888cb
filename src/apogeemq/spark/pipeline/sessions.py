"""The Spark session of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apogeemq.errors import ConfigError
from apogeemq.spark import require_extra
from apogeemq.spark.pipeline.spec import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[*,4]"  # a task may fail and be done again, as on a cluster

_PACKAGES: Final = "spark.jars.packages"


def open_session(spec: PipelineSpec, master: str | None, log_folder: Path, *, shows_ui: bool = False) -> SparkSession:
    """Started here, or the one of `spark-submit`. ConfigError without Spark or Java."""
    require_extra()
    from pyspark.errors import PySparkException

    from apogeemq.spark.runtime.session import embedded_session

    settings = dict(spec.spark_conf)
    if spec.packages:
        settings[_PACKAGES] = ",".join(filter(None, (settings.get(_PACKAGES, ""), *spec.packages)))
    try:
        session = embedded_session(
            f"apogee pipeline {spec.name}",
            master or DEFAULT_MASTER,
            settings=settings,
            log_folder=log_folder,
            shows_ui=shows_ui,
        )
    except PySparkException as error:
        with_packages = f" with the packages {settings[_PACKAGES]}" if spec.packages else ""
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"Spark did not start{with_packages}: {reason} See {log_folder}") from None
    _leave_termination_to_us(session)
    return session


def _leave_termination_to_us(session: SparkSession) -> None:
    """SIGTERM often comes to a whole group of processes, and must not take Java from an epoch that is to be finished.

    Java ends with us all the same: it reads from a pipe whose other end we hold. What it starts ignores it, too.
    """
    gateway = session.sparkContext._gateway
    if getattr(gateway, "proc", None) is not None:  # else it is the one of `spark-submit`
        signals = gateway.jvm.sun.misc  # type: ignore[union-attr]
        signals.Signal.handle(signals.Signal("TERM"), signals.SignalHandler.SIG_IGN)


@contextmanager
def prepared(spec: PipelineSpec, spark: SparkSession) -> Iterator[SparkSession]:
    """The session with the pipeline's settings and files, for as long as it runs; its views are gone afterwards.

    Not a session of its own: a format registered in one is not found from another.
    """
    before: dict[str, str | None] = {}
    for name, value in spec.spark_conf.items():
        if spark.conf.isModifiable(name):
            before[name] = spark.conf.get(name, None)
            spark.conf.set(name, value)
    for path in spec.py_files:
        spark.sparkContext.addPyFile(path)
    try:
        yield spark
    finally:
        with suppress(Exception):  # a Spark that has ended has neither settings nor views
            for view in (*spec.sources, *spec.steps):
                spark.catalog.dropTempView(view)
            for name, old in before.items():
                spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def stop_spark(spark: SparkSession) -> None:
    with suppress(Exception):  # one that has died cannot be stopped
        spark.stop()


def end_java_at_once() -> None:
    """For a person who does not want to wait any longer: whatever Spark is doing here ends unfinished."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()
