"""How much may be on its way at once; whoever wants more waits until there is room."""

from __future__ import annotations

import asyncio
from collections import deque


class Window:
    """Counts messages and bytes. A message larger than the whole window may go when nothing else is on its way."""

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self.count = 0
        self.size = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def may_enter(self, size: int) -> bool:
        """Enters if there is room at once."""
        if self._waiting or not self._has_room(size):
            return False
        self.count += 1
        self.size += size
        return True

    async def enter(self, size: int) -> None:
        """In the order of asking."""
        if not self.may_enter(size):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((size, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self.leave(size)  # it was let in, and has nothing to do there
                else:
                    self._let_in()  # those behind may be smaller
                raise

    def leave(self, size: int, count: int = 1) -> None:
        """A message has its answer, or several of this size together."""
        self.count -= count
        self.size -= size
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and (self._waiting[0][1].done() or self._has_room(self._waiting[0][0])):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self.count += 1
                self.size += size
                turn.set_result(None)

    def _has_room(self, size: int) -> bool:
        return not self.count or (self.count < self._max_count and self.size + size <= self._max_bytes)
