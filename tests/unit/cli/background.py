"""Servers beside a command that runs an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from threading import Thread
from typing import TypeVar

ValueT = TypeVar("ValueT")

_SECONDS = 20.0


@contextmanager
def in_background(context: AbstractAsyncContextManager[ValueT]) -> Iterator[ValueT]:
    """Enter the context on an event loop in another thread, and leave it there."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        value = asyncio.run_coroutine_threadsafe(_entered(context), loop).result(_SECONDS)
        try:
            yield value
        finally:
            asyncio.run_coroutine_threadsafe(_left(context), loop).result(_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _entered(context: AbstractAsyncContextManager[ValueT]) -> ValueT:
    return await context.__aenter__()


async def _left(context: AbstractAsyncContextManager[ValueT]) -> None:
    await context.__aexit__(None, None, None)
