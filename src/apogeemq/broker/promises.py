"""Answers that wait until their message is on the disk.

The log's flush thread says how far it got; every answer for a message before that point goes out. Answers leave in the
order of their messages, so one look at the oldest says whether there is anything to do.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable

from apogeemq.transport.later import Later


class _Promise(Later):
    __slots__ = ("deadline_ms", "end_offset", "kept", "not_kept")

    def __init__(self, end_offset: int, deadline_ms: int, kept: bytes, not_kept: Callable[[], bytes]) -> None:
        super().__init__()
        self.end_offset = end_offset
        self.deadline_ms = deadline_ms
        self.kept = kept
        self.not_kept = not_kept


class FlushPromises:
    """`settle` writes what was gathered for a flush, `request_flush` wakes the flush thread; `flushed` and `failed` are
    called on the loop.

    `flushed_offset` says how far the thread has got: it tells of a flush only those who wait already.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        settle: Callable[[], None],
        request_flush: Callable[[], None],
        timeout_ms: int,
        flushed_offset: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._settle = settle
        self._request_flush = request_flush
        self._timeout_ms = timeout_ms
        self._flushed_offset = flushed_offset
        self._waiting: deque[_Promise] = deque()
        self._is_asking = False

    def __len__(self) -> int:
        return len(self._waiting)

    def answer_when_kept(self, end_offset: int, now_ms: int, kept: bytes, not_kept: Callable[[], bytes]) -> Later:
        """`kept` when the log is flushed up to an offset; what `not_kept` gives when that fails or takes too long."""
        promise = _Promise(end_offset, now_ms + self._timeout_ms, kept, not_kept)
        self._waiting.append(promise)
        if not self._is_asking:
            # At the end of the turn: one flush for all that came in together, by a thread that disturbs none of them.
            self._is_asking = True
            self._loop.call_soon(self._ask)
        return promise

    def _ask(self) -> None:
        self._is_asking = False
        self._settle()
        self.flushed(self._flushed_offset())
        if self._waiting:
            self._request_flush()

    def flushed(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0].end_offset <= offset:
            first = waiting.popleft()
            first.settle(first.kept)

    def failed(self) -> None:
        """Nothing that waits will be kept."""
        while self._waiting:
            self._give_up_first()

    def expire(self, now_ms: int) -> None:
        while self._waiting and self._waiting[0].deadline_ms <= now_ms:
            self._give_up_first()

    def _give_up_first(self) -> None:
        first = self._waiting.popleft()
        first.settle(first.not_kept())
