"""A name server whose disk can be filled and emptied while it runs."""

from __future__ import annotations

import functools
import resource
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.peers.ours import NameServer

DISK_SIZE = 1024 * 1024
_PAGE = 4096
_MOUNT = 'mount -t tmpfs -o size=$1 tmpfs "$0" && shift && exec "$@"'


class SmallDisk(NameServer):
    """Its data folder, logs included, is a small file system that only this process sees and that ends with it.

    Where mounting is not allowed, a limit on the size of its files, set from outside, takes the disk's place. It
    holds for the file its terminal is, too.
    """

    def __init__(self, work_dir: Path, *args: str, is_mounted: bool | None = None) -> None:
        self.is_mounted = can_mount() if is_mounted is None else is_mounted
        self._folder = work_dir / "data"
        self._folder.mkdir(parents=True)
        super().__init__(work_dir=work_dir, args=(*args, "--log-dir", str(self._folder / "logs")))

    def command(self) -> Sequence[str]:
        command = super().command()
        return (*_mounting(self._folder), *command) if self.is_mounted else command

    @property
    def data(self) -> Path:
        """Its data folder as it sees it itself."""
        return Path(f"/proc/{self.pid}/root{self._folder}")

    @contextmanager
    def full(self, *, but_for: int = 0) -> Iterator[None]:
        """Meanwhile there is no room, or room for some bytes (whole pages) of the journal."""
        if not self.is_mounted:
            newest = max((self.data / "journal").glob("*.jsonl"))
            with self._files_of_at_most(newest.stat().st_size + but_for if but_for else 0):
                yield
            return
        filler = self.data / "filler"
        filler.write_bytes(bytes(but_for))
        with (self.data / "more filler").open("wb", buffering=0) as file:
            try:
                while file.write(bytes(_PAGE)):
                    pass
            except OSError:
                filler.unlink()
        yield
        (self.data / "more filler").unlink(missing_ok=True)  # the process may have ended, and the disk with it

    @contextmanager
    def _files_of_at_most(self, size: int) -> Iterator[None]:
        before = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, before[1]))
        yield
        if self.is_running():
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, before)


def _mounting(folder: Path) -> tuple[str, ...]:
    return ("unshare", "--mount", "sh", "-c", _MOUNT, str(folder), str(DISK_SIZE))


@functools.cache
def can_mount() -> bool:
    try:
        return subprocess.run([*_mounting(Path("/mnt")), "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
