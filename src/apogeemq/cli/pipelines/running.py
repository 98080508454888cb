"""What `apogee pipeline run` and `replay` do: start Spark, run, show, and end as a person wants it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import typer
from rich.console import Console
from rich.live import Live

from apogeemq.cli.pipelines.views import headline, query_table, result_table, running_view, when
from apogeemq.errors import PipelineFailed

if TYPE_CHECKING:
    from apogeemq.spark.pipeline.progress import PipelineStatus
    from apogeemq.spark.pipeline.spec import PipelineSpec
    from apogeemq.spark.pipeline.status import StateFolder

DONE, FAILED, INTERRUPTED = 0, 1, 130

_LINE_EVERY_SECONDS: Final = 5.0  # where there is no terminal to draw on


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
    for sentence in _what_a_replay_does(spec, moment):
        print(sentence, file=sys.stderr)
    if asks and not typer.confirm("Go on?", err=True):
        return FAILED
    return _run(job, spec, moment)


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
        yield f"  {sink.name}: keeps what it has, and gets the rows since then once more, as new ones."


def _run(job: Job, spec: PipelineSpec, replay_from_ms: int | None) -> int:
    from apogeemq.spark import require_extra

    require_extra()
    from apogeemq.spark.pipeline.running import run_pipeline
    from apogeemq.spark.pipeline.sessions import open_session
    from apogeemq.spark.pipeline.status import StateFolder, states_folder

    state = StateFolder((job.state or states_folder()) / spec.name)
    with _interrupts() as interrupts, _face(job, spec) as face:
        face.say(f"starting Spark; its log: {_log_file(state)}")
        session = open_session(spec, job.master, state.logs, shows_ui=job.shows_ui)
        interrupts.take()  # Spark has put its own handler in place
        try:
            if interrupts.wanted.is_set():
                return INTERRUPTED
            status = run_pipeline(
                spec,
                session,
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
        finally:
            session.stop()
    was_cut_short = interrupts.wanted.is_set() and status.is_bounded and status.state == "stopped"
    return INTERRUPTED if was_cut_short else DONE


def _log_file(state: StateFolder) -> Path:
    from apogeemq.spark.runtime.session import LOG_NAME

    return state.logs / LOG_NAME


# -- interrupts ----------------------------------------------------------------------------------------------


class _Interrupts:
    """The first Ctrl-C or SIGTERM is a wish, the second Ctrl-C an order."""

    def __init__(self) -> None:
        self.wanted = threading.Event()
        self._before: dict[int, Any] = {}

    def take(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.signal(number, self._handle)
            self._before.setdefault(number, before)

    def give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.wanted.is_set() and number == signal.SIGINT:
            from apogeemq.spark.pipeline.sessions import end_java_at_once

            end_java_at_once()
            os._exit(INTERRUPTED)
        self.wanted.set()


@contextmanager
def _interrupts() -> Iterator[_Interrupts]:
    interrupts = _Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    interrupts.take()
    try:
        yield interrupts
    finally:
        interrupts.give_back()


# -- what is seen --------------------------------------------------------------------------------------------


class _Face:
    """Draws on a terminal, prints JSON for scripts, or says a line now and then."""

    def __init__(self, console: Console, live: Live | None, *, as_json: bool) -> None:
        self._console = console
        self._live = live
        self._as_json = as_json
        self._said_at = 0.0
        self._state = ""

    def say(self, sentence: str) -> None:
        if self._live is not None:
            self._live.update(sentence)
        else:
            print(sentence, file=sys.stderr, flush=True)

    def show(self, status: PipelineStatus) -> None:
        if self._as_json:
            print(msgspec.json.encode(status).decode(), flush=True)
        elif self._live is not None:
            self._live.update(running_view(status))
        elif status.state != self._state or time.monotonic() - self._said_at >= _LINE_EVERY_SECONDS:
            self._console.print(headline(status))
            self._said_at = time.monotonic()
        if status.state.is_over and not self._as_json and self._live is None:
            self._console.print(query_table(status))
        self._state = status.state

    def show_table(self, name: str, epoch: int, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if self._as_json:
            table = {"sink": name, "epoch": epoch, "rows": [dict(zip(columns, row, strict=True)) for row in rows]}
            print(msgspec.json.encode(table, enc_hook=str).decode(), flush=True)
        else:
            self._console.print(result_table(name, epoch, columns, rows))

    def end(self, sentence: str) -> None:
        if self._live is not None:
            self._live.stop()
        print(sentence, file=sys.stderr, flush=True)


@contextmanager
def _face(job: Job, spec: PipelineSpec) -> Iterator[_Face]:
    console = Console()
    if job.as_json or not console.is_terminal:
        yield _Face(console, None, as_json=job.as_json)
        return
    with Live(f"{spec.name}: starting", console=console, refresh_per_second=4) as live:
        yield _Face(console, live, as_json=False)
