"""A folder for a ledger, without Spark."""

from __future__ import annotations

from pathlib import Path


class LocalFolder:
    """The same face as a folder of Hadoop's."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, name: str) -> bytes | None:
        path = self._path / name
        return path.read_bytes() if path.exists() else None

    def create(self, name: str, data: bytes) -> bool:
        path = self._path / name
        if path.exists():
            return False
        path.write_bytes(data)
        return True

    def names(self, name: str) -> list[str]:
        return sorted(entry.name for entry in (self._path / name).iterdir())

    def delete(self, name: str) -> None:
        (self._path / name).unlink()
