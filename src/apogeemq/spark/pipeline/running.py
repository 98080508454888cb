"""A pipeline while it runs: its queries started, watched, and ended between epochs."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from apogeemq.errors import ApogeeError, ConfigError, PipelineFailed
from apogeemq.runtime.clock import now_ms
from apogeemq.spark.pipeline.checkpoint.generations import Checkpoint
from apogeemq.spark.pipeline.checkpoint.places import places
from apogeemq.spark.pipeline.epochs import EpochRefused, EpochWork, Gate, write_views
from apogeemq.spark.pipeline.planning import Plan, QueryPlan, make_plan
from apogeemq.spark.pipeline.progress import (
    EpochCounts,
    PipelineStatus,
    QueryStatus,
    State,
    after_epoch,
    after_progress,
    epoch_rows,
)
from apogeemq.spark.pipeline.quality import ID
from apogeemq.spark.pipeline.sessions import prepared
from apogeemq.spark.pipeline.sinks import COUNTED_KINDS, ShowTable, TopicWriter, Writer, make_writer
from apogeemq.spark.pipeline.spec import PipelineSpec, Sink
from apogeemq.spark.pipeline.status import StateFolder
from apogeemq.spark.pipeline.text.failures import failure_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS: Final = 0.2

OnStatus = Callable[[PipelineStatus], None]


def run_pipeline(
    spec: PipelineSpec,
    spark: SparkSession,
    state: StateFolder,
    *,
    on_status: OnStatus | None = None,
    on_table: ShowTable | None = None,
    stop: threading.Event | None = None,
    replay_from_ms: int | None = None,
    accepts_changes: bool = False,
    log_file: str = "",
) -> PipelineStatus:
    """Run to the end, or until `stop` is set or the state folder says so, then to the end of the epoch.

    Raises ConfigError for what cannot be begun, PipelineFailed when a query ended with an error; either is in the
    status, too. With `accepts_changes` it goes on from a checkpoint of other places, and keeps the new ones. `on_table`
    is called from other threads, `on_status` from this one.
    """
    state.acquire()
    try:
        run = _Run(spec, spark, state, on_status, on_table, stop or threading.Event(), log_file)
        return run.run(replay_from_ms, accepts_changes)
    finally:
        state.release()


class _Run:
    def __init__(
        self,
        spec: PipelineSpec,
        spark: SparkSession,
        state: StateFolder,
        on_status: OnStatus | None,
        on_table: ShowTable | None,
        stop: threading.Event,
        log_file: str,
    ) -> None:
        self._spec = spec
        self._spark = spark
        self._state = state
        self._on_status = on_status
        self._on_table = on_table
        self._stop = stop
        self._ending = threading.Event()  # never set: to wait on while `stop` is
        self._gate = Gate()
        self._queries: list[_RunningQuery] = []
        self._status = PipelineStatus(
            name=spec.name,
            state=State.STARTING,
            file=spec.file,
            process=os.getpid(),
            host=socket.gethostname(),
            master=str(spark.sparkContext.master),
            checkpoint=spec.checkpoint or str(state.checkpoint),
            log_file=log_file,
            is_bounded=spec.trigger.is_bounded or not spec.is_streaming,
            started_ms=now_ms(),
        )

    def run(self, replay_from_ms: int | None, accepts_changes: bool) -> PipelineStatus:
        try:
            self._publish(State.STARTING)
            with prepared(self._spec, self._spark) as session:
                self._run_prepared(session, replay_from_ms, accepts_changes)
        except BaseException as error:
            self._end_at_once()
            self._publish(State.FAILED, error=failure_text(error) or type(error).__name__)
            if isinstance(error, ApogeeError) or not isinstance(error, Exception):
                raise
            raise PipelineFailed(failure_text(error)) from error
        return self._status

    def _run_prepared(self, session: SparkSession, replay_from_ms: int | None, accepts_changes: bool) -> None:
        checkpoint = Checkpoint(session, self._status.checkpoint, self._spec.name)
        if replay_from_ms is not None:
            checkpoint.begin_anew(replay_from_ms)
        checkpoint.go_to(places(self._spec, checkpoint.qualified), accepts_changes=accepts_changes)
        plan = make_plan(self._spec, session, checkpoint.source_options)
        if plan.queries:
            self._run_queries(plan, session, checkpoint)
        else:
            self._run_batch(plan, session, checkpoint)

    # -- streams ---------------------------------------------------------------------------------------------

    def _run_queries(self, plan: Plan, session: SparkSession, checkpoint: Checkpoint) -> None:
        writers = {query.name: self._writers(session, checkpoint, query.name, query.sinks) for query in plan.queries}
        for query in plan.queries:
            _check_writers(plan, writers[query.name][0])
        checkpoint.keep()
        for query in plan.queries:
            running = _RunningQuery(query)
            work = EpochWork(plan, query, *writers[query.name], self._gate, running.add_epoch)
            running.start(self._spec, work, checkpoint)
            self._queries.append(running)
        self._publish(State.RUNNING)
        while self._watch():
            (self._ending if self._gate.is_closed else self._stop).wait(POLL_SECONDS)
        failures = [query.failure for query in self._queries if query.failure is not None]
        if failures:
            raise PipelineFailed(failures[0])
        self._publish(State.STOPPED if self._gate.is_closed else State.FINISHED)

    def _watch(self) -> bool:
        """One look at every query; whether one is still running."""
        is_changed = [query.look() for query in self._queries]
        has_failed = any(query.failure is not None for query in self._queries)
        wants_end = has_failed or self._stop.is_set() or self._state.is_asked_to_stop()
        if wants_end and not self._gate.is_closed:
            self._gate.close()
            self._publish(State.STOPPING)
        elif any(is_changed):
            self._publish(self._status.state)
        if self._gate.is_closed:
            for query in self._queries:
                query.end_if_idle()
        return any(query.is_active for query in self._queries)

    def _end_at_once(self) -> None:
        self._gate.close()
        for query in self._queries:
            query.end()

    # -- tables ----------------------------------------------------------------------------------------------

    def _run_batch(self, plan: Plan, session: SparkSession, checkpoint: Checkpoint) -> None:
        """All of it, once, as one epoch: one that did not end is done again under its number."""
        running = _RunningQuery(None)
        self._queries.append(running)
        self._publish(State.RUNNING)
        checkpoint.keep()
        epoch = checkpoint.begin_batch()
        sinks = list(self._spec.sinks.values())
        writers = self._writers(session, checkpoint, "batch", sinks)
        kept = [plan.raw[name] for name in self._spec.sources] if len(sinks) + 2 * len(plan.checks) > 1 else []
        for frame in kept:  # what is read twice may have grown meanwhile, and sinks would not agree
            frame.persist()
        try:
            running.add_epoch(epoch, write_views(plan, list(plan.checks), plan.raw, *writers, epoch))
        finally:
            for frame in kept:
                frame.unpersist()
        checkpoint.end_batch(epoch)
        running.is_active = False
        running.look()
        self._publish(State.FINISHED)

    # -- both ------------------------------------------------------------------------------------------------

    def _writers(
        self, session: SparkSession, checkpoint: Checkpoint, query: str, sinks: list[Sink]
    ) -> tuple[dict[str, Writer], Writer | None]:
        def writer(sink: Sink) -> Writer:
            name = f"{query}.{sink.name}"
            return make_writer(sink, session, checkpoint.query_id(name), checkpoint.query_folder(name), self._on_table)

        dead = self._spec.dead_letters
        dead_writer = writer(msgspec.structs.replace(dead, id_columns=(ID,))) if dead is not None else None
        return {sink.name: writer(sink) for sink in sinks}, dead_writer

    def _publish(self, state: State, error: str | None = None) -> None:
        self._status = msgspec.structs.replace(
            self._status,
            state=state,
            error=error,
            updated_ms=now_ms(),
            queries=[query.status for query in self._queries],
        )
        self._state.write(self._status)
        if self._on_status is not None:
            self._on_status(self._status)


class _RunningQuery:
    """One query and its status. `add_epoch` is called from the query's thread, the rest from the runner's."""

    def __init__(self, plan: QueryPlan | None) -> None:
        self._plan = plan
        self._query: StreamingQuery | None = None
        self._work: EpochWork | None = None
        self._lock = threading.Lock()
        self._seen: tuple[int, str] = (-1, "")
        self._is_new = False
        self.is_active = True
        self.failure: str | None = None
        self.status = QueryStatus(
            name=plan.name if plan is not None else "batch",
            sinks={sink.name: 0 for sink in plan.sinks if sink.kind in COUNTED_KINDS} if plan is not None else {},
        )

    def start(self, spec: PipelineSpec, work: EpochWork, checkpoint: Checkpoint) -> None:
        assert self._plan is not None
        self._work = work
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
            if not is_active:
                self._take_end(query)
        with self._lock:
            self.status = msgspec.structs.replace(self.status, is_active=self.is_active, error=self.failure)
            is_new, self._is_new = self._is_new, False
        return is_new or was_active != self.is_active

    def end_if_idle(self) -> None:
        if self._query is not None and self.is_active and not self._query.status["isTriggerActive"]:
            self._query.stop()

    def end(self) -> None:
        if self._query is not None and self._query.isActive:
            self._query.stop()

    def _take_reports(self, query: StreamingQuery) -> None:
        last = query.lastProgress
        if last is None or _mark(last) == self._seen:
            return
        reports = query.recentProgress if last["batchId"] > self._seen[0] + 1 else [last]
        for report in sorted(reports, key=_mark):
            if _mark(report) > self._seen:
                self._take_report(json.loads(report.json))
                self._seen = _mark(report)

    def _take_report(self, report: dict[str, Any]) -> None:
        with self._lock:
            rows = self.status.rows + epoch_rows(report)
            self.status = msgspec.structs.replace(after_progress(self.status, report), rows=rows)
            self._is_new = True

    def _take_end(self, query: StreamingQuery) -> None:
        self.is_active = False
        error = query.exception()
        own = self._work.failure if self._work is not None else None
        if error is not None and not isinstance(own, EpochRefused):
            self.failure = failure_text(own or error)


def _check_writers(plan: Plan, writers: dict[str, Writer]) -> None:
    for name, writer in writers.items():
        if isinstance(writer, TopicWriter):
            try:
                writer.check(plan.frames[plan.spec.sinks[name].view])
            except ConfigError as error:
                raise ConfigError(f"sinks.{name}: {error}") from None


def _mark(report: Any) -> tuple[int, str]:
    """Reports in the order they were made: epochs, and of one epoch their times."""
    return int(report["batchId"]), str(report["timestamp"])
