"""Small files that are replaced whole: after a crash either the old content is there or the new, never a mixture.

The content before the last write is kept beside the file as `<file>.bak`. One writer per file at a time; all calls
block, so a server calls them from a worker thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from apogeemq.errors import ApogeeError, StorageFailed

log = logging.getLogger(__name__)

ContentT = TypeVar("ContentT")

_NEW_FILE_MODE = 0o644
_READ_ATTEMPTS = ("", ".bak")


def write_atomically(path: Path, data: bytes, *, keep_previous: bool = True) -> None:
    """Replace the file's content; when this returns it is on the disk. StorageFailed: the old content is in place.

    A symbolic link stays one: the file it points to is replaced. Missing folders are made.
    """
    target = Path(os.path.realpath(path))
    fresh = _beside(target, ".tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_and_sync(fresh, data, _mode_of(target))
        if keep_previous:
            _keep_as_backup(target)
        os.replace(fresh, target)
        sync_folder(target.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise StorageFailed(f"cannot write {path}: {error.strerror or error}") from error


def read_with_backup(path: Path, parse: Callable[[bytes], ContentT]) -> ContentT | None:
    """The file's content as `parse` understands it, else that of its `.bak`; None when neither exists.

    `parse` raises ValueError or an ApogeeError for content that is not whole. StorageFailed when a file is there
    but nothing readable is: starting without it would in the end overwrite what a person could still repair.
    """
    problems: list[str] = []
    for suffix in _READ_ATTEMPTS:
        candidate = _beside(Path(os.path.realpath(path)), suffix)
        try:
            content = parse(candidate.read_bytes())
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(f"cannot read {candidate}: {error.strerror or error}")
        except (ValueError, ApogeeError) as error:
            problems.append(f"{candidate} is damaged: {error}")
        else:
            if suffix:
                log.warning("%s; read %s instead", "; ".join(problems) or f"{path} is missing", candidate)
            return content
    if problems:
        raise StorageFailed("; ".join(problems))
    return None


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return _NEW_FILE_MODE


def _write_and_sync(path: Path, data: bytes, mode: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()  # what a crash left; its mode may be another
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _keep_as_backup(path: Path) -> None:
    """A second name for the present content, put in place in one step: there is no moment without a whole file."""
    if not path.exists():
        return  # the first write ever
    link = _beside(path, ".bak.tmp")
    with contextlib.suppress(FileNotFoundError):
        link.unlink()
    try:
        os.link(path, link)
    except OSError:  # a file system without hard links
        _write_and_sync(link, path.read_bytes(), _mode_of(path))
    os.replace(link, _beside(path, ".bak"))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: those that came, and that others went."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
