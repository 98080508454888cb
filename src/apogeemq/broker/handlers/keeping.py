"""Answers that go out when a table has been made durable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


def answer_when_kept(keep: Callable[[], Awaitable[None]], answer: bytes) -> asyncio.Future[bytes]:
    """`keep` raises StorageFailed when it could not be; that is the answer then."""

    async def wait() -> bytes:
        await keep()
        return answer

    return asyncio.ensure_future(wait())
