"""Answers that go out when a table has been made durable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


def answer_when_kept(keep: Callable[[], Awaitable[None]], answer: bytes) -> asyncio.Future[bytes]:
    """The table is written whether or not whoever asked is still there."""

    async def wait() -> bytes:
        await asyncio.shield(asyncio.ensure_future(keep()))
        return answer

    return asyncio.ensure_future(wait())
