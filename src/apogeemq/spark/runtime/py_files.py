"""The package, and what it needs, as files that Spark brings to executors that have not installed it.

Two kinds, because Python loads compiled modules only from folders: the package itself is one zip for `--py-files`;
each compiled dependency is an archive for `--archives`, unpacked by Spark into a folder that Python looks through.
Those are for executors with the platform and the Python version of this process. Executors must have pyarrow and numpy
in any case, as for everything that exchanges Arrow data with Python.
"""

from __future__ import annotations

import importlib.util
import marshal
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apogeemq
from apogeemq.errors import ConfigError

NEEDED: Final = ("msgspec", "isal")
USEFUL: Final = ("uvloop", "lz4", "zstandard", "fastavro", "google")
"""Without these: a slower event loop, no bodies compressed in these ways, none in Avro or Protobuf (`google`)."""

_LEFT_OUT: Final = frozenset(("__pycache__", "testing"))
# Zips with the same content are the same bytes.
_TIME: Final = (1980, 1, 1, 0, 0, 0)
_FILE_MODE: Final = 0o644 << 16
_UNCHECKED_HASH: Final = (1).to_bytes(4, "little")


def write_package(path: Path) -> Path:
    """This package as a zip, with its bytecode: workers would compile it at every start. For `--py-files`."""
    root = Path(apogeemq.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in _files(root):
            if file.suffix == ".so":  # compiled from a module whose text is here as well
                continue
            name = f"{root.name}/{file.relative_to(root).as_posix()}"
            text = file.read_bytes()
            _put(archive, name, text)
            if file.suffix == ".py":
                _put(archive, f"{name}c", _bytecode(text, name))
    return path


def write_dependencies(folder: Path) -> list[Path]:
    """What the package needs that is compiled, each as `NAME.zip`. For `--archives NAME.zip#NAME`."""
    folder.mkdir(parents=True, exist_ok=True)
    return [found for name in (*NEEDED, *USEFUL) if (found := _write_dependency(name, folder)) is not None]


def as_archives(written: list[Path]) -> str:
    """The value of `--archives`, or of `spark.archives`."""
    return ",".join(f"{path}#{path.stem}" for path in written)


def _write_dependency(name: str, folder: Path) -> Path | None:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        if name in NEEDED:
            raise ConfigError(f"{name} is not installed here as a folder of files, and cannot be sent to executors")
        return None
    path = folder / f"{name}.zip"
    root = Path(next(iter(spec.submodule_search_locations)))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in _files(root):
            _put(archive, file.relative_to(root).as_posix(), file.read_bytes())
    return path


def _files(root: Path) -> Iterator[Path]:
    for file in sorted(root.rglob("*")):
        if file.is_file() and _LEFT_OUT.isdisjoint(file.relative_to(root).parts):
            yield file


def _put(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.external_attr = _FILE_MODE
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def _bytecode(text: bytes, name: str) -> bytes:
    """As Python keeps it (PEP 552, not compared with the text); other versions of Python pass it over for the text."""
    code = marshal.dumps(compile(text, name, "exec", dont_inherit=True))
    return importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(text) + code
