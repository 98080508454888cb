"""A pipeline while it runs: its queries started, watched, and ended between epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import msgspec

from apogeemq.errors import ApogeeError, PipelineFailed
from apogeemq.spark.pipeline.checkpoint.generations import Checkpoint
from apogeemq.spark.pipeline.checkpoint.places import places
from apogeemq.spark.pipeline.checkpoint.work import work_of
from apogeemq.spark.pipeline.epochs import EpochWork, Gate, write_views
from apogeemq.spark.pipeline.planning import Plan, make_plan
from apogeemq.spark.pipeline.progress import PipelineStatus, State
from apogeemq.spark.pipeline.quality import ID
from apogeemq.spark.pipeline.sessions import prepared, stop_spark
from apogeemq.spark.pipeline.sinks import ShowTable, Writer, make_writer
from apogeemq.spark.pipeline.spec import PipelineSpec, Sink
from apogeemq.spark.pipeline.status import StateFolder
from apogeemq.spark.pipeline.text.failures import failure_text
from apogeemq.spark.pipeline.watch.publishing import OnStatus, Publisher
from apogeemq.spark.pipeline.watch.queries import RunningQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS: Final = 0.2

OpenSpark = Callable[[], "SparkSession"]


def run_pipeline(
    spec: PipelineSpec,
    spark: SparkSession | OpenSpark,
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

    A Spark that is opened for the run is opened when others can see the run, and stopped after it. Raises ConfigError
    for what cannot be begun, PipelineFailed when a query ended with an error; either is in the status, too. With
    `accepts_changes` it goes on from a checkpoint of other places, and keeps the new ones. `on_table` is called from
    other threads, `on_status` from this one.
    """
    with state.held():
        publisher = Publisher(spec, state, on_status, log_file)
        run = _Run(spec, state, publisher, on_table, stop or threading.Event())
        return run.run(spark, replay_from_ms, accepts_changes)


class _Run:
    def __init__(
        self,
        spec: PipelineSpec,
        state: StateFolder,
        publisher: Publisher,
        on_table: ShowTable | None,
        stop: threading.Event,
    ) -> None:
        self._spec = spec
        self._state = state
        self._publisher = publisher
        self._on_table = on_table
        self._stop = stop
        self._ending = threading.Event()  # never set: to wait on while `stop` is
        self._gate = Gate()
        self._queries: list[RunningQuery] = []

    def run(self, spark: SparkSession | OpenSpark, replay_from_ms: int | None, accepts_changes: bool) -> PipelineStatus:
        with ExitStack() as ending:
            try:
                self._publish(State.STARTING)
                if callable(spark):
                    spark = spark()
                    ending.callback(stop_spark, spark)
                self._publisher.know_master(str(spark.sparkContext.master))
                if self._wants_end():
                    self._publish(State.STOPPED)
                else:
                    with prepared(self._spec, spark) as session:
                        self._run_prepared(session, replay_from_ms, accepts_changes)
            except BaseException as error:
                self._end_at_once()
                self._publish(State.FAILED, error=failure_text(error) or type(error).__name__)
                if isinstance(error, ApogeeError) or not isinstance(error, Exception):
                    raise
                raise PipelineFailed(failure_text(error)) from error
        return self._publisher.status

    def _wants_end(self) -> bool:
        return self._stop.is_set() or self._state.is_asked_to_stop()

    def _run_prepared(self, session: SparkSession, replay_from_ms: int | None, accepts_changes: bool) -> None:
        checkpoint = Checkpoint(session, self._publisher.status.checkpoint, self._spec.name)
        if replay_from_ms is not None:
            checkpoint.begin_anew(replay_from_ms)
        checkpoint.go_to(places(self._spec, checkpoint.qualified), accepts_changes=accepts_changes)
        plan = make_plan(self._spec, session, checkpoint.source_options)
        if plan.queries:
            self._run_queries(plan, session, checkpoint)
        else:
            self._run_batch(plan, session, checkpoint, accepts_changes)

    # -- streams ---------------------------------------------------------------------------------------------

    def _run_queries(self, plan: Plan, session: SparkSession, checkpoint: Checkpoint) -> None:
        writers = {query.name: self._writers(session, checkpoint, query.name, query.sinks) for query in plan.queries}
        checkpoint.keep()
        for query in plan.queries:
            running = RunningQuery(query)
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
        if (has_failed or self._wants_end()) and not self._gate.is_closed:
            self._gate.close()
            self._publish(State.STOPPING)
        elif any(is_changed):
            self._publish(self._publisher.status.state)
        if self._gate.is_closed:
            for query in self._queries:
                query.end_between_epochs()
        return any(query.is_active for query in self._queries)

    def _end_at_once(self) -> None:
        self._gate.close()
        for query in self._queries:
            query.end()

    # -- tables ----------------------------------------------------------------------------------------------

    def _run_batch(self, plan: Plan, session: SparkSession, checkpoint: Checkpoint, accepts_changes: bool) -> None:
        """All of it, once, as one epoch: one that did not end is done again under its number."""
        running = RunningQuery(None)
        self._queries.append(running)
        self._publish(State.RUNNING)
        checkpoint.keep()
        run = checkpoint.begin_batch(work_of(self._spec), accepts_changes=accepts_changes)
        sinks = list(self._spec.sinks.values())
        writers = self._writers(session, checkpoint, "batch", sinks)
        kept = [plan.raw[name] for name in self._spec.sources] if len(sinks) + 2 * len(plan.checks) > 1 else []
        for frame in kept:  # what is read twice may have grown meanwhile, and sinks would not agree
            frame.persist()
        try:
            running.add_epoch(run.epoch, write_views(plan, list(plan.checks), plan.raw, *writers, run.epoch))
        finally:
            for frame in kept:
                frame.unpersist()
        checkpoint.end_batch(run)
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
        self._publisher.publish(state, [query.status for query in self._queries], error)
