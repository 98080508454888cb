"""What a pipeline file says, checked as a whole: views that exist, sinks that can be, rules that hold. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from apogeemq.spark.pipeline.spec import (
    DEAD_LETTERS,
    FILE_KINDS,
    MALFORMED_RULE,
    OWN_FORMATS,
    STREAM_FORMATS,
    Action,
    Malformed,
    OutputMode,
    PipelineSpec,
    Sink,
    SinkKind,
    Source,
    Step,
)
from apogeemq.spark.pipeline.text.addresses import folder_named, servers_named
from apogeemq.spark.pipeline.text.format_options import console_problems, read_problems, write_problems
from apogeemq.spark.pipeline.text.loops import loops, written_topics
from apogeemq.spark.pipeline.text.ordering import ordered
from apogeemq.spark.pipeline.text.problems import Problems, hint
from apogeemq.spark.pipeline.text.sql_functions import changing_functions
from apogeemq.spark.sink.write_options import once_problem

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MAX_PARTS: Final = 200  # of a kind; each sink may be a query
VIEW_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")

_TABLE_KINDS: Final = FILE_KINDS | {SinkKind.DELTA}  # what has a path and partitions
_MODES: Final = {
    **dict.fromkeys(FILE_KINDS, (OutputMode.APPEND,)),
    SinkKind.JDBC: (OutputMode.APPEND,),
    SinkKind.DELTA: (OutputMode.APPEND, OutputMode.COMPLETE),
}
_OWN_KEYS: Final = {"topic": "topic", "idColumns": "id_columns"}  # of options that a sink has as keys
# Ends of sentences about tables in a pipeline of streams; which steps are tables, only Spark can say.
TABLE_FROM: Final = "is a table in a pipeline of streams; a pipeline without streams can write it"
TABLE_RULES: Final = (
    "in a pipeline of streams, rows of a table are neither counted nor kept as dead letters; let the rule fail (of a "
    'body: malformed = "fail", or "keep"), or check the rows that are made with the table'
)
_DEAD_LETTER_KINDS: Final = (SinkKind.TOPIC, SinkKind.PARQUET, SinkKind.JSON)


def checked(spec: PipelineSpec, problems: Problems) -> PipelineSpec:
    """The same pipeline, its views by their right spelling and its steps in order; `problems` gets what is wrong."""
    _check_names(spec, problems)
    spellings = {name.lower(): name for name in (*spec.sources, *spec.steps)}
    spec = msgspec.structs.replace(
        spec,
        steps={name: _respelt(step, spellings) for name, step in spec.steps.items()},
        sinks={
            name: msgspec.structs.replace(sink, view=spellings.get(sink.view.lower(), sink.view))
            for name, sink in spec.sinks.items()
        },
        quality={
            name: msgspec.structs.replace(quality, view=spellings.get(quality.view.lower(), quality.view))
            for name, quality in spec.quality.items()
        },
    )
    for source in spec.sources.values():
        _check_source(spec, source, problems)
    for sink in spec.sinks.values():
        _check_sink(spec, sink, problems)
    _check_dead_letters(spec, problems)
    _check_places(spec, problems)
    _check_loops(spec, problems)
    _check_quality(spec, problems)
    _check_rule_names(spec, problems)
    return _in_order(spec, problems)


def _respelt(step: Step, spellings: dict[str, str]) -> Step:
    inputs = tuple(dict.fromkeys(spellings.get(name.lower(), name) for name in step.inputs))
    return msgspec.structs.replace(step, inputs=inputs)


def _check_names(spec: PipelineSpec, problems: Problems) -> None:
    if spec.name and not NAME.fullmatch(spec.name):
        problems.add(("pipeline", "name"), f"pipeline.name: {spec.name!r}: expected letters, digits, '-', '_' and '.'")
    if not spec.sources:
        problems.add(("sources",), "there are no sources: [sources.NAME]")
    for kind, parts in (("sources", spec.sources), ("steps", spec.steps), ("sinks", spec.sinks)):
        if len(parts) > MAX_PARTS:
            problems.add((kind,), f"{kind}: there are {len(parts)}, and {MAX_PARTS} is the most")
    if not spec.sinks:
        problems.add(("sinks",), "there are no sinks: [sinks.NAME]")
    if DEAD_LETTERS in spec.sinks:
        problems.add(
            ("sinks", DEAD_LETTERS),
            f"sinks.{DEAD_LETTERS}: this name belongs to [{DEAD_LETTERS}]; give the sink another one",
        )
    _check_view_names(spec, problems)
    for kind, others in (("sinks", spec.sinks), ("quality", spec.quality)):
        for name in others:
            if not NAME.fullmatch(name):
                problems.add((kind, name), f"{kind}.{name}: a name is made of letters, digits, '-', '_' and '.'")


def _check_view_names(spec: PipelineSpec, problems: Problems) -> None:
    seen: dict[str, str] = {}
    for kind, names in (("sources", spec.sources), ("steps", spec.steps)):
        for name in names:
            if not VIEW_NAME.fullmatch(name):
                problems.add((kind, name), f"{kind}.{name}: the name of a view is made of letters, digits and _")
            if name.lower() in seen:
                problems.add((kind, name), f"{kind}.{name}: there is a view of this name: {seen[name.lower()]}")
            seen.setdefault(name.lower(), f"{kind}.{name}")


# -- sources -------------------------------------------------------------------------------------------------


def _check_source(spec: PipelineSpec, source: Source, problems: Problems) -> None:
    path = ("sources", source.name)
    has_letters = source.decode is not None and source.decode.malformed is Malformed.DEAD_LETTER
    if source.format == "rocketmq-store" and source.is_stream:
        problems.add((*path, "stream"), f"sources.{source.name}.stream: a store folder is no stream")
    if source.format in OWN_FORMATS and source.schema:
        problems.add((*path, "schema"), f"sources.{source.name}.schema: {source.format} has columns of its own")
    if source.format in STREAM_FORMATS and source.path:
        problems.add((*path, "path"), f"sources.{source.name}.path: {source.format} is read over the network")
    if source.is_stream and source.format not in OWN_FORMATS and source.path and not source.schema:
        problems.add(path, f"sources.{source.name}: a stream of files needs a schema")
    if source.path and "path" in source.options:
        problems.add((*path, "options", "path"), f"sources.{source.name}: path is given twice")
    if source.watermark is not None and not spec.is_streaming:
        problems.add((*path, "watermark"), f"sources.{source.name}.watermark: there is no stream in this pipeline")
    if has_letters and spec.dead_letters is None:
        problems.add(
            (*path, "decode"),
            f"sources.{source.name}.decode: malformed bodies have nowhere to go: "
            "add [dead_letters], or set malformed to fail or keep",
        )
    if has_letters and is_table_of_streams(spec, source):
        problems.add((*path, "decode"), f"the rule {MALFORMED_RULE} of {source.name}: {TABLE_RULES}")
    for key, sentence in read_problems(source.format, _with_path(source), is_stream=source.is_stream):
        problems.add((*path, "options", key), f"sources.{source.name}.options: {sentence}")


def _with_path(source: Source) -> dict[str, str]:
    return {**source.options, **({"path": source.path} if source.path else {})}


# -- sinks ---------------------------------------------------------------------------------------------------


def _check_sink(spec: PipelineSpec, sink: Sink, problems: Problems) -> None:
    path, where = ("sinks", sink.name), f"sinks.{sink.name}"
    views = (*spec.sources, *spec.steps)
    if sink.view and sink.view not in views:
        problems.add((*path, "from"), f"{where}.from: there is no view {sink.view}{hint(sink.view, views)}")
    modes = _MODES.get(sink.kind, tuple(OutputMode))
    if sink.mode not in modes:
        problems.add((*path, "mode"), f"{where}.mode: {sink.kind} cannot {sink.mode}, only {' or '.join(modes)}")
    if not spec.is_streaming and sink.mode is not OutputMode.APPEND:
        problems.add((*path, "mode"), f"{where}.mode: without a stream there is only append")
    if sink.partition_by and sink.kind not in _TABLE_KINDS:
        problems.add((*path, "partition_by"), f"{where}.partition_by: {sink.kind} has no partitions of files")
    if sink.id_columns and sink.kind is not SinkKind.TOPIC:
        problems.add((*path, "id_columns"), f"{where}.id_columns: only rows of a topic have ids")
    for key, sentence in _target_problems(sink):
        problems.add((*path, key), f"{where}: {sentence}")
    if any(name.startswith(".") for name in sink.partition_by):
        problems.add((*path, "partition_by"), f"{where}.partition_by: folders whose names begin with a dot are hidden")
    if sink.view in spec.sources and is_table_of_streams(spec, spec.sources[sink.view]):
        problems.add((*path, "from"), f"{where}: {sink.view} {TABLE_FROM}")
    _add_option_problems(sink, path, problems)


def is_table_of_streams(spec: PipelineSpec, source: Source) -> bool:
    return spec.is_streaming and not source.is_stream


def _add_option_problems(sink: Sink, path: tuple[str, ...], problems: Problems) -> None:
    """Of options that are keys of the sink itself, too."""
    for key, sentence in _option_problems(sink):
        own = _OWN_KEYS.get(key)
        place = (*path, own) if own is not None else (*path, "options", key)
        problems.add(place, f"{'.'.join(path)}{'' if own is not None else '.options'}: {sentence}")


def _option_problems(sink: Sink) -> Iterator[tuple[str, str]]:
    if sink.kind is SinkKind.TOPIC:
        yield from write_problems(_with_topic(sink))
    elif sink.kind is SinkKind.CONSOLE:
        yield from console_problems(sink.options)


def _with_topic(sink: Sink) -> dict[str, str]:
    ids = {"idColumns": ",".join(sink.id_columns)} if sink.id_columns else {}
    return {"nameServer": "127.0.0.1:9876", **sink.options, **({"topic": sink.topic} if sink.topic else {}), **ids}


def _target_problems(sink: Sink) -> Iterator[tuple[str, str]]:
    """Where a sink of its kind writes to: key and sentence."""
    if sink.topic and sink.kind is not SinkKind.TOPIC:
        yield "topic", f"topic is for the kind topic, not {sink.kind}"
    if sink.path and sink.kind not in _TABLE_KINDS:
        yield "path", f"path is for files and delta, not {sink.kind}"
    if sink.kind in _TABLE_KINDS and not sink.path:
        yield "", f"path is missing: the folder {sink.kind} is written to"
    if sink.kind is SinkKind.TOPIC and "topic" in {key.lower() for key in sink.options}:
        yield "options", "the topic is named by the key topic of the sink, not among its options"
    if sink.kind is SinkKind.TOPIC and (problem := _once_problem(sink)):
        yield "topic", problem
    if sink.kind is SinkKind.TOPIC and "nameserver" not in {key.lower() for key in sink.options}:
        yield "", "options.nameServer is missing: host:port of the name servers"
    if sink.kind is SinkKind.JDBC:
        for key in ("url", "dbtable"):
            if key not in {name.lower() for name in sink.options}:
                yield "", f"options.{key} is missing"


def _once_problem(sink: Sink) -> str | None:
    """What its writer would say. Dead letters name no topics themselves."""
    if sink.name == DEAD_LETTERS and not sink.topic:
        return "topic is missing: where dead letters go"
    return once_problem(sink.topic, () if sink.topic else written_topics(sink))


def _check_dead_letters(spec: PipelineSpec, problems: Problems) -> None:
    sink = spec.dead_letters
    if sink is None:
        return
    if sink.kind not in _DEAD_LETTER_KINDS:
        problems.add(("dead_letters", "kind"), f"dead_letters.kind: expected {', '.join(_DEAD_LETTER_KINDS)}")
        return
    for key, sentence in _target_problems(sink):
        problems.add(("dead_letters", key), f"dead_letters: {sentence}")
    _add_option_problems(sink, ("dead_letters",), problems)


def _check_places(spec: PipelineSpec, problems: Problems) -> None:
    """Two sinks in one place cannot both keep what they promise there."""
    seen: dict[tuple[str, ...], str] = {}
    for sink in (*spec.sinks.values(), *([spec.dead_letters] if spec.dead_letters is not None else [])):
        place = _place(sink)
        path = _path(sink)
        where = ".".join(path)
        if place is not None and place in seen:
            problems.add((*path, place[0]), f"{where} writes to the same place as {seen[place]}: {place[-1]}")
        if place is not None:
            seen.setdefault(place, where)
        if sink.path and spec.checkpoint and folder_named(sink.path) == folder_named(spec.checkpoint):
            problems.add((*path, "path"), f"{where}.path: this is the folder of the checkpoint")


def _check_loops(spec: PipelineSpec, problems: Problems) -> None:
    for sink, source, topic in loops(spec):
        path = _path(sink)
        problems.add(
            (*path, "topic"),
            f"{'.'.join(path)}: writes to the topic {topic}, which sources.{source.name} reads: "
            "what is written would be read again, without end",
        )


def _path(sink: Sink) -> tuple[str, ...]:
    """Of dead letters, the only sink without a view of its own, and of all others."""
    return ("sinks", sink.name) if sink.view else (sink.name,)


def _place(sink: Sink) -> tuple[str, ...] | None:
    options = {key.lower(): value for key, value in sink.options.items()}
    if sink.kind in _TABLE_KINDS and sink.path:
        return "path", folder_named(sink.path)
    if sink.kind is SinkKind.TOPIC and sink.topic:
        servers = sorted(servers_named(options.get("nameserver", "")))
        return "topic", options.get("namespace", ""), *servers, sink.topic
    if sink.kind is SinkKind.JDBC:
        return "jdbc", options.get("url", ""), options.get("dbtable", "")
    return None


# -- quality and order ---------------------------------------------------------------------------------------


def _check_quality(spec: PipelineSpec, problems: Problems) -> None:
    views = (*spec.sources, *spec.steps)
    for quality in spec.quality.values():
        path, where = ("quality", quality.name), f"quality.{quality.name}"
        if quality.view not in views:
            problems.add((*path, "view"), f"{where}: there is no view {quality.view}{hint(quality.view, views)}")
        if quality.action is Action.DEAD_LETTER and spec.dead_letters is None:
            problems.add(
                path, f"{where}: rows that fail have nowhere to go: add [dead_letters], or set action to fail or count"
            )
        source = spec.sources.get(quality.view)
        if source is not None and is_table_of_streams(spec, source) and quality.action is not Action.FAIL:
            problems.add(path, f"{where}: {TABLE_RULES}")
        for rule, expression in quality.rules.items():
            if not expression.strip():
                problems.add((*path, "rules", rule), f"{where}.rules.{rule}: the expression is empty")
            changing = sorted(changing_functions(expression))
            if changing:
                problems.add(
                    (*path, "rules", rule),
                    f"{where}.rules.{rule}: {changing[0]} may say something else when an epoch is done again",
                )


def _check_rule_names(spec: PipelineSpec, problems: Problems) -> None:
    """Rows are counted by view and rule, and a dead letter names the rules of its view that it breaks."""
    seen = {
        (source.name, MALFORMED_RULE): f"sources.{source.name}.decode"
        for source in spec.sources.values()
        if source.decode is not None and source.decode.is_rule
    }
    for quality in spec.quality.values():
        for rule in quality.rules:
            where = f"quality.{quality.name}.rules.{rule}"
            first = seen.setdefault((quality.view, rule), where)
            if first != where:
                problems.add(
                    ("quality", quality.name, "rules", rule),
                    f"{where}: {quality.view} has a rule of this name: {first}; give it another one",
                )


def _in_order(spec: PipelineSpec, problems: Problems) -> PipelineSpec:
    views = {*spec.sources, *spec.steps}
    for step in spec.steps.values():
        path = ("steps", step.name)
        for view in step.inputs:
            if view not in views:
                key = "from" if step.python else "sql"
                problems.add(
                    (*path, key),
                    f"steps.{step.name}.{key}: there is no view {view}{hint(view, sorted(views - {step.name}))}",
                )
        if step.watermark is not None and not spec.is_streaming:
            problems.add((*path, "watermark"), f"steps.{step.name}.watermark: there is no stream in this pipeline")
    order = ordered({name: [view for view in step.inputs if view in spec.steps] for name, step in spec.steps.items()})
    for circle in order.circles:
        problems.add(("steps", circle[0]), f"steps read each other in a circle: {' → '.join(circle)}")
    return msgspec.structs.replace(spec, steps={name: spec.steps[name] for name in order.names})
