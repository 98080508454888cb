"""The pipeline of the demonstration: `apogee pipeline run orders` as a process, as a person would start it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from apogeemq.embedded.lifeline import ends_with_us
from apogeemq.errors import ConfigError
from apogeemq.spark.pipeline.progress import PipelineStatus, State
from apogeemq.spark.pipeline.status import VARIABLE, StateFolder

_NAME: Final = "orders"
_ENDED_SECONDS: Final = 30.0


class OrdersPipeline:
    """From `start` to `end`. Its state is kept in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state = StateFolder(folder / _NAME)
        self._output = folder / "pipeline.out"
        self._process: subprocess.Popen[bytes] | None = None
        self._last: PipelineStatus | None = None

    def start(self, parameters: Mapping[str, str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        given = [word for name, value in parameters.items() for word in ("--param", f"{name}={value}")]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "apogeemq.cli.main", "pipeline", "run", _NAME, "--continuous", *given],
                env={**os.environ, VARIABLE: str(self._folder), "NO_COLOR": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us; and Spark can be ended whole
                preexec_fn=ends_with_us(),  # its JVM ends when it does, and Python workers with that
            )

    def status(self) -> PipelineStatus | None:
        """The last there is; None before the first."""
        with contextlib.suppress(ConfigError):  # not there yet
            self._last = self._state.read()
        return self._last

    @property
    def is_running(self) -> bool:
        """Whether epochs are being done."""
        status = self.status()
        return status is not None and status.state is State.RUNNING and self.is_alive

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def failure(self) -> str | None:
        """Why it ended though nobody asked it to."""
        status = self.status()
        if status is not None and status.error:
            return status.error
        code = self._process.poll() if self._process is not None else None
        return None if not code else f"status {code}: {self.said()[-300:].strip()}"

    def said(self) -> str:
        """What it has written to its terminal, if it had one, and the last of Spark's log."""
        logs = sorted((self._state.path / "logs").glob("*.log")) if self._state.path.exists() else []
        return "\n".join(path.read_text(errors="replace")[-2_000:] for path in (self._output, *logs) if path.exists())

    def ask_to_stop(self) -> None:
        """After the epochs that are being done."""
        self._state.ask_to_stop()

    def end(self) -> None:
        """At once, if it has not ended; with all that it has started."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + _ENDED_SECONDS
        while _has_members(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
