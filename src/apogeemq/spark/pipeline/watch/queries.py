"""One streaming query of a pipeline while it runs, or the one epoch of a pipeline of tables."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from apogeemq.spark.pipeline.checkpoint.generations import Checkpoint
from apogeemq.spark.pipeline.epochs import EpochRefused, EpochWork
from apogeemq.spark.pipeline.planning import QueryPlan
from apogeemq.spark.pipeline.progress import (
    EpochCounts,
    QueryStatus,
    after_epoch,
    after_planning,
    after_progress,
    epoch_rows,
    last_done,
    source_name,
)
from apogeemq.spark.pipeline.sinks import COUNTED_KINDS
from apogeemq.spark.pipeline.spec import PipelineSpec, Source, streams_of
from apogeemq.spark.pipeline.text.failures import failure_text
from apogeemq.spark.pipeline.watch.epoch_progress import planned_sources, task_counts

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_TELL_SECONDS: Final = 1.0  # between two looks into an epoch: each is written to disk


class RunningQuery:
    """One query and its status. `add_epoch` is called from the query's thread, the rest from the runner's."""

    def __init__(self, plan: QueryPlan | None) -> None:
        self._plan = plan
        self._query: StreamingQuery | None = None
        self._work: EpochWork | None = None
        self._lock = threading.Lock()
        self._seen: tuple[int, str] = (-1, "")
        self._done = -1  # the last epoch that Spark has taken note of
        self._written = -1  # the last epoch whose rows are where they belong
        self._streams: list[Source] = []
        self._told_at = 0.0
        self._is_new = False
        self._is_stopped = False
        self.is_active = True
        self.failure: str | None = None
        self.status = QueryStatus(
            name=plan.name if plan is not None else "batch",
            sinks={sink.name: 0 for sink in plan.sinks if sink.kind in COUNTED_KINDS} if plan is not None else {},
        )

    def start(self, spec: PipelineSpec, work: EpochWork, checkpoint: Checkpoint) -> None:
        assert self._plan is not None
        self._work = work
        self._streams = list(streams_of(spec, self._plan.head))
        writer = self._plan.frame.writeStream.foreachBatch(work).outputMode(self._plan.mode.value)
        writer = writer.option("checkpointLocation", checkpoint.query_folder(self._plan.name))
        interval_ms = spec.trigger.interval_ms
        if interval_ms is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
        self._query = writer.queryName(f"{spec.name}.{self._plan.name}").start()

    def add_epoch(self, epoch: int, counts: EpochCounts) -> None:
        with self._lock:
            self.status = after_epoch(self.status, epoch, counts)
            self._written = epoch
            if self._plan is None:  # of tables, Spark reports nothing
                rows = counts.rows if counts.rows is not None else max(counts.sinks.values(), default=0)
                self.status = msgspec.structs.replace(self.status, rows=rows)
            self._is_new = True

    def look(self) -> bool:
        """Whether something has happened since the last look."""
        was_active = self.is_active
        query = self._query
        if query is not None and was_active:
            is_active = query.isActive  # before its reports: none come later
            self._take_reports(query)
            if is_active:
                self._follow_epoch(query)
            else:
                self._take_end(query)
        with self._lock:
            self.status = msgspec.structs.replace(self.status, is_active=self.is_active, error=self.failure)
            is_new, self._is_new = self._is_new, False
        return is_new or was_active != self.is_active

    def end_between_epochs(self) -> None:
        """Once the gate is closed: unless an epoch is being written. One that is only planned may take for ever."""
        query = self._query
        if query is not None and self.is_active and (self._is_between_epochs() or not query.status["isTriggerActive"]):
            self._is_stopped = True
            query.stop()

    def _is_between_epochs(self) -> bool:
        begun = self._work.begun if self._work is not None else None
        return begun is None or begun <= self._done

    def end(self) -> None:
        with suppress(Exception):  # of a Spark that has died
            if self._query is not None and self._query.isActive:
                self._query.stop()

    def _take_reports(self, query: StreamingQuery) -> None:
        last = query.lastProgress
        if last is None or _mark(last) == self._seen:
            return
        reports = query.recentProgress if last["batchId"] > self._seen[0] + 1 else [last]
        for report in sorted(reports, key=_mark):
            if _mark(report) > self._seen:
                found = json.loads(report.json)
                found["sources"] = self._named(found["sources"])
                self._take_report(found)
                self._done = max(self._done, last_done(found))
                self._seen = _mark(report)

    def _follow_epoch(self, query: StreamingQuery) -> None:
        """What there is to know of an epoch that is being written, at once when it begins, then now and then."""
        epoch = self._work.begun if self._work is not None else None
        if epoch is None or epoch <= self._written:
            return
        current = self.status.current
        if current is None or current.epoch != epoch:
            sources = self._named(planned_sources(query))
            self._change(epoch, lambda status: after_planning(status, epoch, sources))
        elif time.monotonic() - self._told_at >= _TELL_SECONDS:
            tasks, done = task_counts(query)
            counted = msgspec.structs.replace(current, tasks=tasks, tasks_done=done)
            self._change(epoch, lambda status: msgspec.structs.replace(status, current=counted))

    def _change(self, epoch: int, change: Callable[[QueryStatus], QueryStatus]) -> None:
        """Unless the epoch has ended meanwhile."""
        with self._lock:
            if epoch > self._written:
                self.status, before = change(self.status), self.status
                self._is_new = self._is_new or self.status != before
        self._told_at = time.monotonic()

    def _named(self, sources: list[dict[str, Any]]) -> list[dict[str, Any]]:
        streams = {stream.name: stream.format for stream in self._streams}
        return [{**source, "description": source_name(str(source["description"]), streams)} for source in sources]

    def _take_report(self, report: dict[str, Any]) -> None:
        with self._lock:
            rows = self.status.rows + epoch_rows(report)
            self.status = msgspec.structs.replace(after_progress(self.status, report), rows=rows)
            self._is_new = True

    def _take_end(self, query: StreamingQuery) -> None:
        self.is_active = False
        error = query.exception()
        own = self._work.failure if self._work is not None else None
        is_wanted = isinstance(own, EpochRefused) or (own is None and self._is_stopped)
        if error is not None and not is_wanted:
            self.failure = failure_text(own or error)


def _mark(report: Any) -> tuple[int, str]:
    """Reports in the order they were made: epochs, and of one epoch their times."""
    return int(report["batchId"]), str(report["timestamp"])
