"""The two name servers under comparison, and one round of load on either."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from benchmarks import load, open_loop
from tests.peers import apache, ours

Side = Literal["ours", "apache"]
Server = ours.NameServer | apache.NameServer
SIDES: tuple[Side, Side] = ("ours", "apache")

HEAP = "1g"
FIXED_HEAP = (f"-Xms{HEAP}",)
"""Apache's own start script gives the heap its full size at once; so do we, where it can only help."""

_ROOT = Path(__file__).parent.parent
_R = TypeVar("_R", load.Result, open_loop.Result)


class Contenders:
    """Makes servers in folders of their own. With `control`, Apache plays both sides: every ratio should be 1."""

    def __init__(self, folder: Path, *, control: bool = False) -> None:
        self._folder = folder
        self._control = control

    def make(self, side: Side, *, fixed_heap: bool = True) -> Server:
        """A server not yet started, with nothing of an earlier one in its folder."""
        work_dir = Path(tempfile.mkdtemp(prefix=f"{side}-", dir=self._folder))
        if side == "ours" and not self._control:
            return ours.NameServer(work_dir=work_dir, args=("--log-level", "warning"))
        jvm_args = FIXED_HEAP if fixed_heap else ()
        return apache.NameServer(apache.V5, work_dir=work_dir, heap=HEAP, jvm_args=jvm_args)

    @contextlib.contextmanager
    def both(self) -> Iterator[dict[Side, Server]]:
        """Both sides, started."""
        servers = {side: self.make(side) for side in SIDES}
        with contextlib.ExitStack() as running:
            for server in servers.values():
                running.enter_context(server)
            yield servers


def address(server: Server) -> tuple[str, int]:
    return "127.0.0.1", server.port


def closed_loop(job: load.Job) -> load.Result:
    return _generate("benchmarks.load", job, load.Result)


def fixed_rate(job: open_loop.Job) -> open_loop.Result:
    return _generate("benchmarks.open_loop", job, open_loop.Result)


def _generate(module: str, job: msgspec.Struct, kind: type[_R]) -> _R:
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=msgspec.json.encode(job),
        stdout=subprocess.PIPE,
        cwd=_ROOT,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=kind)
