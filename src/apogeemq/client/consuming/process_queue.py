"""What a consumer has of one queue and has not finished with. Pure; time is an argument.

What is decided by time is decided by the monotonic clock: setting the wall clock drops no queue and keeps no lock.

Messages come in the order of their offsets and are finished in any order. Only what lies before the first unfinished
one may be committed: after a crash everything from there on comes again, and nothing is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, TypeVar

from apogeemq.model.received import ReceivedMessage

MessageT = TypeVar("MessageT", bound=ReceivedMessage)

NOTHING_TO_COMMIT: Final = -1
PULL_EXPIRES_MS: Final = 120_000
_NONE: Final = -1


class ProcessQueue:
    def __init__(self, now_ms: int, monotonic_ms: int = 0) -> None:
        self._unfinished: dict[int, int] = {}  # from offset to size: a program may change the message it was given
        self._first = _NONE  # offset of the first unfinished message
        self._order: deque[int] = deque()  # of those after it, finished ones among them
        self.size = 0
        self._end = -1  # offset after the last message that came
        self._taken: dict[int, tuple[int, ReceivedMessage]] = {}  # with the program: since when (monotonic), and what
        self.is_leaving = False  # nothing more is handed out; what is out still counts
        self.is_dropped = False  # nothing counts any more
        self.is_locked = False
        self.locked_until_ms = 0  # monotonic
        self.pulled_at_ms = monotonic_ms  # monotonic
        self.consumed_at_ms = monotonic_ms  # monotonic
        self.last_pull_ms = now_ms  # wall clock, as tools show them
        self.last_lock_ms = now_ms

    def __len__(self) -> int:
        return len(self._unfinished)

    @property
    def span(self) -> int:
        """Distance between the first and the last unfinished offset."""
        return self._end - 1 - self._first if self._first != _NONE else 0

    def put(self, messages: Iterable[MessageT]) -> list[MessageT]:
        """Take what was pulled; gives what was not here already."""
        fresh: list[MessageT] = []
        unfinished, order = self._unfinished, self._order
        for message in messages:
            offset = message.queue_offset
            if offset < self._end:  # they come in order
                continue
            size = len(message.body)
            unfinished[offset] = size
            if self._first == _NONE:
                self._first = offset
            else:
                order.append(offset)
            self.size += size
            self._end = offset + 1
            fresh.append(message)
        return fresh

    def finish(self, messages: Iterable[ReceivedMessage]) -> int:
        """These are done with. Gives the offset that may be committed; NOTHING_TO_COMMIT when none ever came."""
        for message in messages:
            self.finish_one(message)
        return self.commit_offset

    def finish_one(self, message: ReceivedMessage) -> int:
        """The same for one."""
        offset = message.queue_offset
        if self._taken:
            self._taken.pop(offset, None)
        self.size -= self._unfinished.pop(offset, 0)
        if offset == self._first:
            self._first = self._next_unfinished()
        return self.commit_offset

    def _next_unfinished(self) -> int:
        order, unfinished = self._order, self._unfinished
        while order:
            offset = order.popleft()
            if offset in unfinished:
                return offset
        return _NONE

    # -- what the program has --------------------------------------------------------------------------------

    @property
    def may_hand_out(self) -> bool:
        return not self.is_dropped and not self.is_leaving

    @property
    def taken_count(self) -> int:
        return len(self._taken)

    def take(self, message: ReceivedMessage, monotonic_ms: int) -> None:
        """The program has it now."""
        self._taken[message.queue_offset] = (monotonic_ms, message)

    def taken_at(self, message: ReceivedMessage) -> int | None:
        taken = self._taken.get(message.queue_offset)
        return taken[0] if taken is not None else None

    def put_back(self, message: ReceivedMessage) -> int | None:
        """The program has it no more; since when it had it, if it did."""
        taken = self._taken.pop(message.queue_offset, None)
        return taken[0] if taken is not None else None

    def taken_before(self, monotonic_ms: int) -> list[ReceivedMessage]:
        """What the program has had since then, the longest first."""
        return [message for taken_ms, message in self._taken.values() if taken_ms < monotonic_ms]

    # -- how far it is ---------------------------------------------------------------------------------------

    @property
    def cached_offsets(self) -> tuple[int, int]:
        """The first and the last unfinished one; zeros when there is none."""
        return (self._first, max(self._unfinished)) if self._unfinished else (0, 0)

    @property
    def commit_offset(self) -> int:
        return self._first if self._first != _NONE else self._end

    def last_consume_ms(self, now_ms: int, monotonic_ms: int) -> int:
        """When a message was last dealt with, by the wall clock."""
        return now_ms - (monotonic_ms - self.consumed_at_ms)

    def is_pull_expired(self, monotonic_ms: int) -> bool:
        """No pull for so long: something is stuck, and the queue is begun anew."""
        return monotonic_ms - self.pulled_at_ms > PULL_EXPIRES_MS

    def is_lock_valid(self, monotonic_ms: int) -> bool:
        return self.is_locked and monotonic_ms < self.locked_until_ms

    def clear(self) -> None:
        self._unfinished.clear()
        self._first = _NONE
        self._order.clear()
        self.size = 0
