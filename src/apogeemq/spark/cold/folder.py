"""The files of a store folder, opened for reading only: on this machine's disks, or wherever Arrow can read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from apogeemq.errors import ConfigError, StorageFailed
from apogeemq.spark.cold.planning import LogFile, joined

LOG_FOLDER: Final = "commitlog"
INDEX_FOLDER: Final = "index"
_LOG_FILE_NAME: Final = re.compile("[0-9]{20}")
_INDEX_FILE_NAME: Final = re.compile("[0-9]{17}")


class OpenFile:
    """Reads parts of one file. Its failures are StorageFailed, with its name."""

    def __init__(self, name: str, file: Any) -> None:
        self.name = name
        self._file = file

    def read(self, position: int, length: int) -> bytes:
        """Fewer bytes where the file ends."""
        try:
            data: bytes = self._file.read_at(length, position)
        except OSError as error:
            raise StorageFailed(f"cannot read {self.name}: {error}") from error
        return data


def absolute(location: str) -> str:
    """The same wherever the process runs; a URI stays what it is."""
    return location if "://" in location else os.path.abspath(location)


def log_files(path: str, log_paths: Sequence[str]) -> list[LogFile]:
    """Those of the log in the order of their offsets, none of them empty. StorageFailed when there is no folder."""
    folders = log_paths or (joined(path, LOG_FOLDER),)
    listed = [(folder, _listed(folder)) for folder in folders]
    if not log_paths and listed[0][1] is None:
        listed = [(path, _listed(path))]  # it may be the folder of the log itself
    found: list[LogFile] = []
    for folder, entries in listed:
        if entries is None:
            raise StorageFailed(f"there is no folder {folder}")
        named = ((name, size) for name, size in entries if _LOG_FILE_NAME.fullmatch(name))
        found += [LogFile(folder, name, int(name), size) for name, size in named if size]
    if not found and not log_paths and listed[0][0] == path:
        raise StorageFailed(f"{path} has neither a folder {LOG_FOLDER} nor files of a log")
    return sorted(found, key=lambda file: file.start)


def index_files(path: str) -> list[tuple[str, str, int]]:
    """Folder, name and size of each, oldest first; none where there is no index."""
    folder = joined(path, INDEX_FOLDER)
    entries = _listed(folder) or []
    return sorted((folder, name, size) for name, size in entries if _INDEX_FILE_NAME.fullmatch(name))


@contextmanager
def opened(folder: str, name: str) -> Iterator[OpenFile]:
    """Raises StorageFailed, or FileNotFoundError."""
    system, base = _file_system(folder)
    try:
        file = system.open_input_file(f"{base}/{name}")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageFailed(f"cannot open {joined(folder, name)}: {error}") from error
    with file:
        yield OpenFile(joined(folder, name), file)


def _listed(folder: str) -> list[tuple[str, int]] | None:
    """Name and size of the files of a folder; None when there is no such folder."""
    system, base = _file_system(folder)
    try:
        if system.get_file_info(base).type != fs.FileType.Directory:
            return None
        entries = system.get_file_info(fs.FileSelector(base))
    except OSError as error:
        raise StorageFailed(f"cannot list {folder}: {error}") from error
    return [(entry.base_name, entry.size) for entry in entries if entry.type == fs.FileType.File]


def _file_system(location: str) -> tuple[Any, str]:
    if "://" not in location:
        return fs.LocalFileSystem(), location.rstrip("/")
    try:
        system, path = fs.FileSystem.from_uri(location)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ConfigError(f"cannot read from {location}: {error}") from None
    except OSError as error:
        raise StorageFailed(f"cannot reach {location}: {error}") from error
    return system, path.rstrip("/")
