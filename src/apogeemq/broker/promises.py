"""Answers that wait until their message is on the disk.

The log's flush thread says how far it got; every answer for a message before that point goes out. Answers leave in the
order of their messages, so one look at the oldest says whether there is anything to do.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable
from typing import NamedTuple


class _Waiting(NamedTuple):
    end_offset: int
    deadline_ms: int
    answer: Future[bytes]
    kept: bytes
    not_kept: Callable[[], bytes]


class FlushPromises:
    """`request_flush` wakes the flush thread; `flushed` and `failed` are called on the loop.

    `flushed_offset` says how far the thread has got: it tells of a flush only those who wait already.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        request_flush: Callable[[], None],
        timeout_ms: int,
        flushed_offset: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._request_flush = request_flush
        self._timeout_ms = timeout_ms
        self._flushed_offset = flushed_offset
        self._waiting: deque[_Waiting] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def answer_when_kept(
        self, end_offset: int, now_ms: int, kept: bytes, not_kept: Callable[[], bytes]
    ) -> Future[bytes]:
        """`kept` when the log is flushed up to an offset; what `not_kept` gives when that fails or takes too long."""
        answer: Future[bytes] = self._loop.create_future()
        self._waiting.append(_Waiting(end_offset, now_ms + self._timeout_ms, answer, kept, not_kept))
        if (flushed := self._flushed_offset()) >= end_offset:
            self.flushed(flushed)
        else:
            self._request_flush()
        return answer

    def flushed(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0].end_offset <= offset:
            first = waiting.popleft()
            if not first.answer.done():
                first.answer.set_result(first.kept)

    def failed(self) -> None:
        """Nothing that waits will be kept."""
        self._give_up(lambda waiting: True)

    def expire(self, now_ms: int) -> None:
        self._give_up(lambda waiting: waiting.deadline_ms <= now_ms)

    def _give_up(self, is_over: Callable[[_Waiting], bool]) -> None:
        while self._waiting and is_over(self._waiting[0]):
            first = self._waiting.popleft()
            if not first.answer.done():
                first.answer.set_result(first.not_kept())
