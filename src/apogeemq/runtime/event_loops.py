"""Which event loop this process uses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        log.info("uvloop is not installed here; the standard event loop is slower, but right")
        return asyncio.new_event_loop
    return uvloop.new_event_loop
