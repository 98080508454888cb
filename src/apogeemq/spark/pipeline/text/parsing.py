"""From the text of a pipeline file to a `PipelineSpec`, or to everything that is wrong with it. Pure.

What lies outside of the text (schema files, Python modules, the environment) is asked of `Surroundings`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from apogeemq.errors import PipelineInvalid
from apogeemq.spark.pipeline import validation
from apogeemq.spark.pipeline.spec import (
    DEAD_LETTERS,
    STREAM_FORMATS,
    Action,
    OutputMode,
    PipelineSpec,
    Quality,
    Sink,
    SinkKind,
    Source,
    Step,
    Trigger,
    Watermark,
)
from apogeemq.spark.pipeline.text import parameters
from apogeemq.spark.pipeline.text.parameters import PARAMS, Parameter
from apogeemq.spark.pipeline.text.problems import Problems
from apogeemq.spark.pipeline.text.schemas import read_decode, read_schema
from apogeemq.spark.pipeline.text.sql_views import is_query, views_read
from apogeemq.spark.pipeline.text.tables import TableReader
from apogeemq.spark.pipeline.text.toml_lines import line_index

MAX_TEXT: Final = 1 << 20  # a file of this size is not a pipeline

_BOUNDED_TRIGGERS: Final = ("available-now", "once")
_ERROR_LINE: Final = re.compile(r"\(at line (\d+)")
_PYTHON_STEP: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class Surroundings(Protocol):
    """What a pipeline file may refer to."""

    @property
    def environment(self) -> Mapping[str, str]: ...

    def path_of(self, name: str) -> str:
        """Of a file that belongs to the pipeline, whose name may be relative to the pipeline file."""
        ...

    def read(self, name: str) -> bytes:
        """Its content; OSError."""
        ...

    def file_problem(self, name: str) -> str | None:
        """Why there is no such file."""
        ...

    def function_problem(self, module: str, function: str, py_files: Sequence[str]) -> str | None:
        """Why a Python step cannot be had; None when it can."""
        ...


def parse_pipeline(text: str, file: str, given: Mapping[str, str], surroundings: Surroundings) -> PipelineSpec:
    """PipelineInvalid with all problems, each with its line. `given`: values of parameters."""
    document = _document(text, file)
    problems = Problems(file, line_index(text))
    environment = surroundings.environment
    declared = parameters.declared(document.pop(PARAMS, None), problems)
    values = parameters.values(declared, given, environment, problems)
    document = parameters.expanded(document, values, environment, problems)
    spec = _Parser(document, problems, surroundings).spec()
    spec = validation.checked(spec, problems)
    problems.raise_if_any()
    return spec


def declared_parameters(text: str, file: str) -> dict[str, Parameter]:
    """What can be given to the pipeline."""
    problems = Problems(file, {})
    return parameters.declared(_document(text, file).get(PARAMS), problems)


def _document(text: str, file: str) -> dict[str, Any]:
    if len(text) > MAX_TEXT:
        raise PipelineInvalid(file, [f"{file}:1: the file is larger than {MAX_TEXT} characters"])
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        place = _ERROR_LINE.search(str(error))
        line = int(place[1]) if place is not None else text.count("\n") + 1
        raise PipelineInvalid(file, [f"{file}:{line}: not TOML: {error}"]) from None


class _Parser:
    def __init__(self, document: dict[str, Any], problems: Problems, surroundings: Surroundings) -> None:
        self._root = TableReader(document, (), problems)
        self._file = problems.file
        self._surroundings = surroundings
        self._py_files: tuple[str, ...] = ()

    def spec(self) -> PipelineSpec:
        root = self._root
        root.take(PARAMS)  # read before all else, and known
        head = root.table("pipeline")
        if head is None:
            root.wrong("pipeline", "the table [pipeline] is missing: it names the pipeline")
            head = TableReader({"name": "unnamed"}, ("pipeline",), Problems(self._file, {}))
        self._py_files = self._files(head, "py_files")
        spark = root.table("spark") or TableReader({}, ("spark",), Problems(self._file, {}))
        spec = PipelineSpec(
            name=head.required("name", "the name of the pipeline"),
            description=head.text("description"),
            file=self._file,
            checkpoint=head.text("checkpoint"),
            trigger=_trigger(head),
            py_files=self._py_files,
            packages=spark.names("packages"),
            spark_conf=spark.options("conf"),
            sources={name: self._source(name, table) for name, table in root.tables("sources")},
            steps={name: self._step(name, table) for name, table in root.tables("steps")},
            quality={name: _quality(name, table) for name, table in root.tables("quality")},
            dead_letters=self._dead_letters(),
            sinks={name: _sink(name, table) for name, table in root.tables("sinks")},
        )
        for table in (head, spark, root):
            table.finish()
        return spec

    def _files(self, table: TableReader, key: str) -> tuple[str, ...]:
        names = table.names(key)
        for problem in filter(None, map(self._surroundings.file_problem, names)):
            table.wrong(key, problem)
        return tuple(map(self._surroundings.path_of, names))

    def _source(self, name: str, table: TableReader) -> Source:
        form = table.required("format", "rocketmq, rocketmq-routes, rocketmq-store or a format of Spark").lower()
        decode = table.table("decode")
        source = Source(
            name=name,
            format=form,
            is_stream=table.flag("stream", form in STREAM_FORMATS),
            path=table.text("path"),
            schema=read_schema(table, self._surroundings),
            options=table.options("options"),
            decode=read_decode(decode, self._surroundings) if decode is not None else None,
            watermark=_watermark(table),
            line=table.line,
        )
        table.finish()
        return source

    def _step(self, name: str, table: TableReader) -> Step:
        sql, python = self._sql(table), table.text("python")
        inputs = table.names("from")
        if bool(sql) == bool(python):
            table.wrong("", "a step has either sql (or sql_file) or python" + (", not both" if sql else ""))
        elif python:
            self._check_function(table, python, inputs)
        elif not is_query(sql):
            table.wrong("sql", "expected a query, which begins with SELECT, WITH, FROM, VALUES or TABLE")
        if sql and inputs:
            table.wrong("from", "is for python steps; SQL names the views it reads in its text")
        step = Step(
            name=name,
            sql=sql,
            python=python,
            inputs=inputs or views_read(sql),
            options=table.raw_options("options"),
            watermark=_watermark(table),
            line=table.line,
        )
        if sql and step.options:
            table.wrong("options", "are for python steps")
        table.finish()
        return step

    def _sql(self, table: TableReader) -> str:
        sql, file = table.text("sql"), table.text("sql_file")
        if not file:
            return sql
        if sql:
            table.wrong("sql_file", "either sql or sql_file, not both")
        try:
            return self._surroundings.read(file).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            table.wrong("sql_file", f"cannot read {file}: {getattr(error, 'strerror', None) or error}")
            return "SELECT 1"

    def _check_function(self, table: TableReader, python: str, inputs: tuple[str, ...]) -> None:
        if not _PYTHON_STEP.fullmatch(python):
            table.wrong("python", f"{python!r}: expected module:function")
            return
        if not inputs:
            table.wrong("", "a python step needs from: the views its function is given")
        module, function = python.split(":")
        problem = self._surroundings.function_problem(module, function, self._py_files)
        if problem is not None:
            table.wrong("python", problem)

    def _dead_letters(self) -> Sink | None:
        table = self._root.table(DEAD_LETTERS)
        if table is None:
            return None
        sink = Sink(
            name=DEAD_LETTERS,
            view="",
            kind=table.choice("kind", SinkKind, SinkKind.TOPIC),
            topic=table.text("topic"),
            path=table.text("path"),
            options=table.options("options"),
            line=table.line,
        )
        table.finish()
        return sink


def _trigger(table: TableReader) -> Trigger:
    text = table.text("trigger") or _BOUNDED_TRIGGERS[0]
    if text.lower() in _BOUNDED_TRIGGERS:
        return Trigger()
    try:
        return Trigger(_interval_ms(text))
    except ValueError:
        table.wrong("trigger", f"{text!r}: expected {' or '.join(_BOUNDED_TRIGGERS)}, or an interval such as 5 seconds")
        return Trigger()


def _interval_ms(text: str) -> int:
    quiet = Problems("", {})
    interval_ms = TableReader({"trigger": text}, (), quiet).duration_ms("trigger", 0)
    if len(quiet):
        raise ValueError(text)
    return interval_ms


def _watermark(table: TableReader) -> Watermark | None:
    inner = table.table("watermark")
    if inner is None:
        return None
    column = inner.required("column", "the column of event times")
    if "." in column:
        inner.wrong("column", f"{column!r}: expected a column of the view; let a step name the field of a struct")
    inner.required("delay", "how late a row may come")
    watermark = Watermark(column, f"{inner.duration_ms('delay', 0)} milliseconds")
    inner.finish()
    return watermark


def _quality(name: str, table: TableReader) -> Quality:
    quality = Quality(
        name=name,
        view=table.text("view") or name,
        rules=table.options("rules"),
        action=table.choice("action", Action, Action.DEAD_LETTER),
        line=table.line,
    )
    if not quality.rules:
        table.wrong("", "there are no rules: [quality.NAME.rules] holds them, name = SQL expression")
    table.finish()
    return quality


def _sink(name: str, table: TableReader) -> Sink:
    kinds = ", ".join(SinkKind)
    table.required("kind", f"one of {kinds}")
    sink = Sink(
        name=name,
        view=table.required("from", "the view that is written"),
        kind=table.choice("kind", SinkKind, SinkKind.CONSOLE),
        mode=table.choice("mode", OutputMode, OutputMode.APPEND),
        topic=table.text("topic"),
        path=table.text("path"),
        partition_by=table.names("partition_by"),
        id_columns=table.names("id_columns"),
        options=table.options("options"),
        line=table.line,
    )
    table.finish()
    return sink
