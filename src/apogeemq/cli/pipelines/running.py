"""What `apogee pipeline run` and `replay` do: start Spark, run, show, and end as a person wants it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import msgspec
import typer

from apogeemq.cli.pipelines.face import Face, face_of
from apogeemq.cli.pipelines.views import when
from apogeemq.errors import ConfigError, PipelineFailed

if TYPE_CHECKING:
    from apogeemq.spark.pipeline.spec import PipelineSpec
    from apogeemq.spark.pipeline.status import StateFolder

DONE, FAILED, INTERRUPTED = 0, 1, 130


class Job(NamedTuple):
    """What the command line says."""

    file: str
    master: str | None
    once: bool
    continuous: bool
    params: Sequence[str]
    state: Path | None
    shows_ui: bool
    as_json: bool
    accepts_changes: bool = False


def run(job: Job) -> int:
    return _run(job, _spec_of(job), None)


def replay(job: Job, since: str, *, asks: bool) -> int:
    from apogeemq.runtime.clock import now_ms
    from apogeemq.spark.pipeline.text.times import moment_ms

    moment = moment_ms(since, now_ms())
    spec = _spec_of(job)
    if not spec.is_streaming:
        raise ConfigError(
            f"{spec.name} has no streams: there is no moment to read it again from; each run reads all its tables"
        )
    for sentence in _what_a_replay_does(spec, moment):
        print(sentence, file=sys.stderr)
    if asks and not _is_wanted():
        print("Nothing has been done.", file=sys.stderr)
        return INTERRUPTED
    return _run(job, spec, moment)


def _is_wanted() -> bool:
    try:
        return typer.confirm("Go on?", err=True)
    except typer.Abort:  # nobody is there to ask, or a person wants out
        print("\nThere was no answer; --yes gives it beforehand.", file=sys.stderr)
        return False


def _spec_of(job: Job) -> PipelineSpec:
    from apogeemq.spark.pipeline.reading import read_pipeline
    from apogeemq.spark.pipeline.spec import Trigger
    from apogeemq.spark.pipeline.text.parameters import given_parameters

    if job.once and job.continuous:
        raise typer.BadParameter("--once and --continuous contradict each other")
    spec = read_pipeline(job.file, given_parameters(job.params))
    if job.once:
        return msgspec.structs.replace(spec, trigger=Trigger())
    if job.continuous and spec.trigger.is_bounded:
        return msgspec.structs.replace(spec, trigger=Trigger(interval_ms=0))
    return spec


def _what_a_replay_does(spec: PipelineSpec, moment: int) -> Iterator[str]:
    yield f"{spec.name} begins a new checkpoint; the old one stays beside it, unused."
    for source in spec.sources.values():
        if source.is_stream and source.format == "rocketmq":
            yield f"  {source.name}: messages stored since {when(moment)} are read again."
        elif source.is_stream:
            yield f"  {source.name}: {source.format} cannot be read from a time; it is read from where the file says."
    for sink in spec.sinks.values():
        yield f"  {sink.name}: keeps what it has, and gets the rows that are read again, as new ones."


def _run(job: Job, spec: PipelineSpec, replay_from_ms: int | None) -> int:
    from apogeemq.spark import require_extra

    require_extra()
    from apogeemq.spark.pipeline.running import run_pipeline
    from apogeemq.spark.pipeline.sessions import open_session
    from apogeemq.spark.pipeline.status import StateFolder, states_folder

    state = StateFolder((job.state or states_folder()) / spec.name)
    with state.held(), face_of(spec.name, as_json=job.as_json) as face, _interrupts(state, face) as interrupts:
        face.say(f"starting Spark; its log: {_log_file(state)}")

        def open_spark() -> Any:
            session = open_session(spec, job.master, state.logs, shows_ui=job.shows_ui)
            interrupts.has_begun = True
            return session

        try:
            status = run_pipeline(
                spec,
                open_spark,
                state,
                on_status=face.show,
                on_table=face.show_table,
                stop=interrupts.wanted,
                replay_from_ms=replay_from_ms,
                accepts_changes=job.accepts_changes,
                log_file=str(_log_file(state)),
            )
        except PipelineFailed as failure:
            face.end(f"apogee: the pipeline {spec.name} failed: {failure}\nSpark's log: {_log_file(state)}")
            return FAILED
    was_cut_short = interrupts.wanted.is_set() and status.is_bounded and status.state == "stopped"
    return INTERRUPTED if was_cut_short else DONE


def _log_file(state: StateFolder) -> Path:
    from apogeemq.spark.runtime.session import LOG_NAME

    return state.logs / LOG_NAME


# -- interrupts ----------------------------------------------------------------------------------------------


class _Interrupts:
    """The first Ctrl-C or SIGTERM is a wish, the second Ctrl-C an order; so is the first while Spark starts."""

    def __init__(self, state: StateFolder, face: Face) -> None:
        self.wanted = threading.Event()
        self.has_begun = False
        self._state = state
        self._face = face
        self._before: dict[int, Any] = {}

    def take(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)

    def give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.has_begun:
            self._end_at_once("interrupted while Spark started; nothing has been done")
        if self.wanted.is_set() and number == signal.SIGINT:
            self._end_at_once("interrupted in the middle of an epoch; the next run does it again")
        self.wanted.set()

    def _end_at_once(self, why: str) -> NoReturn:
        """Without a word from other threads, to which it looks as if Spark had died."""
        from apogeemq.spark.pipeline.sessions import end_java_at_once
        from apogeemq.spark.pipeline.watch.publishing import interrupted

        try:
            status = self._face.status
            if status is not None:
                status = interrupted(status, why)
                self._state.write(status)
            self._face.leave_at_once(status, f"apogee: {self._state.name}: {why}")
            end_java_at_once()
        finally:
            os._exit(INTERRUPTED)


@contextmanager
def _interrupts(state: StateFolder, face: Face) -> Iterator[_Interrupts]:
    interrupts = _Interrupts(state, face)
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    interrupts.take()
    try:
        yield interrupts
    finally:
        interrupts.give_back()
