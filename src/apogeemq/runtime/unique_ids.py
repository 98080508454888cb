"""Unique message ids of this process, in the layout of `model.ids`."""

from __future__ import annotations

import os
import random
from datetime import datetime
from itertools import count

from apogeemq.model.ids import unique_id, unique_id_prefix

_DAYS_31_MS = 31 * 24 * 3_600_000


class UniqueIds:
    """One for each process is enough; ids of two in one process differ by their random seed."""

    def __init__(self, address: bytes) -> None:
        self._prefix = unique_id_prefix(address, os.getpid(), random.getrandbits(32))
        self._counter = count()
        self._month_start_ms = 0

    def next(self, now_ms: int) -> str:
        if not 0 <= now_ms - self._month_start_ms < _DAYS_31_MS:
            month = datetime.fromtimestamp(now_ms / 1000).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            self._month_start_ms = int(month.timestamp() * 1000)
        return unique_id(self._prefix, now_ms - self._month_start_ms, next(self._counter))
