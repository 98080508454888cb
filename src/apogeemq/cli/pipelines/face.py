"""What is seen of a pipeline by the one who runs it: a live view on a terminal, lines elsewhere, JSON for scripts."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from apogeemq.cli.pipelines.views import headline, printable, query_table, result_table, running_view, wide_console
from apogeemq.runtime.clock import now_ms

if TYPE_CHECKING:
    from apogeemq.spark.pipeline.progress import PipelineStatus

_LINE_EVERY_SECONDS: Final = 5.0  # where there is no terminal to draw on
_SHOW_CURSOR: Final = b"\x1b[?25h\n"


class Face:
    """`status` is what was shown last."""

    def __init__(self, name: str, console: Console, *, as_json: bool) -> None:
        self.status: PipelineStatus | None = None
        self._name = name
        self._console = console
        self._as_json = as_json
        self._said_at = 0.0
        is_drawn = console.is_terminal and not as_json
        # Drawn anew by a thread of its own: time goes by while nothing is reported.
        self._live = Live(console=console, get_renderable=self._view, refresh_per_second=4) if is_drawn else None

    def start(self) -> None:
        if self._live is not None:
            self._live.start()

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, sentence: str) -> None:
        if self._live is None:
            print(sentence, file=sys.stderr, flush=True)

    def show(self, status: PipelineStatus) -> None:
        before, self.status = self.status, status
        if self._as_json:
            print(msgspec.json.encode(status).decode(), flush=True)
        elif self._live is None:
            self._show_lines(status, is_new_state=before is None or before.state != status.state)

    def _show_lines(self, status: PipelineStatus, *, is_new_state: bool) -> None:
        if is_new_state or time.monotonic() - self._said_at >= _LINE_EVERY_SECONDS:
            self._console.print(headline(status, now_ms()))
            self._said_at = time.monotonic()
        if status.state.is_over:
            self._console.print(query_table(status))

    def _view(self) -> RenderableType:
        status = self.status
        return Text(f"{self._name}: starting") if status is None else running_view(status, now_ms())

    def show_table(self, name: str, epoch: int, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if self._as_json:
            table = {"sink": name, "epoch": epoch, "rows": [dict(zip(columns, row, strict=True)) for row in rows]}
            print(msgspec.json.encode(table, enc_hook=str).decode(), flush=True)
        else:
            self._console.print(result_table(name, epoch, columns, rows))

    def end(self, sentence: str) -> None:
        self.stop()
        print(printable(sentence), file=sys.stderr, flush=True)

    def leave_at_once(self, status: PipelineStatus | None, sentence: str) -> None:
        """For a handler of signals, which may have come in the middle of anything, printing too. The last word."""
        if self._live is not None:
            os.write(sys.__stdout__.fileno() if sys.__stdout__ else 1, _SHOW_CURSOR)
        elif self._as_json and status is not None:
            os.write(1, msgspec.json.encode(status) + b"\n")
        os.write(2, sentence.encode(errors="replace") + b"\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


@contextmanager
def face_of(name: str, *, as_json: bool) -> Iterator[Face]:
    face = Face(name, wide_console(), as_json=as_json)
    face.start()
    try:
        yield face
    finally:
        face.stop()
