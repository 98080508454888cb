"""Make what was appended durable: at intervals, and at once for those who wait.

One thread of its own calls fdatasync; all who wait meanwhile are served by the next call, so a flush costs the same for
one message and for a thousand. A flush that fails is never taken back: the store takes no more messages until a
person has looked, because the kernel may have thrown the pages away.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition, Thread

from apogeemq.store.commit_log import CommitLog

log = logging.getLogger(__name__)


class LogFlusher:
    """`on_flushed(offset)` and `on_failed(error)` are called from its thread."""

    def __init__(
        self,
        commit_log: CommitLog,
        interval_seconds: float,
        on_flushed: Callable[[int], None],
        on_failed: Callable[[OSError], None],
    ) -> None:
        self._log = commit_log
        self._interval_seconds = interval_seconds
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._changed = Condition()
        self._is_wanted = False
        self._is_stopping = False
        self._thread = Thread(target=self._run, name="log-flush", daemon=True)

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
                self._on_failed(error)
                return
            if is_last:
                return

    def _flush(self) -> None:
        end = self._log.max_offset
        if end > self._log.flushed_offset:
            self._log.flush(end)
            self._on_flushed(end)
