"""`apogee demo`: the whole system at work on this machine, for as long as somebody watches."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer

from apogeemq.errors import StorageFailed
from apogeemq.runtime.folder_lock import LOCK_FILE, FolderLock

PREFIX: Final = "apogeemq-demo-"
_LOOK_SECONDS: Final = 0.5
_UNSETTLED, _INTERRUPTED = 1, 130


def demo(
    seconds: Annotated[
        float, typer.Option(min=0, help="End by itself after so long, once the pipeline runs; 0: when interrupted.")
    ] = 0.0,
    rate: Annotated[float, typer.Option(min=1, max=5_000, help="Orders a second.")] = 200.0,
) -> None:
    """A name server, a broker, somebody who orders, and a pipeline on Spark that counts the revenue.

    Ctrl-C ends it; then, or after --seconds, every order is accounted for. Status 0 only if none is missing.
    """
    remove_what_was_left(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
        lock = FolderLock(Path(folder))
        lock.acquire()
        status = _demonstrate(Path(folder), seconds, rate)
    raise typer.Exit(status)


def remove_what_was_left(folder: Path) -> None:
    """Folders of demonstrations that were killed: those whose lock nobody holds."""
    for left in folder.glob(f"{PREFIX}*"):
        lock = FolderLock(left)
        if (left / LOCK_FILE).exists():
            with contextlib.suppress(StorageFailed):
                lock.acquire()
                shutil.rmtree(left, ignore_errors=True)
                lock.release()


def _demonstrate(folder: Path, seconds: float, rate: float) -> int:
    from apogeemq.spark import require_extra

    require_extra()
    from rich.console import Console

    from apogeemq.cli.demo.view import account_table, shown
    from apogeemq.spark.demo import Demonstration

    console = Console(highlight=False)
    with _interrupts() as wanted, shown(console) as face:
        face.say("starting a name server and a broker")
        with Demonstration(folder, orders_per_second=rate) as demonstration:
            while not wanted.is_set() and not demonstration.has_failed:
                figures = demonstration.figures()
                face.show(figures)
                if seconds and figures.seconds > seconds and demonstration.is_running:
                    break
                wanted.wait(_LOOK_SECONDS)
            if wanted.is_set() and not demonstration.is_running:
                face.say("interrupted before the pipeline had begun")
                return _INTERRUPTED
            account = demonstration.finish(face.show)
            said = demonstration.said
    console.print(account_table(account))
    for problem in account.problems():
        console.print(f"✗ {problem}", style="red", markup=False)
    if not account.is_settled:
        print(said, file=sys.stderr)
    return 0 if account.is_settled else _UNSETTLED


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Set by the first Ctrl-C or SIGTERM, or when the terminal is closed; the second ends the process at once."""
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield asked
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
