"""The views of a pipeline as DataFrames: sources, steps, and the rules that keep rows out of them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apogeemq.errors import ConfigError
from apogeemq.spark.pipeline.decoding import MALFORMED, decoded, spark_schema
from apogeemq.spark.pipeline.quality import Checks, passing
from apogeemq.spark.pipeline.spec import Malformed, PipelineSpec, Source, Step
from apogeemq.spark.pipeline.text.failures import failure_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Views:
    """Makes views in one session: the streaming ones while a pipeline is planned, those of one epoch while it runs."""

    def __init__(self, spec: PipelineSpec, checks: Mapping[str, Checks], source_options: SourceOptions) -> None:
        self._spec = spec
        self._checks = checks
        self._source_options = source_options

    def source(self, session: SparkSession, source: Source) -> DataFrame:
        """With its decoded column and watermark, before any rule; MALFORMED is there when a rule looks at it."""
        options = self._source_options(source)
        reader = session.readStream if source.is_stream else session.read
        reader = reader.format(source.format).options(**options)
        if source.schema:
            reader = reader.schema(spark_schema(source.schema))
        frame = reader.load(source.path) if source.path else reader.load()
        if source.decode is not None:
            if source.decode.column not in frame.columns:
                raise ConfigError(f"sources.{source.name}.decode: there is no column {source.decode.column}")
            frame = decoded(frame, source.decode)
            if source.decode.malformed is Malformed.KEEP:
                frame = frame.drop(MALFORMED)
        if source.watermark is not None:
            frame = frame.withWatermark(source.watermark.column, source.watermark.delay)
        return frame

    def step(self, session: SparkSession, step: Step) -> DataFrame:
        """Its inputs are views of the session; before any rule."""
        frame = session.sql(step.sql) if step.sql else python_view(step, self._spec.file, session.table)
        if step.watermark is not None and frame.isStreaming:
            frame = frame.withWatermark(step.watermark.column, step.watermark.delay)
        return frame

    def put(self, view: str, frame: DataFrame) -> DataFrame:
        """Keep out what breaks rules, and make the rest the session's view of this name."""
        kept = passing(frame, self._checks.get(view))
        kept.createOrReplaceTempView(view)
        return kept


SourceOptions = Callable[[Source], Mapping[str, str]]


def python_view(step: Step, file: str, table: Callable[[str], DataFrame]) -> DataFrame:
    """What the step's function makes. ConfigError with the step's name, whatever goes wrong in code that is not ours:
    in its module, in the function, with options it does not know."""
    try:
        function = _function(step.python, file)
        frame = function(*(table(view) for view in step.inputs), **step.options)
    except Exception as error:
        name, text = type(error).__name__, failure_text(error)
        cause = text if text.startswith(name) else f"{name}: {text}"
        raise ConfigError(f"steps.{step.name}: {step.python}: {cause}") from error
    if not hasattr(frame, "createOrReplaceTempView"):
        raise ConfigError(f"steps.{step.name}: {step.python} gave {type(frame).__name__}, not a DataFrame")
    made: DataFrame = frame
    return made


def _function(name: str, file: str) -> Callable[..., Any]:
    """Of `module:function`; modules beside the pipeline file are found."""
    module_name, _, function_name = name.partition(":")
    folder = str(Path(file).absolute().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    found: Callable[..., Any] = getattr(importlib.import_module(module_name), function_name)
    return found
