"""What was pulled and waits for a poll. The queues take turns; within a queue the order is that of the offsets."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from apogeemq.client.consuming.incoming import ConsumedMessage
from apogeemq.client.consuming.process_queue import ProcessQueue
from apogeemq.client.consuming.queue_reader import QueueReader


class _Line(NamedTuple):
    """Messages of one queue; of none any more when its process is dropped: after a seek, or when the queue is left."""

    reader: QueueReader
    process: ProcessQueue
    messages: deque[ConsumedMessage]


class LitePullCache:
    """`take` gives nothing when its time is over, and when the cache is closed."""

    def __init__(self) -> None:
        self._lines: dict[ProcessQueue, _Line] = {}
        self._turns: deque[_Line] = deque()
        self._paused: list[_Line] = []  # lines that had their turn while their queue was paused
        self._has_news = asyncio.Event()
        self.is_closed = False

    def deliver(self, reader: QueueReader, messages: list[ConsumedMessage]) -> None:
        line = self._lines.get(reader.process)
        if line is None:
            line = self._lines[reader.process] = _Line(reader, reader.process, deque())
            self._turns.append(line)
        line.messages.extend(messages)
        self._has_news.set()

    async def take(self, max_messages: int, timeout_seconds: float | None) -> list[ConsumedMessage]:
        """Whoever is cancelled here has taken nothing."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds if timeout_seconds is not None else None
        while not self.is_closed:
            if messages := self._take_now(max_messages):
                return messages
            self._has_news.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._has_news.wait()
            except TimeoutError:
                break
        return []

    def resume(self) -> None:
        """Queues were resumed: their lines have turns again."""
        self._turns.extend(self._paused)
        self._paused.clear()
        self._has_news.set()

    def close(self) -> None:
        self.is_closed = True
        for line in (*self._turns, *self._paused):
            line.messages.clear()
        self._lines.clear()
        self._turns.clear()
        self._paused.clear()
        self._has_news.set()

    def _take_now(self, max_messages: int) -> list[ConsumedMessage]:
        taken: list[ConsumedMessage] = []
        while self._turns and len(taken) < max_messages:
            line = self._turns.popleft()
            if line.process.is_dropped:
                self._lines.pop(line.process, None)
            elif line.reader.is_paused:
                self._set_aside(line)
            else:
                taken += self._some_of(line, max_messages - len(taken))
        return taken

    def _some_of(self, line: _Line, count: int) -> list[ConsumedMessage]:
        some = [line.messages.popleft() for _ in range(min(count, len(line.messages)))]
        if line.messages:
            self._turns.append(line)
        else:
            del self._lines[line.process]
        line.reader.given(some, line.process)
        return some

    def _set_aside(self, line: _Line) -> None:
        for old in [old for old in self._paused if old.process.is_dropped]:
            self._paused.remove(old)
            self._lines.pop(old.process, None)
        self._paused.append(line)
