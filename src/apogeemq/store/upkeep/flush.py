"""Make what was appended durable: at intervals, and at once for those who wait.

One thread of its own calls fdatasync; all who wait meanwhile are served by the next call, so a flush costs the same for
one message and for a thousand. A flush that fails is never taken back: the store takes no more messages until a
person has looked, because the kernel may have thrown the pages away.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable
from threading import Condition, Thread
from time import perf_counter
from typing import Final

from apogeemq.store.commit_log import CommitLog

log = logging.getLogger(__name__)

# Upper bounds, in seconds, of the classes flush times are counted in; a last class has no bound.
FLUSH_TIME_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class FlushFigures:
    """What flushes cost so far. Written by the flush thread, read by any."""

    def __init__(self) -> None:
        self.count = 0
        self.failure_count = 0
        self.seconds_total = 0.0
        self.seconds_max = 0.0
        self.counts_by_time = [0] * (len(FLUSH_TIME_BOUNDS) + 1)

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds_total += seconds
        self.seconds_max = max(self.seconds_max, seconds)
        self.counts_by_time[bisect_left(FLUSH_TIME_BOUNDS, seconds)] += 1


class LogFlusher:
    """`on_flushed(offset)` and `on_failed(error)` are called from its thread.

    Messages older than `last_written_time` are written, and those older than `flushed_time` are durable.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        interval_seconds: float,
        on_flushed: Callable[[int], None],
        on_failed: Callable[[OSError], None],
        last_written_time: Callable[[], int] = lambda: 0,
    ) -> None:
        self._log = commit_log
        self._interval_seconds = interval_seconds
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._last_written_time = last_written_time
        self._changed = Condition()
        self._is_wanted = False
        self._is_stopping = False
        self._thread = Thread(target=self._run, name="log-flush", daemon=True)
        self.figures = FlushFigures()
        self.flushed_time = 0

    def start(self) -> None:
        self._thread.start()

    def request(self) -> None:
        """Somebody waits for what has been appended so far."""
        with self._changed:
            self._is_wanted = True
            self._changed.notify()

    def stop(self) -> None:
        """Flush once more, then end."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._is_wanted and not self._is_stopping:
                    self._changed.wait(self._interval_seconds)
                self._is_wanted = False
                is_last = self._is_stopping
            try:
                self._flush()
            except OSError as error:
                log.critical("the commit log cannot be flushed, no more messages are taken: %s", error)
                self.figures.failure_count += 1
                self._on_failed(error)
                return
            if is_last:
                return

    def _flush(self) -> None:
        time = self._last_written_time()  # before the end is looked at: older messages are before the end
        end = self._log.written_offset
        if end > self._log.flushed_offset:
            began = perf_counter()
            self._log.flush(end)
            self.figures.add(perf_counter() - began)
            self._on_flushed(end)
        self.flushed_time = time
