"""Ctrl-C for the main thread, at a moment that is known."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def interrupted() -> Iterator[threading.Event]:
    """Set the event to interrupt the main thread once; the block must end by it."""
    is_time, is_over = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        is_time.wait()
        if not is_over.is_set():  # a block that has failed before must not take all other tests with it
            signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield is_time
    finally:
        is_over.set()
        is_time.set()
        thread.join()
