"""From the readers to the program: any message at any time, or the messages of each queue one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from apogeemq.client.consuming.incoming import ConsumedMessage
from apogeemq.client.consuming.process_queue import ProcessQueue
from apogeemq.client.consuming.queue_reader import QueueReader

log = logging.getLogger(__name__)

SUSPEND_SECONDS: Final = 1.0  # before an ordered message that failed is tried again

# Send a message back to its broker, for later; False when that failed and it must be tried here once more.
SendBack = Callable[[ConsumedMessage, int], Awaitable[bool]]


class Delivery:
    """Messages wait here until the program takes them. `take` gives None when there will be no more."""

    def __init__(self, send_back: SendBack, *, is_ordered: bool) -> None:
        self._send_back = send_back
        self._is_ordered = is_ordered
        self._ready: deque[tuple[ConsumedMessage, ProcessQueue]] = deque()
        self._lines: dict[ProcessQueue, deque[ConsumedMessage]] = {}  # of ordered queues; the first is handed out
        self._takers: deque[asyncio.Future[None]] = deque()
        self._is_closed = False
        self._again: set[asyncio.TimerHandle] = set()

    def deliver(self, reader: QueueReader, messages: list[ConsumedMessage]) -> None:
        process = reader.process
        for message in messages:
            message.settled_by(self._settler(reader, process))
        if not self._is_ordered:
            self._ready.extend((message, process) for message in messages)
        else:
            line = self._lines.setdefault(process, deque())
            line.extend(messages)
            if len(line) == len(messages):  # nobody was in line
                self._ready.append((line[0], process))
        self._wake()

    async def take(self) -> ConsumedMessage | None:
        while True:
            while self._ready:
                message, process = self._ready.popleft()
                if not process.is_dropped:
                    return message
                self._lines.pop(process, None)
            if self._is_closed:
                return None
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.cancelled():
                    with contextlib.suppress(ValueError):
                        self._takers.remove(taker)
                else:
                    self._wake()  # it was this one's turn: let another have it
                raise

    def close(self) -> None:
        """Nothing more is handed out; what is out may still be settled."""
        self._is_closed = True
        self._ready.clear()
        self._lines.clear()
        for timer in self._again:
            timer.cancel()
        self._again.clear()
        self._wake()

    @property
    def waiting_count(self) -> int:
        return len(self._ready)

    def _wake(self) -> None:
        """One taker for each message there is; all of them when there will be no more."""
        count = len(self._takers) if self._is_closed else len(self._ready)
        while count and self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                count -= 1

    # -- what becomes of a message ---------------------------------------------------------------------------

    def _settler(
        self, reader: QueueReader, process: ProcessQueue
    ) -> Callable[[ConsumedMessage, int | None], Awaitable[None]]:
        async def settle(message: ConsumedMessage, delay_level: int | None) -> None:
            if delay_level is not None and not await self._later(message, delay_level, reader, process):
                return
            reader.finished(message, process)
            self._next_in_line(process)

        return settle

    async def _later(
        self, message: ConsumedMessage, delay_level: int, reader: QueueReader, process: ProcessQueue
    ) -> bool:
        """Whether the message is out of our hands."""
        is_gone = False
        try:
            if not self._is_ordered or delay_level < 0:
                is_gone = await self._send_back(message, delay_level)
        finally:  # also when whoever waited here was cancelled: nobody else knows of the message
            if not is_gone:
                message.reconsume_times += self._is_ordered
                self._hand_out_again(message, reader, process)
        return is_gone

    def _hand_out_again(self, message: ConsumedMessage, reader: QueueReader, process: ProcessQueue) -> None:
        if self._is_closed:
            return
        message.settled_by(self._settler(reader, process))

        def again() -> None:
            self._again.discard(timer)
            self._ready.append((message, process))
            self._wake()

        timer = asyncio.get_running_loop().call_later(SUSPEND_SECONDS, again)
        self._again.add(timer)

    def _next_in_line(self, process: ProcessQueue) -> None:
        line = self._lines.get(process)
        if line is None:
            return
        line.popleft()
        if not line or process.is_dropped:
            del self._lines[process]
        else:
            self._ready.append((line[0], process))
            self._wake()
