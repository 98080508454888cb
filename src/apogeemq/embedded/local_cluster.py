"""A name server and a broker as processes of this machine, for as long as a `with` block lasts."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from apogeemq.embedded.lifeline import ends_with_us
from apogeemq.errors import ConnectFailed

_NAME_SERVER_BOOT: Final = re.compile(r"boot success\..* address (\S+)\s*$", re.MULTILINE)
_BROKER_BOOT: Final = re.compile(r"The broker\[\S+, (\S+)\] boot success")
_APOGEE: Final = (sys.executable, "-m", "apogeemq.cli.main")
_FLAGS: Final = ("--bind", "127.0.0.1", "--port", "0", "--log-dir", "", "--log-level", "warning")
_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.05


class LocalCluster:
    """On free ports of 127.0.0.1; all that it keeps is in `folder`. ConnectFailed when a server does not start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.name_server = ""
        self.broker = ""

    def __enter__(self) -> Self:
        try:
            self.name_server = self._start("namesrv", _NAME_SERVER_BOOT)
            self.broker = self._start("broker", _BROKER_BOOT, "--name", "broker-a", "-n", self.name_server)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _start(self, command: str, boot_line: re.Pattern[str], *flags: str) -> str:
        """The address that the server says it has."""
        said = self._folder / f"{command}.out"
        with said.open("wb") as output:
            process = subprocess.Popen(
                [*_APOGEE, command, *_FLAGS, "--data", str(self._folder / command), *flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us: servers end last
                preexec_fn=ends_with_us(),
            )
        self._processes.append(process)
        deadline = time.monotonic() + _START_SECONDS
        while (match := boot_line.search(said.read_text(errors="replace"))) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                why = "ended" if process.poll() is not None else f"took more than {_START_SECONDS:g} s"
                raise ConnectFailed(f"apogee {command} {why} before it was ready: {said.read_text().strip()[-500:]}")
            time.sleep(_LOOK_SECONDS)
        return match[1]

    def _stop(self) -> None:
        """Brokers first, so that they can say goodbye."""
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
