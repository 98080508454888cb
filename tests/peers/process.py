"""A child process that announces itself with a line on stdout and never outlives the test run."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Self, TypeVar

from tests.peers.netns import NetNamespace

START_TIMEOUT_S = 180.0
"""Java on two busy cores needs several times what it needs alone."""
STOP_TIMEOUT_S = 180.0
"""Apache's broker takes 15 s to stop on a quiet machine."""
POLL_INTERVAL_S = 0.05
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_T = TypeVar("_T")


class PeerError(Exception):
    """A peer did not start, answer or end as it should; the message carries the end of its log."""


def wait_for(
    condition: Callable[[], _T],
    what: str,
    *,
    timeout_s: float = 120.0,
    interval_s: float = POLL_INTERVAL_S,
) -> _T:
    """Poll `condition` until it is true and return its value; AssertionError naming `what` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: still not so after {timeout_s:g} s; last seen: {value!r}")
        time.sleep(interval_s)
    return value


def free_port(*offsets: int) -> int:
    """A port P of 127.0.0.1 such that P and every P+offset is free now.

    Taken from below the range the kernel gives to outgoing connections, so that it is still free a moment later.
    """
    random = SystemRandom()
    for _ in range(1_000):
        port = random.randrange(20_000, 32_000)
        try:
            with contextlib.ExitStack() as held:
                for offset in (0, *offsets):
                    probe = held.enter_context(socket.socket())
                    probe.bind(("127.0.0.1", port + offset))
        except OSError:
            continue
        return port
    raise PeerError("no free port found on 127.0.0.1")


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """One child process with its output in a file. A context manager: started on entry, gone on exit."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str,
        work_dir: Path,
        ready: str | None = None,
        env: Mapping[str, str] | None = None,
        netns: NetNamespace | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self.name = name
        self.work_dir = work_dir
        self.log_path = work_dir / f"{name}.out"
        self.netns = netns
        self._command = command
        self._ready = ready
        self._env = {**os.environ, **(env or {})}
        self._start_timeout_s = start_timeout_s
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self.ready_match: re.Match[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()  # a test that wants a graceful end calls stop()

    @property
    def pid(self) -> int:
        return self._running().pid

    def is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def output(self) -> str:
        """All that it has written since it was last started."""
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def command(self) -> Sequence[str]:
        """What to run; asked at every start."""
        return self._command

    def launch(self) -> None:
        """Start it without waiting for the boot line, so that several can boot at once."""
        assert not self.is_running(), f"{self.name} is already running"
        self.work_dir.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._child = subprocess.Popen(
                [*(self.netns.exec_prefix if self.netns else ()), *self.command()],
                cwd=self.work_dir,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,  # so that even a killed test run leaves nothing behind
            )

    def wait_until_ready(self) -> None:
        """Return once the boot line has come."""
        if self._ready is None:
            return
        try:
            self.ready_match = self.wait_for_output(self._ready, timeout_s=self._start_timeout_s)
        except BaseException:
            self.kill()
            raise

    def start(self) -> None:
        """Start it, and return once the boot line has come."""
        self.launch()
        self.wait_until_ready()

    def say(self, line: str) -> None:
        """Write one line to its standard input."""
        stdin = self._running().stdin
        assert stdin is not None
        stdin.write(line.encode() + b"\n")
        stdin.flush()

    def wait_for_output(self, pattern: str, *, timeout_s: float = 60.0) -> re.Match[str]:
        """Wait until a whole line of output matches; fails at once when the process ends without it."""
        line = re.compile(f"(?m)^.*(?:{pattern}).*\n")
        deadline = time.monotonic() + timeout_s
        while True:
            running = self.is_running()
            if match := line.search(self.output()):
                return re.search(pattern, match[0]) or match
            if not running:
                raise PeerError(f"{self.name} ended ({self._exit_status()}) before {pattern!r}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise PeerError(f"{self.name} did not print {pattern!r} in {timeout_s:g} s:\n{self.tail()}")
            time.sleep(POLL_INTERVAL_S)

    def stop(self) -> int | None:
        """SIGTERM and wait; SIGKILL when that does not help. Its exit status, None if it never ran."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int | None:
        """SIGKILL: the process gets no chance to say goodbye."""
        return self._end(signal.SIGKILL)

    def wait(self, *, timeout_s: float = 60.0) -> int:
        """Wait for it to end by itself."""
        try:
            return self._running().wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise PeerError(f"{self.name} still runs after {timeout_s:g} s:\n{self.tail()}") from None

    def tail(self, size: int = 3_000) -> str:
        return self.output()[-size:]

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._child is not None, f"{self.name} has not been started"
        return self._child

    def _exit_status(self) -> str:
        return f"status {self._child.poll() if self._child else None}"

    def _end(self, how: signal.Signals) -> int | None:
        child = self._child
        if child is None:
            return None
        if child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
        if child.poll() is None:
            child.send_signal(how)
            try:
                child.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        return child.returncode
