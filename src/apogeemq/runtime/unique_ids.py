"""Unique message ids of this process, in the layout of `model.ids`."""

from __future__ import annotations

import os
from datetime import datetime

from apogeemq.model.ids import several_unique_ids, unique_id, unique_id_prefix, unique_id_start

_DAYS_31_MS = 31 * 24 * 3_600_000


class UniqueIds:
    """One for each process is enough; ids of two in one process differ by their random seed."""

    def __init__(self, address: bytes) -> None:
        self._address = address
        self._prefix = self._new_prefix()
        self._count = 0
        self._month_start_ms = 0
        self._last_ms = 0
        self._start = ""  # what the ids of the last millisecond began with

    def next(self, now_ms: int) -> str:
        if now_ms != self._last_ms:
            self._start = self._start_of(now_ms)
        number = self._count
        self._count = number + 1
        return unique_id(self._start, number)

    def others(self) -> UniqueIds:
        """For another thread; each needs its own."""
        return UniqueIds(self._address)

    def several(self, now_ms: int, count: int) -> list[str]:
        if now_ms != self._last_ms:
            self._start = self._start_of(now_ms)
        number = self._count
        self._count = number + count
        return several_unique_ids(self._start, number, count)

    def _start_of(self, now_ms: int) -> str:
        if now_ms < self._last_ms:  # the clock was set back: these milliseconds have had their ids
            self._prefix = self._new_prefix()
        self._last_ms = now_ms
        if not 0 <= now_ms - self._month_start_ms < _DAYS_31_MS:
            month = datetime.fromtimestamp(now_ms / 1000).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            self._month_start_ms = int(month.timestamp() * 1000)
        return unique_id_start(self._prefix, now_ms - self._month_start_ms)

    def _new_prefix(self) -> str:
        return unique_id_prefix(self._address, os.getpid(), int.from_bytes(os.urandom(4)))
