"""Unique message ids of this process, in the layout of `model.ids`."""

from __future__ import annotations

import os
import threading
from datetime import datetime

from apogeemq.model.ids import UniqueIdRange, unique_id, unique_id_prefix, unique_id_start

_DAYS_31_MS = 31 * 24 * 3_600_000
_LATE_MS = 50  # in which nobody asks for so many ids that their numbers begin anew


class UniqueIds:
    """One for each process is enough, for all its threads; ids of two in one process differ by their random seed."""

    def __init__(self, address: bytes) -> None:
        self._address = address
        self._prefix = self._new_prefix()
        self._count = 0
        self._month_start_ms = 0
        self._last_ms = 0
        self._start = ""  # what the ids of the last millisecond began with
        self._changing = threading.Lock()

    def next(self, now_ms: int) -> str:
        with self._changing:
            if now_ms != self._last_ms:
                self._start = self._start_of(now_ms)
            number, start = self._count, self._start
            self._count = number + 1
        return unique_id(start, number)

    def several(self, now_ms: int, count: int) -> UniqueIdRange:
        with self._changing:
            if now_ms != self._last_ms:
                self._start = self._start_of(now_ms)
            number, start = self._count, self._start
            self._count = number + count
        return UniqueIdRange(start, number, count)

    def _start_of(self, now_ms: int) -> str:
        if self._last_ms - _LATE_MS < now_ms < self._last_ms:  # another thread was quicker to ask than to look
            return self._start
        if now_ms < self._last_ms:  # the clock was set back: these milliseconds have had their ids
            self._prefix = self._new_prefix()
        self._last_ms = now_ms
        if not 0 <= now_ms - self._month_start_ms < _DAYS_31_MS:
            month = datetime.fromtimestamp(now_ms / 1000).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            self._month_start_ms = int(month.timestamp() * 1000)
        return unique_id_start(self._prefix, now_ms - self._month_start_ms)

    def _new_prefix(self) -> str:
        return unique_id_prefix(self._address, os.getpid(), int.from_bytes(os.urandom(4)))
