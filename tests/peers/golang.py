"""The real Go client, `rocketmq-client-go`: one program (tests/peers/go) that does what it is told, line by line.

The client comes through whatever Go proxy the machine is configured for, at the version go.mod names; the program is
built once into `$APOGEE_CACHE` (default ~/.cache/apogeemq).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.peers.netns import NetNamespace
from tests.peers.process import Process

_SOURCES = Path(__file__).parent / "go"
_OLDEST = (1, 19)
_USUAL_PLACES = ("/usr/local/go/bin/go", "/usr/lib/go/bin/go")


class GoUnavailable(Exception):
    """The Go client cannot be had on this machine; the message is one sentence that says why."""


def resolve() -> Path:
    """The program, built on first use and whenever its sources or Go change. GoUnavailable if that cannot be."""
    go, version = _find_go()
    digest = hashlib.sha256(version.encode())
    for path in sorted(_SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    cache = Path(os.environ.get("APOGEE_CACHE") or Path.home() / ".cache" / "apogeemq") / "peers" / "go"
    cache.mkdir(parents=True, exist_ok=True)
    program = cache / digest.hexdigest()[:16]
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test runs share the cache
        if not program.exists():
            _build(go, program)
    return program


def _find_go() -> tuple[str, str]:
    """The command and what it says of its version."""
    go = shutil.which("go") or next((place for place in _USUAL_PLACES if Path(place).exists()), None)
    if go is None:
        raise GoUnavailable("the Go client needs Go, and there is no `go` here")
    shown = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout.strip()
    version = re.search(r"go(\d+)\.(\d+)", shown)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        raise GoUnavailable(f"the Go client needs Go 1.19 or newer, and `go` here is {shown or 'unusable'}")
    return go, shown


def _build(go: str, program: Path) -> None:
    unfinished = program.with_suffix(".new")
    built = subprocess.run(
        [go, "build", "-buildvcs=false", "-o", str(unfinished), "."],
        cwd=_SOURCES,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        raise GoUnavailable(f"Go could not build the Go client: {built.stderr.strip()[-500:]}")
    unfinished.rename(program)


class GoError(Exception):
    """The Go client refused, or the server refused it; the message is the client's own."""


class GoClient(Process):
    """Any number of producers and consumers in one process; `main.go` says what each operation takes."""

    def __init__(self, name_server: str, *, work_dir: Path, netns: NetNamespace | None = None) -> None:
        super().__init__(
            (str(resolve()), name_server),
            name="go-client",
            work_dir=work_dir,
            ready="^@@ready",
            # Offsets of broadcast consumers are kept under the home folder.
            env={"HOME": str(work_dir), "ROCKETMQ_GO_LOG_LEVEL": "warn"},
            netns=netns,
        )
        self._count = 0

    def ask(self, operation: str, client: str = "", *, timeout_s: float = 60.0, **arguments: Any) -> Any:
        """Do one operation and return what it gave; GoError when it failed."""
        self._count += 1
        self.say(json.dumps({"id": self._count, "do": operation, "client": client, **arguments}))
        line = self.wait_for_output(rf'^@@answer (\{{"id":{self._count},.*)$', timeout_s=timeout_s)[1]
        answer = json.loads(line)
        if "error" in answer:
            raise GoError(answer["error"])
        return answer["ok"]

    def received(self, *consumers: str) -> list[dict[str, Any]]:
        """What these push consumers have been given so far, in that order."""
        lines = re.findall(r"(?m)^@@message (.*)\n", self.output())
        return [message for message in map(json.loads, lines) if message["consumer"] in consumers]
