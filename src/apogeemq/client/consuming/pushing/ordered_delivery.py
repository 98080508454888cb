"""From the readers to the program, where the order counts: the messages of each queue one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Iterable
from typing import Final

from apogeemq.client.consuming.figures import Figures
from apogeemq.client.consuming.incoming import ConsumedMessage
from apogeemq.client.consuming.process_queue import ProcessQueue
from apogeemq.client.consuming.pushing.delivery import Delivery, DeliverySettler, Returning
from apogeemq.client.consuming.queue_reader import QueueReader
from apogeemq.model.queues import MessageQueue
from apogeemq.runtime.clock import monotonic_ms

LOCK_SECONDS: Final = 1.0  # before a queue whose lock has run out is looked at again


class _Line:
    """The messages of an ordered queue. One of them is out at a time."""

    __slots__ = ("is_ready", "is_suspended", "out", "process", "queue", "waiting")

    def __init__(self, queue: MessageQueue, process: ProcessQueue) -> None:
        self.queue = queue
        self.process = process
        self.waiting: deque[ConsumedMessage] = deque()
        self.out: ConsumedMessage | None = None
        self.is_ready = False
        self.is_suspended = False

    @property
    def is_empty(self) -> bool:
        return not self.waiting and self.out is None and not self.is_ready and not self.is_suspended


class OrderedDelivery(Delivery):
    """The next message of a queue comes when the one before is settled, also when the queue is begun anew meanwhile.

    One that failed is tried again after `suspend_seconds`, the queue waits for it.
    """

    def __init__(self, returns: Returning, figures: Figures | None = None, suspend_seconds: float = 1.0) -> None:
        super().__init__(returns, figures)
        self._suspend_seconds = suspend_seconds
        self._lines: dict[MessageQueue, _Line] = {}
        self._turns: deque[_Line] = deque()  # lines whose next message may be taken

    def _queue_up(self, reader: QueueReader, process: ProcessQueue, messages: list[ConsumedMessage]) -> None:
        line = self._lines.get(reader.queue)
        if line is None:
            line = self._lines[reader.queue] = _Line(reader.queue, process)
        elif line.process is not process:
            line.process = process
            line.waiting.clear()
        line.waiting.extend(messages)
        self._advance(line)

    def _advance(self, line: _Line) -> None:
        if line.waiting and line.out is None and not line.is_ready and not line.is_suspended:
            line.is_ready = True
            self._turns.append(line)

    def take_now(self) -> ConsumedMessage | None:
        while self._turns:
            line = self._turns.popleft()
            line.is_ready = False
            if not line.process.may_hand_out:
                line.waiting.clear()
                self._forget_if_empty(line)
            elif line.process.is_locked and not line.process.is_lock_valid(monotonic_ms()):
                self._suspend(line, LOCK_SECONDS)  # it may be another's by now; it is renewed, or the queue leaves
            elif line.waiting:
                message = line.out = line.waiting.popleft()
                line.process.take(message, monotonic_ms())
                return message
        return None

    def close(self) -> None:
        super().close()
        self._turns.clear()
        self._lines.clear()

    @property
    def waiting_count(self) -> int:
        return len(self._turns)

    def _way_back(self, message: ConsumedMessage, delay_level: int) -> Awaitable[bool] | None:
        """As Apache's clients: tried here again and again, up to the most; then sent anew, which brokers take as the
        end of it. One the program gives up goes to the dead letters at once."""
        if delay_level < 0:
            return self._returns.send_back(message, delay_level)
        return self._returns.send_anew(message) if message.reconsume_times >= self._returns.most else None

    def finish(self, message: ConsumedMessage, settler: DeliverySettler, *, has_failed: bool) -> None:
        super().finish(message, settler, has_failed=has_failed)
        self._came_back(message, settler.queue)

    def put_back(self, message: ConsumedMessage, settler: DeliverySettler) -> None:
        process = settler.process
        settler.progress.returned(message, process)
        line = self._lines.get(settler.queue)
        if line is not None and line.process is process and process.may_hand_out:
            message.settled_by(settler)
            line.waiting.appendleft(message)
            self._suspend(line, self._suspend_seconds)
        self._came_back(message, settler.queue)

    def _suspend(self, line: _Line, seconds: float) -> None:
        line.is_suspended = True
        self._later(seconds, lambda: self._go_on(line))

    def _go_on(self, line: _Line) -> None:
        line.is_suspended = False
        self._advance(line)
        self._forget_if_empty(line)

    def _came_back(self, message: ConsumedMessage, queue: MessageQueue) -> None:
        line = self._lines.get(queue)
        if line is None or line.out is not message:
            return
        line.out = None
        if not line.process.may_hand_out:
            line.waiting.clear()
        self._advance(line)
        self._forget_if_empty(line)
        self._wake()

    def _forget_if_empty(self, line: _Line) -> None:
        if line.is_empty and self._lines.get(line.queue) is line:
            del self._lines[line.queue]

    async def give_back_expired(self, readers: Iterable[QueueReader], timeout_ms: int) -> None:
        """An ordered message may take its time: the next ones must not pass it."""
