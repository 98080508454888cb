"""For compiled code that waits: it does not look for signals between two calls, as Python does by itself."""

from __future__ import annotations


def heed_signals() -> None:
    """Not compiled: Python looks for signals whenever a function of its own begins, and raises what their handlers
    raise."""
