"""Apache's Java client at a test's command: many producers and consumers in one warm JVM."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.peers import apache
from tests.peers.netns import NetNamespace
from tests.peers.process import POLL_INTERVAL_S, PeerError, Process

_SOURCES = Path(__file__).parent / "java" / "clientshell"
_NEVER_BY_ITSELF_MS = 600_000


class JavaError(Exception):
    """What the client threw."""

    def __init__(self, type_name: str, code: int | None, message: str) -> None:
        super().__init__(f"{type_name} {code}: {message}")
        self.type_name = type_name
        self.code = code
        self.message = message


class ClientShell(Process):
    """The program in java/clientshell. Its commands are described there; `call` runs one."""

    def __init__(self, version: str, *, work_dir: Path, netns: NetNamespace | None = None) -> None:
        flags = (
            *apache.QUICK_START,
            "-Dfile.encoding=UTF-8",
            # Consumers must share out the queues because the broker tells them to, not because time has passed.
            f"-Drocketmq.client.rebalance.waitInterval={_NEVER_BY_ITSELF_MS}",
            "-Drocketmq.client.rebalance.minInterval=100",
        )
        self._classes = work_dir / "classes"
        self._library = apache.resolve(version)
        command = apache.java_command(version, work_dir, ["ClientShell"], heap="512m", jvm_args=flags)
        command[command.index("-cp") + 1] += f":{self._classes}"
        super().__init__(command, name="clients", work_dir=work_dir, ready="^@@ready", netns=netns)
        self._numbers = itertools.count(1)
        self._read = 0
        self._rest = b""
        self._answers: dict[int, dict[str, Any]] = {}

    def launch(self) -> None:
        sources = sorted(map(str, _SOURCES.glob("*.java")))
        compiler = ["javac", "-nowarn", "-d", str(self._classes), "-cp", f"{self._library}/*", *sources]
        compiled = subprocess.run(compiler, capture_output=True, text=True, check=False)
        assert compiled.returncode == 0, compiled.stderr
        super().launch()

    def ask(self, do: str, **args: object) -> int:
        """Give a command; its number, for `answer`. Commands given so run at the same time."""
        number = next(self._numbers)
        self.say(json.dumps({"id": number, "do": do, **args}))
        return number

    def answer(self, number: int, *, timeout_s: float = 90.0) -> Any:
        deadline = time.monotonic() + timeout_s
        while number not in self._answers:
            running = self.is_running()
            self._collect()
            if number in self._answers:
                break
            if not running:
                raise PeerError(f"{self.name} ended:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise PeerError(f"{self.name} did not answer command {number} in {timeout_s:g} s:\n{self.tail()}")
            time.sleep(POLL_INTERVAL_S / 10)
        answer = self._answers.pop(number)
        if error := answer.get("error"):
            raise JavaError(error["type"], error["code"], error["message"])
        return answer["result"]

    def call(self, do: str, **args: object) -> Any:
        return self.answer(self.ask(do, **args))

    def stop_clients(self, names: Sequence[str]) -> None:
        if names:
            self.call("stop", names=list(names))

    def _collect(self) -> None:
        """Read on from where the last look ended: the answers may be long."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start + self._read)
            new = log.read()
        self._read += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            number, _, answer = line.partition(b" ")
            if line.startswith(b"@@") and answer:
                self._answers[int(number[2:])] = json.loads(answer)
