"""What a pipeline becomes on Spark, for people and scripts: views with their columns, queries, promises, plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from apogeemq.spark.pipeline.planning import Plan, make_plan
from apogeemq.spark.pipeline.sessions import prepared
from apogeemq.spark.pipeline.sinks import PROMISES
from apogeemq.spark.pipeline.spec import PipelineSpec, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ViewExplained(msgspec.Struct, frozen=True):
    name: str
    kind: str  # the format of a source, sql or python
    is_stream: bool
    columns: dict[str, str]
    rules: list[str]
    plan: str


class SinkExplained(msgspec.Struct, frozen=True):
    name: str
    view: str
    kind: str
    target: str
    mode: str
    promise: str


class QueryExplained(msgspec.Struct, frozen=True):
    name: str
    head: str
    keeps_state: bool
    steps: list[str]
    sinks: list[SinkExplained]
    dead_letters_of: list[str]


class Explanation(msgspec.Struct, frozen=True):
    name: str
    description: str
    trigger: str
    views: list[ViewExplained]
    queries: list[QueryExplained]
    dead_letters: str


def explain(spec: PipelineSpec, spark: SparkSession) -> Explanation:
    """Nothing is read or written. ConfigError for what only Spark could find."""
    with prepared(spec, spark) as session:
        plan = make_plan(spec, session)
        return Explanation(
            spec.name,
            spec.description,
            str(spec.trigger) if plan.queries else "one run",
            [_view(plan, name) for name in plan.frames],
            _queries(plan),
            target_of(spec.dead_letters) if spec.dead_letters is not None else "",
        )


def target_of(sink: Sink) -> str:
    """Where a sink writes, without anything secret."""
    return sink.topic or sink.path or sink.options.get("dbtable", "")


def _view(plan: Plan, name: str) -> ViewExplained:
    frame = plan.frames[name]
    source, step = plan.spec.sources.get(name), plan.spec.steps.get(name)
    kind = source.format if source is not None else "sql" if step is not None and step.sql else "python"
    checks = plan.checks.get(name)
    rules = [f"{rule.name} ({rule.action})" for rule in checks.rules] if checks is not None else []
    return ViewExplained(name, kind, frame.isStreaming, dict(frame.dtypes), rules, _plan_text(frame))


def _queries(plan: Plan) -> list[QueryExplained]:
    if not plan.queries:
        sinks = [_sink(sink) for sink in plan.spec.sinks.values()]
        return [QueryExplained("batch", "", False, list(plan.spec.steps), sinks, list(plan.checks))]
    return [
        QueryExplained(
            query.name,
            query.head,
            query.is_stateful,
            [step.name for step in query.members],
            [_sink(sink) for sink in query.sinks],
            query.checked,
        )
        for query in plan.queries
    ]


def _sink(sink: Sink) -> SinkExplained:
    return SinkExplained(sink.name, sink.view, sink.kind, target_of(sink), sink.mode, PROMISES[sink.kind])


def _plan_text(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().analyzed().treeString())
