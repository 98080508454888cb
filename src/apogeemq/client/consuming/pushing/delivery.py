"""From the readers to the program: any message at any time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, Self, cast

from apogeemq.client.consuming.figures import Figures, TopicFigures
from apogeemq.client.consuming.incoming import HERE_AGAIN, ConsumedMessage, Settler
from apogeemq.client.consuming.process_queue import ProcessQueue
from apogeemq.client.consuming.queue_reader import QueueReader
from apogeemq.runtime.clock import monotonic_ms

log = logging.getLogger(__name__)

LOCAL_RETRY_SECONDS = 5.0  # before a message that could not even be sent back is tried here again
EXPIRED_LEVEL: Final = 3  # of delay, for a message the program had too long


class Returning(Protocol):
    """Gives messages back. False: it could not be done, and the message must be tried here once more."""

    @property
    def most(self) -> int: ...

    async def send_back(self, message: ConsumedMessage, delay_level: int) -> bool: ...

    async def send_anew(self, message: ConsumedMessage) -> bool: ...


class DeliverySettler(Settler):
    """Of the messages of one queue, as it was read since its process began."""

    __slots__ = ("delivery", "figures", "process", "progress", "queue")

    def __init__(self, delivery: Delivery, reader: QueueReader, process: ProcessQueue, figures: TopicFigures) -> None:
        self.delivery = delivery
        self.queue = reader.queue
        self.progress = reader.progress
        self.process = process
        self.figures = figures

    def __call__(self, message: ConsumedMessage, delay_level: int | None) -> Awaitable[None] | None:
        if delay_level is None:
            self.finish(message)
        elif self.process.is_dropped or delay_level == HERE_AGAIN:
            self.delivery.put_back(message, self)  # it comes again wherever its queue is read now
        else:
            return self.delivery.give_back(message, self, delay_level)
        return None

    def finish(self, message: ConsumedMessage) -> None:
        self.delivery.finish(message, self, has_failed=False)

    def count(self, message: ConsumedMessage, *, has_failed: bool) -> None:
        """The program has the message no more."""
        process, moment_ms = self.process, monotonic_ms()
        process.consumed_at_ms = moment_ms
        taken_ms = process.put_back(message)
        self.figures.consumed(moment_ms, moment_ms - taken_ms if taken_ms is not None else 0, has_failed=has_failed)


class MessageIterator:
    """What `async for` asks for the next message, of one consumer."""

    __slots__ = ("_delivery",)

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumedMessage:
        message = self._delivery.take_now()
        if message is None:
            message = await self._delivery.take()
            if message is None:
                raise StopAsyncIteration
        return message


class Delivery:
    """Messages wait here until the program takes them. `take` gives None when there will be no more."""

    def __init__(self, returns: Returning, figures: Figures | None = None) -> None:
        self._returns = returns
        self._figures = figures or Figures()
        self._ready: deque[ConsumedMessage] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._is_closed = False
        self._timers: set[asyncio.TimerHandle] = set()

    # -- in and out ------------------------------------------------------------------------------------------

    def deliver(self, reader: QueueReader, messages: list[ConsumedMessage]) -> None:
        if self._is_closed:
            return
        settler = self._settler(reader, reader.process)
        for message in messages:
            message.settled_by(settler)
        self._queue_up(reader, reader.process, messages)
        if self._takers:
            self._wake()

    def _queue_up(self, reader: QueueReader, process: ProcessQueue, messages: list[ConsumedMessage]) -> None:
        self._ready.extend(messages)

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
        ready = self._ready
        while ready:
            message = ready.popleft()
            settler = message._settle
            if settler is None:  # it was settled while it waited here to be tried again
                continue
            process = cast(DeliverySettler, settler).process
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

    def _settler(self, reader: QueueReader, process: ProcessQueue) -> DeliverySettler:
        return DeliverySettler(self, reader, process, self._figures.of(reader.queue.topic))

    def _way_back(self, message: ConsumedMessage, delay_level: int) -> Awaitable[bool] | None:
        """None when it is only tried here again."""
        return self._returns.send_back(message, delay_level)

    async def give_back(self, message: ConsumedMessage, settler: DeliverySettler, delay_level: int) -> None:
        is_gone = False
        try:
            way = self._way_back(message, delay_level)
            is_gone = way is not None and await way
        finally:  # also when whoever waited here was cancelled: nobody else knows of the message
            if is_gone:
                self.finish(message, settler, has_failed=True)
            else:
                settler.count(message, has_failed=True)
                message.reconsume_times += 1
                self.put_back(message, settler)

    def finish(self, message: ConsumedMessage, settler: DeliverySettler, *, has_failed: bool) -> None:
        settler.count(message, has_failed=has_failed)
        settler.progress.finished(message, settler.process)

    def put_back(self, message: ConsumedMessage, settler: DeliverySettler) -> None:
        """Not finished; tried here again when that is possible."""
        settler.progress.returned(message, settler.process)
        if self._is_closed or settler.process.is_dropped:
            return
        message.settled_by(settler)
        self._later(LOCAL_RETRY_SECONDS, lambda: self._ready.append(message))

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
                        self.finish(message, self._settler(reader, process), has_failed=True)
                    else:
                        message.settled_by(settle)
