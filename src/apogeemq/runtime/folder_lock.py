"""One process per data folder: two would write the same files over each other.

Two kinds of lock on one file. `flock` is known everywhere. Java's brokers take a record lock, which does not see the
first kind; a record lock of the open file meets theirs, and, unlike theirs, is not lost when this process opens and
closes the file once more.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from struct import Struct

from apogeemq.errors import StorageFailed

LOCK_FILE = "lock"
_RECORD_LOCK = Struct("hhqqi4x")  # struct flock: type, whence, start, length, process (0: of the open file)


class FolderLock:
    """Held from `acquire` to `release`, or to the end of the process, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_FILE
        self._descriptor = -1

    def acquire(self) -> None:
        """StorageFailed when another holds it, or the folder cannot be had."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if hasattr(fcntl, "F_OFD_SETLK"):
                first_byte = _RECORD_LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
                fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, first_byte)
        except BlockingIOError:
            self.release()
            raise StorageFailed(f"the data folder {self._path.parent} is in use by another process") from None
        except OSError as error:
            self.release()
            raise StorageFailed(f"cannot use the data folder {self._path.parent}: {error.strerror or error}") from error

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
