"""What a consumer has of one queue and has not finished with. Pure; time is an argument.

Messages come in the order of their offsets and are finished in any order. Only what lies before the first unfinished
one may be committed: after a crash everything from there on comes again, and nothing is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, TypeVar

from apogeemq.model.messages import ReceivedMessage

MessageT = TypeVar("MessageT", bound=ReceivedMessage)

NOTHING_TO_COMMIT: Final = -1
PULL_EXPIRES_MS: Final = 120_000


class ProcessQueue:
    def __init__(self, now_ms: int) -> None:
        self._unfinished: dict[int, int] = {}  # from offset to size: a program may change the message it was given
        self._order: deque[int] = deque()
        self.size = 0
        self._end = -1  # offset after the last message that came
        self.is_dropped = False
        self.is_locked = False
        self.locked_until_ms = 0
        self.last_pull_ms = now_ms
        self.last_consume_ms = now_ms

    def __len__(self) -> int:
        return len(self._unfinished)

    @property
    def span(self) -> int:
        """Distance between the first and the last unfinished offset."""
        first = self._first()
        return self._end - 1 - first if first is not None else 0

    def put(self, messages: Iterable[MessageT]) -> list[MessageT]:
        """Take what was pulled; gives what was not here already."""
        fresh = []
        for message in messages:
            offset = message.queue_offset
            if offset in self._unfinished or offset < self._end:
                continue
            self._unfinished[offset] = len(message.body)
            self._order.append(offset)
            self.size += len(message.body)
            self._end = offset + 1
            fresh.append(message)
        return fresh

    def finish(self, messages: Iterable[ReceivedMessage]) -> int:
        """These are done with. Gives the offset that may be committed; NOTHING_TO_COMMIT when none ever came."""
        for message in messages:
            self.size -= self._unfinished.pop(message.queue_offset, 0)
        return self.commit_offset

    @property
    def commit_offset(self) -> int:
        first = self._first()
        return first if first is not None else self._end

    def _first(self) -> int | None:
        while self._order and self._order[0] not in self._unfinished:
            self._order.popleft()
        return self._order[0] if self._order else None

    def is_pull_expired(self, now_ms: int) -> bool:
        """No pull for so long: something is stuck, and the queue is begun anew."""
        return now_ms - self.last_pull_ms > PULL_EXPIRES_MS

    def is_lock_valid(self, now_ms: int) -> bool:
        return self.is_locked and now_ms < self.locked_until_ms

    def clear(self) -> None:
        self._unfinished.clear()
        self._order.clear()
        self.size = 0
