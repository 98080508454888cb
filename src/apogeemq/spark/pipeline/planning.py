"""Which queries a pipeline becomes.

A *head* is a view whose rows come as a stream that Spark has to follow: a streaming source, or a step for which it
remembers rows of earlier epochs (aggregation, deduplication, a join of streams). Each head is one query. What is made
from a head's rows one by one is computed within that query, epoch by epoch, so that all its sinks and the dead letters
of an epoch come from the same rows and are kept, or done again, together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from apogeemq.errors import ApogeeError, ConfigError
from apogeemq.spark.pipeline.plans import is_deterministic, state_count
from apogeemq.spark.pipeline.quality import Checks, checks_of
from apogeemq.spark.pipeline.sinks import check_messages
from apogeemq.spark.pipeline.spec import (
    SOURCE_COORDINATES,
    Action,
    OutputMode,
    PipelineSpec,
    Sink,
    SinkKind,
    Source,
    Step,
)
from apogeemq.spark.pipeline.text.failures import failure_text
from apogeemq.spark.pipeline.text.problems import Problems
from apogeemq.spark.pipeline.validation import TABLE_FROM, TABLE_RULES
from apogeemq.spark.pipeline.views import SourceOptions, Views
from apogeemq.spark.sink.plan_shape import mixing_step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True)
class QueryPlan:
    """One streaming query: the head, the steps computed from its rows, and what is written."""

    name: str
    head: str
    frame: DataFrame  # the head's rows, before its rules
    mode: OutputMode
    members: list[Step] = field(default_factory=list)  # in order
    tables: list[Source] = field(default_factory=list)  # not streams; what the members join
    sinks: list[Sink] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)  # views whose broken rows are counted here, and written
    is_stateful: bool = False


@dataclass(slots=True)
class Plan:
    spec: PipelineSpec
    views: Views
    checks: dict[str, Checks]
    queries: list[QueryPlan]
    raw: dict[str, DataFrame]  # all views, before their rules
    frames: dict[str, DataFrame]  # and without the rows that break them


def make_plan(spec: PipelineSpec, session: SparkSession, source_options: SourceOptions | None = None) -> Plan:
    """Makes the views in `session`. PipelineInvalid with all that only Spark could find: columns, types, rows without
    ids."""
    return _Planning(spec, session, source_options or (lambda source: source.options)).run()


class _Planning:
    def __init__(self, spec: PipelineSpec, session: SparkSession, source_options: SourceOptions) -> None:
        self._spec = spec
        self._session = session
        self._checks = checks_of(spec)
        self._views = Views(spec, self._checks, source_options)
        self._raw: dict[str, DataFrame] = {}
        self._frames: dict[str, DataFrame] = {}
        self._heads: dict[str, str] = {}  # by view; a table has none
        self._problems = Problems(spec.file, {})

    def run(self) -> Plan:
        for source in self._spec.sources.values():
            self._try(f"sources.{source.name}", source.line, partial(self._add_source, source))
        for step in self._spec.steps.values():
            if self._is_made_of_good_views(step):
                self._try(f"steps.{step.name}", step.line, partial(self._add_step, step))
        self._problems.raise_if_any()
        queries = self._queries()
        for sink in self._spec.sinks.values():
            self._try(f"sinks.{sink.name}", sink.line, partial(self._check_sink, sink))
        self._problems.raise_if_any()
        return Plan(self._spec, self._views, self._checks, queries, self._raw, self._frames)

    def _try(self, where: str, line: int, work: Callable[[], object]) -> None:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            work()
        except ConfigError as error:
            self._problems.add_at(line, str(error))
        except (ApogeeError, PySparkException, Py4JJavaError) as error:
            self._problems.add_at(line, f"{where}: {failure_text(error)}")

    def _is_made_of_good_views(self, step: Step) -> bool:
        """Of others nothing can be said but what was said of those."""
        views = {*self._spec.sources, *self._spec.steps}.intersection(step.inputs)
        return views <= self._frames.keys()

    def _add_source(self, source: Source) -> None:
        raw = self._views.source(self._session, source)
        self._put(source.name, raw)
        if raw.isStreaming:
            self._heads[source.name] = source.name

    def _add_step(self, step: Step) -> None:
        raw = self._views.step(self._session, step)
        self._put(step.name, raw)
        if raw.isStreaming:
            self._heads[step.name] = self._head_of(step)

    def _put(self, view: str, raw: DataFrame) -> None:
        self._raw[view] = raw
        if not self._has_good_rules(view, raw):
            return
        kept = self._views.put(view, raw)
        if view in self._checks and not is_deterministic(kept) and raw.isStreaming:
            raise ConfigError(f"the rules of {view} may say something else when an epoch is done again")
        self._frames[view] = kept

    def _has_good_rules(self, view: str, raw: DataFrame) -> bool:
        """Each is looked at by itself, to say which one is wrong."""
        before = len(self._problems)
        for quality in self._spec.quality.values():
            for name, condition in quality.rules.items() if quality.view == view else ():
                self._try(f"quality.{quality.name}.rules.{name}", quality.line, partial(raw.where, condition))
        return len(self._problems) == before

    def _head_of(self, step: Step) -> str:
        heads = {self._heads[view] for view in step.inputs if view in self._heads}
        before = sum(state_count(self._frames[view]) for view in step.inputs)
        if len(heads) == 1 and state_count(self._raw[step.name]) <= before:
            return heads.pop()
        return step.name

    # -- queries ---------------------------------------------------------------------------------------------

    def _queries(self) -> list[QueryPlan]:
        found: dict[tuple[str, OutputMode], QueryPlan] = {}
        for sink in self._spec.sinks.values():
            self._try(f"sinks.{sink.name}", sink.line, partial(self._put_sink, sink, found))
        for view in self._checks:
            head = self._heads.get(view)
            if head is not None:
                of_head = [query for (name, _), query in found.items() if name == head]
                query = of_head[0] if of_head else self._query(found, head, self._default_mode(head))
                query.checked.append(view)
            elif self._spec.is_streaming:
                self._try(f"rules of {view}", self._line_of_rules(view), partial(self._refuse_rules_of_table, view))
        for query in found.values():
            self._complete(query)
        return list(found.values())

    def _line_of_rules(self, view: str) -> int:
        of_view = [quality.line for quality in self._spec.quality.values() if quality.view == view]
        return of_view[0] if of_view else self._spec.sources[view].line

    def _refuse_rules_of_table(self, view: str) -> None:
        """It is read again and again while others are joined to it: which of its rows an epoch saw, nobody can tell."""
        rule = next((rule for rule in self._checks[view].rules if rule.action is not Action.FAIL), None)
        if rule is not None:
            raise ConfigError(f"the rule {rule.name} of {view}: {TABLE_RULES}")

    def _put_sink(self, sink: Sink, found: dict[tuple[str, OutputMode], QueryPlan]) -> None:
        head = self._heads.get(sink.view)
        if head is not None:
            self._query(found, head, self._mode(head, sink)).sinks.append(sink)
        elif self._spec.is_streaming:
            raise ConfigError(f"sinks.{sink.name}: {sink.view} {TABLE_FROM}")

    def _query(self, found: dict[tuple[str, OutputMode], QueryPlan], head: str, mode: OutputMode) -> QueryPlan:
        key = (head, mode)
        if key not in found:
            found[key] = QueryPlan(head, head, self._raw[head], mode, is_stateful=head not in self._spec.sources)
        return found[key]

    def _mode(self, head: str, sink: Sink) -> OutputMode:
        if head in self._spec.sources and sink.mode is OutputMode.COMPLETE:
            raise ConfigError(f"sinks.{sink.name}.mode: {sink.view} has no aggregation to be written completely")
        # Rows of a source are new ones, always: there is nothing to update.
        return OutputMode.APPEND if head in self._spec.sources else sink.mode

    def _default_mode(self, head: str) -> OutputMode:
        return OutputMode.APPEND if head in self._spec.sources else OutputMode.UPDATE

    def _complete(self, query: QueryPlan) -> None:
        if query.is_stateful:  # there may be another one some day; the name is that of the checkpoint
            query.name = f"{query.head}-{query.mode}"
        wanted = self._upstream([*(sink.view for sink in query.sinks), *query.checked])
        query.members = [
            step
            for step in self._spec.steps.values()
            if step.name in wanted and step.name != query.head and self._heads.get(step.name, query.head) == query.head
        ]
        read = {view for step in query.members for view in step.inputs}
        query.tables = [
            source for source in self._spec.sources.values() if source.name in read and not source.is_stream
        ]

    def _upstream(self, views: list[str]) -> set[str]:
        found: set[str] = set()
        waiting = list(views)
        while waiting:
            view = waiting.pop()
            if view not in found:
                found.add(view)
                step = self._spec.steps.get(view)
                if step is not None and self._heads.get(view) != view:
                    waiting.extend(step.inputs)
        return found

    # -- sinks -----------------------------------------------------------------------------------------------

    def _check_sink(self, sink: Sink) -> None:
        frame = self._frames[sink.view]
        columns = frame.columns
        for key, names in (("partition_by", sink.partition_by), ("id_columns", sink.id_columns)):
            missing = [name for name in names if name not in columns]
            if missing:
                raise ConfigError(
                    f"sinks.{sink.name}.{key}: {sink.view} has no column {missing[0]}; it has {', '.join(columns)}"
                )
        if sink.kind is SinkKind.TOPIC:
            if not sink.id_columns:
                _check_positions(sink, frame)
            try:
                check_messages(sink, frame)
            except ConfigError as error:
                raise ConfigError(f"sinks.{sink.name}: {error}") from None


def _check_positions(sink: Sink, frame: DataFrame) -> None:
    columns = frame.columns
    wanted = {*SOURCE_COORDINATES[1:], "topic" if sink.topic and "source_topic" not in columns else "source_topic"}
    if (step := mixing_step(frame)) is not None:
        reason = f"after {step} they may come in an order that is another the next time"
    elif not wanted <= set(columns):
        reason = f"it has no column {sorted(wanted - set(columns))[0]}"
    else:
        return
    raise ConfigError(
        f"sinks.{sink.name}: rows of {sink.view} cannot be told apart when an epoch is done again: {reason}; "
        "name the columns that identify a row: id_columns"
    )
