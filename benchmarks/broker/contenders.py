"""The two brokers under comparison, and one round of load on either."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Self, TypeVar

import msgspec

from benchmarks import load
from benchmarks.broker import drain_load, latency_load, send_load
from benchmarks.contenders import SIDES, Side
from tests.peers import apache, ours

Server = ours.Broker | apache.Broker
Flush = Literal["ASYNC_FLUSH", "SYNC_FLUSH"]

HEAP = "2g"
FIXED_HEAP = (f"-Xms{HEAP}", f"-XX:MaxDirectMemorySize={HEAP}")
"""Apache's own start script gives the heap its full size at once; so do we, where it can only help."""
GROWING_HEAP = (f"-XX:MaxDirectMemorySize={HEAP}",)

PROPERTIES: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 30,
    "registerNameServerPeriod": 30_000,
    "diskMaxUsedSpaceRatio": 99,
    # No flow control: a refused send is not an operation.
    "waitTimeMillsInSendQueue": 60_000,
    "osPageCacheBusyTimeOutMills": 60_000,
}

_ROOT = Path(__file__).parent.parent.parent
_R = TypeVar("_R", load.Result, latency_load.Result)


class Contenders:
    """Makes brokers in folders of their own, all registered with one name server.

    With `control`, Apache plays both sides: every ratio should be 1.
    """

    def __init__(self, folder: Path, *, control: bool = False) -> None:
        self._folder = folder
        self._control = control
        self._name_server = ours.NameServer(work_dir=folder / "namesrv", args=("--log-level", "warning"))
        self._count = 0

    def __enter__(self) -> Self:
        self._name_server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._name_server.kill()

    def make(self, side: Side, *, flush: Flush = "ASYNC_FLUSH", fixed_heap: bool = True) -> Server:
        """A broker not yet started, with nothing of an earlier one in its folder."""
        self._count += 1
        work_dir = Path(tempfile.mkdtemp(prefix=f"{side}-", dir=self._folder))
        name, properties = f"{side}-{self._count}", {**PROPERTIES, "flushDiskType": flush}
        address = self._name_server.address
        if side == "ours" and not self._control:
            return ours.Broker(
                address, work_dir=work_dir, name=name, properties=properties, args=("--log-level", "warning")
            )
        return apache.Broker(
            apache.V5,
            address,
            work_dir=work_dir,
            name=name,
            heap=HEAP,
            properties=properties,
            jvm_args=FIXED_HEAP if fixed_heap else GROWING_HEAP,
        )

    @contextlib.contextmanager
    def running(self, side: Side, *, flush: Flush = "ASYNC_FLUSH", fixed_heap: bool = True) -> Iterator[Server]:
        """One side, started; its store is removed afterwards."""
        server = self.make(side, flush=flush, fixed_heap=fixed_heap)
        try:
            with server:
                yield server
        finally:
            forget(server)

    @contextlib.contextmanager
    def both(self, *, flush: Flush = "ASYNC_FLUSH") -> Iterator[dict[Side, Server]]:
        """Both sides, started."""
        with contextlib.ExitStack() as stack:
            yield {side: stack.enter_context(self.running(side, flush=flush)) for side in SIDES}


def forget(server: Server) -> None:
    """Remove all that a stopped broker has kept: a run writes tens of gigabytes."""
    shutil.rmtree(server.work_dir, ignore_errors=True)


def address(server: Server) -> tuple[str, int]:
    return "127.0.0.1", server.port


def send(job: send_load.Job) -> load.Result:
    return _generate("send_load", job, load.Result)


def drain(job: drain_load.Job) -> load.Result:
    return _generate("drain_load", job, load.Result)


def fixed_rate(job: latency_load.Job) -> latency_load.Result:
    return _generate("latency_load", job, latency_load.Result)


def _generate(module: str, job: msgspec.Struct, kind: type[_R]) -> _R:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.broker.{module}"],
        input=msgspec.json.encode(job),
        stdout=subprocess.PIPE,
        cwd=_ROOT,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=kind)
