"""One epoch of a query: its rows through rules and steps into every sink, in a way that can be done again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

from apogeemq.errors import ApogeeError, PipelineFailed
from apogeemq.spark.pipeline.planning import Plan, QueryPlan
from apogeemq.spark.pipeline.progress import EpochCounts
from apogeemq.spark.pipeline.quality import BrokenCounts, Checks, broken_counts, dead_letters, failing_sentence
from apogeemq.spark.pipeline.sinks import Writer
from apogeemq.spark.pipeline.spec import Action, SinkKind
from apogeemq.spark.sink.letter_size import fitting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class EpochRefused(ApogeeError):
    """No epoch is begun any more: the query is to end."""


class Gate:
    """Closed once, to end queries between epochs."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class EpochWork:
    """What a query calls for each epoch. `begun` is the last one it was called for, `failure` why one ended badly."""

    def __init__(
        self,
        plan: Plan,
        query: QueryPlan,
        writers: Mapping[str, Writer],
        dead_letter_writer: Writer | None,
        gate: Gate,
        tell: Callable[[int, EpochCounts], None],
    ) -> None:
        self._plan = plan
        self._query = query
        self._writers = writers
        self._dead_letter_writer = dead_letter_writer
        self._gate = gate
        self._tell = tell
        self.begun: int | None = None
        self.failure: Exception | None = None

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        try:
            self.begun = epoch  # before the look at the gate: who closes it looks here afterwards
            if self._gate.is_closed:
                raise EpochRefused("no epoch is begun any more")
            self._tell(epoch, self._write(frame, epoch))
        except Exception as failure:
            self.failure = failure
            raise

    def _write(self, frame: DataFrame, epoch: int) -> EpochCounts:
        query = self._query
        is_kept = query.is_stateful or len(query.sinks) + 2 * len(query.checked) > 1
        if is_kept:
            frame = frame.persist()
        try:
            if query.is_stateful:
                # All of it, whatever the sinks read: one that shows a few rows, or has this epoch already, would leave
                # Spark without the state and the watermark of the rest.
                frame.count()
            raw = self._make_views(frame)
            return write_views(self._plan, self._query.checked, raw, self._writers, self._dead_letter_writer, epoch)
        finally:
            if is_kept:
                frame.unpersist()

    def _make_views(self, frame: DataFrame) -> dict[str, DataFrame]:
        """The views of this epoch, in the query's own session; given are all of them before their rules."""
        session, views = frame.sparkSession, self._plan.views
        for table in self._query.tables:
            views.put(table.name, views.source(session, table))
        raw = {self._query.head: frame}
        views.put(self._query.head, frame)
        for step in self._query.members:
            raw[step.name] = views.step(session, step)
            views.put(step.name, raw[step.name])
        return raw


def _refuse_failing(checks: Checks, counts: BrokenCounts) -> None:
    """Before anything is written; also of a view that no sink reads."""
    for rule in checks.rules:
        if rule.action is Action.FAIL and counts.by_rule[rule.name]:
            raise PipelineFailed(failing_sentence(rule, checks, counts.by_rule[rule.name]))


def write_views(
    plan: Plan,
    checked: list[str],
    raw: Mapping[str, DataFrame],
    writers: Mapping[str, Writer],
    dead_letter_writer: Writer | None,
    epoch: int,
) -> EpochCounts:
    """Dead letters first, then the sinks: a row is somewhere before the epoch is over, whichever way it went."""
    session: SparkSession = next(iter(raw.values())).sparkSession
    rows: int | None = None
    broken: dict[str, int] = {}
    letters: list[DataFrame] = []
    letter_count = 0
    for view in checked:
        checks = plan.checks[view]
        counts = broken_counts(raw[view], checks)
        _refuse_failing(checks, counts)
        rows = counts.rows if view in plan.spec.sources else rows
        broken |= {f"{view}.{rule}": number for rule, number in counts.by_rule.items()}
        if counts.dead_letters:
            letters.append(dead_letters(raw[view], checks, plan.spec.name))
            letter_count += counts.dead_letters
    if letters and dead_letter_writer is not None:
        every = reduce(lambda one, other: one.unionByName(other, True), letters)
        sink = plan.spec.dead_letters
        if sink is not None and sink.kind is SinkKind.TOPIC:
            every = fitting(every, sink.options)
        dead_letter_writer.write(every, epoch)
    written = {name: writer.write(session.table(plan.spec.sinks[name].view), epoch) for name, writer in writers.items()}
    known = {name: number for name, number in written.items() if number is not None}
    return EpochCounts(rows, known, broken, letter_count)
