"""The state folder of pipelines on this machine: what each is doing, its lock, its wish to stop, its logs.

::

    ~/.apogee/pipelines/NAME/       (APOGEE_PIPELINES names another folder than ~/.apogee/pipelines)
        status.json                 replaced whole whenever something has happened
        lock                        held by the process that runs the pipeline
        stop                        there while somebody wants it to stop
        logs/                       Spark's
        checkpoint/                 where the file names no other
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from apogeemq.errors import ConfigError, StorageFailed
from apogeemq.runtime.atomic_file import write_atomically
from apogeemq.runtime.folder_lock import LOCK_FILE, FolderLock
from apogeemq.spark.pipeline.progress import PipelineStatus, State
from apogeemq.spark.pipeline.text.problems import hint

VARIABLE: Final = "APOGEE_PIPELINES"

_STATUS: Final = "status.json"
_STOP: Final = "stop"
_LOCK_ATTEMPTS: Final = 3
_LOCK_PAUSE_SECONDS: Final = 0.1


def states_folder(environment: Mapping[str, str] | None = None) -> Path:
    named = (os.environ if environment is None else environment).get(VARIABLE)
    return Path(named).expanduser() if named else Path.home() / ".apogee" / "pipelines"


def known_states(folder: Path) -> Iterator[StateFolder]:
    """Of pipelines that have run here, by name."""
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if (path / _STATUS).is_file():
                yield StateFolder(path)


def known_statuses(folder: Path) -> list[PipelineStatus]:
    """Of pipelines that have run here, as they are, by name. One that cannot be read does not hide the others."""
    return [_present_or_damaged(state) for state in known_states(folder)]


def _present_or_damaged(state: StateFolder) -> PipelineStatus:
    try:
        return state.present()
    except ConfigError as error:
        return PipelineStatus(name=state.name, state=State.DAMAGED, error=str(error))


def find_state(folder: Path, name: str) -> StateFolder:
    """ConfigError unless a pipeline of this name has run here."""
    known = {state.name: state for state in known_states(folder)}
    if name not in known:
        raise ConfigError(f"no pipeline {name} has run here ({folder}){hint(name, known)}")
    return known[name]


class StateFolder:
    """Of one pipeline. The one who runs it holds the lock; anybody may read, and ask it to stop."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock = FolderLock(self.path)
        self._is_ours = False

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    def acquire(self) -> None:
        """ConfigError when the pipeline is running."""
        for attempts_left in range(_LOCK_ATTEMPTS - 1, -1, -1):
            try:
                self._lock.acquire()
                break
            except StorageFailed as error:
                if not attempts_left:
                    raise ConfigError(self._refusal(error)) from None
                time.sleep(_LOCK_PAUSE_SECONDS)  # it may be somebody who only looked whether it runs
        self._is_ours = True
        self.clear_stop()

    @contextmanager
    def held(self) -> Iterator[None]:
        """From here to there, and longer if it was held before. ConfigError when another runs the pipeline."""
        if self._is_ours:
            yield
            return
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def _refusal(self, error: StorageFailed) -> str:
        if not self.is_held():
            return str(error)
        beside = "--state names another folder of states, to run a second one beside it"
        return f"the pipeline {self.name} is running{self._whose()}; {beside}"

    def _whose(self) -> str:
        status = _present_or_damaged(self)
        return f" as process {status.process}" if status.process and not status.state.is_over else ""

    def release(self) -> None:
        self._is_ours = False
        self._lock.release()

    def is_held(self) -> bool:
        """Whether a process runs the pipeline at this moment. Those who ask do not meet each other's locks."""
        try:
            descriptor = os.open(self.path / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def write(self, status: PipelineStatus) -> None:
        write_atomically(self.path / _STATUS, msgspec.json.encode(status), keep_previous=False)

    def read(self) -> PipelineStatus:
        """As it was last written. ConfigError when there is none that can be read."""
        path = self.path / _STATUS
        try:
            return msgspec.json.decode(path.read_bytes(), type=PipelineStatus)
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is damaged: {error}; the next run writes it anew") from None

    def present(self) -> PipelineStatus:
        """As it is: a process that ended without a word has failed."""
        status = self.read()
        if status.state.is_over or self.is_held():
            return status
        status = self.read()  # it may have ended, in order, between the two looks
        if status.state.is_over:
            return status
        error = f"process {status.process} ended without a word; see {status.log_file}"
        return msgspec.structs.replace(status, state=State.FAILED, error=error)

    def ask_to_stop(self) -> None:
        write_atomically(self.path / _STOP, b"", keep_previous=False)

    def is_asked_to_stop(self) -> bool:
        return (self.path / _STOP).exists()

    def clear_stop(self) -> None:
        (self.path / _STOP).unlink(missing_ok=True)
