"""The Spark session of a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from apogeemq.spark import register, require_extra
from apogeemq.spark.pipeline.decoding import needed_packages
from apogeemq.spark.pipeline.spec import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[*,4]"  # a task may fail and be done again, as on a cluster

_PACKAGES: Final = "spark.jars.packages"


def open_session(spec: PipelineSpec, master: str | None, log_folder: Path, *, shows_ui: bool = False) -> SparkSession:
    """Started here, or the one of `spark-submit`. ConfigError without Spark or Java."""
    require_extra()
    import pyspark

    from apogeemq.spark.runtime.session import embedded_session

    settings = dict(spec.spark_conf)
    packages = needed_packages(spec, pyspark.__version__)
    if packages:
        settings[_PACKAGES] = ",".join(filter(None, (settings.get(_PACKAGES, ""), *packages)))
    return embedded_session(
        f"apogee pipeline {spec.name}",
        master or DEFAULT_MASTER,
        settings=settings,
        log_folder=log_folder,
        shows_ui=shows_ui,
    )


def private_session(spec: PipelineSpec, spark: SparkSession) -> SparkSession:
    """A session of the same Spark with views and settings of its own, so that pipelines do not see each other's."""
    session = spark.newSession()
    register(session)
    for name, value in spec.spark_conf.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    for path in spec.py_files:
        session.sparkContext.addPyFile(path)
    return session


def end_java_at_once() -> None:
    """For a person who does not want to wait any longer: whatever Spark is doing here ends unfinished."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()
