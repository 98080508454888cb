"""A table kept in a file of `config/`: read once at the start, written when it has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from apogeemq.errors import StorageFailed
from apogeemq.runtime.atomic_file import read_with_backup, write_atomically

log = logging.getLogger(__name__)


class TableFile:
    """`content` is taken on the loop and written off it. What was there before stays as `.bak`, as Apache has it."""

    def __init__(self, path: Path, content: Callable[[], bytes]) -> None:
        self._path = path
        self._content = content
        self._is_dirty = False
        self._turn = asyncio.Lock()
        self.failure_count = 0
        self._problem: StorageFailed | None = None  # of the last attempt

    def load(self, take: Callable[[bytes], None]) -> bool:
        """False when there is no file yet. StorageFailed when there is one that cannot be read."""

        def parse(data: bytes) -> bool:
            take(data)
            return True

        return read_with_backup(self._path, parse) is not None

    def changed(self) -> None:
        self._is_dirty = True

    async def save(self) -> None:
        """StorageFailed when what it holds now is not on the disk."""
        await self.save_if_changed()
        if self._problem is not None:
            raise self._problem

    async def save_if_changed(self) -> None:
        """A failure is logged and tried again next time."""
        async with self._turn:
            if not self._is_dirty:
                return
            self._is_dirty = False
            writing = asyncio.ensure_future(asyncio.to_thread(self._write, self._content()))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:  # whoever asked is gone; what was begun must be done before the next
                await writing
                raise

    def _write(self, content: bytes) -> None:
        try:
            write_atomically(self._path, content)
            self._problem = None
        except StorageFailed as error:
            self._problem = error
            self._is_dirty = True
            self.failure_count += 1
            log.error("%s", error)
