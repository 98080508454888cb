"""A stream that has nothing to read is asked a hundred times a second by Spark whether there is something new."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_SHORTEST_SECONDS: Final = 0.02
_LONGEST_SECONDS: Final = 0.2
# Of the time that nothing has come for: what comes every second or more often is found as soon as may be.
_PART_OF_IDLE_TIME: Final = 0.02
# Spark asks an idle query again at once. Later than that it has been at work, for another source of the query perhaps,
# whose next batch would have to wait for our pause.
_AT_ONCE_SECONDS: Final = 0.05


class IdlePause:
    """Before a question, where the last one brought nothing: servers and this process have better things to do."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._asked_from: Any = None
        self._idle_since = 0.0
        self._answered_at = 0.0

    @contextmanager
    def around(self, start: Any) -> Iterator[None]:
        """The question for something new, from where the last batch ended. The more queues there are, the longer an
        answer takes: the pause begins after it."""
        if start == self._asked_from and self._clock() < self._answered_at + _AT_ONCE_SECONDS:
            pause = (self._answered_at - self._idle_since) * _PART_OF_IDLE_TIME
            pause = min(max(pause, _SHORTEST_SECONDS), _LONGEST_SECONDS)
            self._sleep(max(0.0, self._answered_at + pause - self._clock()))
        else:
            self._asked_from, self._idle_since = start, self._clock()
        yield
        self._answered_at = self._clock()
