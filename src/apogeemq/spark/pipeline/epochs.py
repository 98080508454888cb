"""One epoch of a query: its rows through rules and steps into every sink, in a way that can be done again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

from apogeemq.errors import ApogeeError
from apogeemq.spark.pipeline.planning import Plan, QueryPlan
from apogeemq.spark.pipeline.progress import EpochCounts
from apogeemq.spark.pipeline.quality import broken_counts, dead_letters
from apogeemq.spark.pipeline.sinks import Writer
from apogeemq.spark.pipeline.spec import SinkKind
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
        is_read_often = len(self._query.sinks) + 2 * len(self._query.checked) > 1
        if is_read_often:
            frame = frame.persist()
        try:
            raw = self._make_views(frame)
            return write_views(self._plan, self._query.checked, raw, self._writers, self._dead_letter_writer, epoch)
        finally:
            if is_read_often:
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
