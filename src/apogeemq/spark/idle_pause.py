"""A stream that has nothing to read is asked a hundred times a second by Spark whether there is something new."""

from __future__ import annotations

import time
from typing import Any


class IdlePause:
    """Waits for a moment where the last question brought nothing: servers and this process have better things to do."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked_from: Any = None
        self._asked_at = 0.0

    def wait(self, start: Any) -> None:
        """Before something new is looked for, from where the last batch ended."""
        if start == self._asked_from:
            time.sleep(max(0.0, self._asked_at + self._seconds - time.monotonic()))
        self._asked_from, self._asked_at = start, time.monotonic()
