"""From the readers to the program: any message at any time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from apogeemq.client.consuming.figures import Figures
from apogeemq.client.consuming.incoming import HERE_AGAIN, ConsumedMessage, Settle
from apogeemq.client.consuming.process_queue import ProcessQueue
from apogeemq.client.consuming.queue_reader import QueueReader
from apogeemq.runtime.clock import monotonic_ms, now_ms

log = logging.getLogger(__name__)

LOCAL_RETRY_SECONDS = 5.0  # before a message that could not even be sent back is tried here again
EXPIRED_LEVEL: Final = 3  # of delay, for a message the program had too long


class Returning(Protocol):
    """Gives messages back. False: it could not be done, and the message must be tried here once more."""

    @property
    def most(self) -> int: ...

    async def send_back(self, message: ConsumedMessage, delay_level: int) -> bool: ...

    async def send_anew(self, message: ConsumedMessage) -> bool: ...


class Delivery:
    """Messages wait here until the program takes them. `take` gives None when there will be no more."""

    def __init__(self, returns: Returning, figures: Figures | None = None) -> None:
        self._returns = returns
        self._figures = figures or Figures()
        self._ready: deque[tuple[ConsumedMessage, ProcessQueue]] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._is_closed = False
        self._timers: set[asyncio.TimerHandle] = set()

    # -- in and out ------------------------------------------------------------------------------------------

    def deliver(self, reader: QueueReader, messages: list[ConsumedMessage]) -> None:
        if self._is_closed:
            return
        process, settle = reader.process, self._settler(reader, reader.process)
        for message in messages:
            message.settled_by(settle)
        self._queue_up(reader, process, messages)
        self._wake()

    def _queue_up(self, reader: QueueReader, process: ProcessQueue, messages: list[ConsumedMessage]) -> None:
        self._ready.extend((message, process) for message in messages)

    async def take(self) -> ConsumedMessage | None:
        while True:
            message = self.take_now()
            if message is not None:
                return message
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

    def take_now(self) -> ConsumedMessage | None:
        """None when there is none at the moment."""
        while self._ready:
            message, process = self._ready.popleft()
            if process.may_hand_out:
                process.take(message, monotonic_ms())
                return message
        return None

    def close(self) -> None:
        """Nothing more is handed out; what is out may still be settled."""
        self._is_closed = True
        self._ready.clear()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._wake()

    @property
    def waiting_count(self) -> int:
        return len(self._ready)

    def _wake(self) -> None:
        """One taker for each message there is; all of them when there will be no more."""
        count = len(self._takers) if self._is_closed else self.waiting_count
        while count and self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                count -= 1

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        def act() -> None:
            self._timers.discard(timer)
            action()
            self._wake()

        timer = asyncio.get_running_loop().call_later(seconds, act)
        self._timers.add(timer)

    # -- what becomes of a message ---------------------------------------------------------------------------

    def _settler(self, reader: QueueReader, process: ProcessQueue) -> Settle:
        def settle(message: ConsumedMessage, delay_level: int | None) -> Awaitable[None] | None:
            if delay_level is None:
                self._finish(message, reader, process)
            elif process.is_dropped or delay_level == HERE_AGAIN:
                self._put_back(message, reader, process)  # it comes again wherever its queue is read now
            else:
                return self._give_back(message, reader, process, self._way_back(message, delay_level))
            return None

        return settle

    def _way_back(self, message: ConsumedMessage, delay_level: int) -> Awaitable[bool] | None:
        """None when it is only tried here again."""
        return self._returns.send_back(message, delay_level)

    async def _give_back(
        self, message: ConsumedMessage, reader: QueueReader, process: ProcessQueue, way: Awaitable[bool] | None
    ) -> None:
        is_gone = False
        try:
            is_gone = way is not None and await way
        finally:  # also when whoever waited here was cancelled: nobody else knows of the message
            if is_gone:
                self._finish(message, reader, process, has_failed=True)
            else:
                self._count(message, reader, process, has_failed=True)
                message.reconsume_times += 1
                self._put_back(message, reader, process)

    def _finish(
        self, message: ConsumedMessage, reader: QueueReader, process: ProcessQueue, *, has_failed: bool = False
    ) -> None:
        self._count(message, reader, process, has_failed=has_failed)
        reader.finished(message, process)

    def _put_back(self, message: ConsumedMessage, reader: QueueReader, process: ProcessQueue) -> None:
        """Not finished; tried here again when that is possible."""
        reader.returned(message, process)
        if self._is_closed or process.is_dropped:
            return
        message.settled_by(self._settler(reader, process))
        self._later(LOCAL_RETRY_SECONDS, lambda: self._ready.append((message, process)))

    def _count(self, message: ConsumedMessage, reader: QueueReader, process: ProcessQueue, *, has_failed: bool) -> None:
        process.last_consume_ms = now_ms()
        moment_ms = monotonic_ms()
        taken_ms = process.taken_at(message)
        took_ms = moment_ms - taken_ms if taken_ms is not None else 0
        self._figures.of(reader.queue.topic).consumed(moment_ms, took_ms, has_failed=has_failed)

    async def give_back_expired(self, readers: Iterable[QueueReader], timeout_ms: int) -> None:
        """What the program has had too long goes back to the broker, so that it holds nothing up; settling it
        afterwards does nothing."""
        for reader in readers:
            process = reader.process
            for message in process.taken_before(monotonic_ms() - timeout_ms):
                assert isinstance(message, ConsumedMessage)
                settle = message.unsettle()
                if settle is None:  # it is being settled
                    continue
                is_gone = False
                try:
                    is_gone = process.is_dropped or await self._returns.send_back(message, EXPIRED_LEVEL)
                finally:
                    if is_gone:
                        log.warning("%r was not settled in time and will come again", message)
                        self._finish(message, reader, process, has_failed=True)
                    else:
                        message.settled_by(settle)
