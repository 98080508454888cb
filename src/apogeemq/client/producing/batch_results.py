"""What becomes of the messages of a batch. All have the same outcome, so each has hardly anything of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from types import TracebackType
from typing import Any, Final

from apogeemq.model.ids import UniqueIdRange
from apogeemq.model.messages import SendResult


class BatchResults:
    """Where the messages of a batch are: at consecutive offsets of one queue. The results of all are made when the
    first is asked for; programs ask for one after the other, or never."""

    __slots__ = ("_made", "_result", "_unique_ids")

    def __init__(self, result: SendResult, unique_ids: UniqueIdRange | None) -> None:
        """`result` is that of the whole; without ids it is that of the only message."""
        self._result = result
        self._unique_ids = unique_ids
        self._made: list[SendResult] = [] if unique_ids is not None else [result]

    def of(self, number: int) -> SendResult:
        if not self._made:
            self._made = self._make()
        return self._made[number]

    def _make(self) -> list[SendResult]:
        assert self._unique_ids is not None
        unique_ids, whole = self._unique_ids.texts(), self._result
        offset_ids = whole.offset_id.split(",")
        if len(offset_ids) != len(unique_ids):  # a broker that keeps a batch as one record names one place
            offset_ids = [whole.offset_id] * len(unique_ids)
        status, queue, offset, transaction_id = whole.status, whole.queue, whole.queue_offset, whole.transaction_id
        return [
            SendResult(status, unique_id, offset_ids[number], queue, offset + number, transaction_id)
            for number, unique_id in enumerate(unique_ids)
        ]


# What a batch's outcome is; plain numbers, because each message asks for it.
_OPEN: Final = 0
_STORED: Final = 1
_FAILED: Final = 2
_CANCELLED: Final = 3
_NAMES: Final = ("open", "stored", "failed", "cancelled")


class BatchOutcome:
    """Decided once, by the accumulator; what is said after that changes nothing."""

    __slots__ = ("_watched", "error", "error_traceback", "is_error_seen", "loop", "results", "state")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.state = _OPEN
        self.results: BatchResults | None = None
        self.error: BaseException | None = None
        self.error_traceback: TracebackType | None = None
        self.is_error_seen = False
        self._watched: list[PendingResult] = []

    def set_results(self, results: BatchResults) -> None:
        if self.state == _OPEN:
            self.results = results
            self._decide(_STORED)

    def set_error(self, error: BaseException) -> None:
        if self.state == _OPEN:
            self.error, self.error_traceback = error, error.__traceback__
            self._decide(_FAILED)

    def cancel(self) -> None:
        if self.state == _OPEN:
            self._decide(_CANCELLED)

    def watch(self, pending: PendingResult) -> None:
        """To be told when it is decided: only those somebody waits for need to be."""
        self._watched.append(pending)

    def _decide(self, state: int) -> None:
        self.state = state
        watched, self._watched = self._watched, []
        for pending in watched:
            pending.call_back()

    def __del__(self) -> None:
        """As futures do, but once for all messages of the batch."""
        if self.error is not None and not self.is_error_seen:
            message = "a batch was not sent, and nobody has asked for the results of its messages"
            self.loop.call_exception_handler({"message": message, "exception": self.error})


class PendingResult:
    """The future of one message of a batch.

    Whatever has `_asyncio_future_blocking` and these methods is a future for asyncio: it can be awaited, gathered,
    waited for, shielded. One of the loop's own would have to be told its result by itself, long after it has left the
    processor's caches, and with that it takes more than four times the room.
    """

    __slots__ = ("_asyncio_future_blocking", "_callbacks", "_is_cancelled", "_number", "_outcome")

    def __init__(self, outcome: BatchOutcome, number: int) -> None:
        self._outcome = outcome
        self._number = number
        self._is_cancelled = False
        self._callbacks: list[tuple[Callable[[Any], object], Context]] | None = None
        self._asyncio_future_blocking = False

    def done(self) -> bool:
        return self._is_cancelled or self._outcome.state != _OPEN

    def cancelled(self) -> bool:
        return self._is_cancelled or self._outcome.state == _CANCELLED

    def cancel(self, msg: object = None) -> bool:
        """Nobody waits for it any more; it is sent all the same."""
        if self.done():
            return False
        self._is_cancelled = True
        self.call_back()
        return True

    def result(self) -> SendResult:
        outcome = self._outcome
        if outcome.results is not None and not self._is_cancelled:
            return outcome.results.of(self._number)
        error = self.exception()
        assert error is not None
        raise error.with_traceback(outcome.error_traceback)  # not one longer each time it is raised

    def exception(self) -> BaseException | None:
        outcome = self._outcome
        if self.cancelled():
            raise asyncio.CancelledError
        if outcome.state == _OPEN:
            raise asyncio.InvalidStateError("Result is not set.")
        outcome.is_error_seen = True
        return outcome.error

    def add_done_callback(self, fn: Callable[[Any], object], *, context: Context | None = None) -> None:
        if context is None:
            context = copy_context()
        if self.done():
            self._outcome.loop.call_soon(fn, self, context=context)
        elif self._callbacks is None:
            self._callbacks = [(fn, context)]
            self._outcome.watch(self)
        else:
            self._callbacks.append((fn, context))

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        """How many there were."""
        before = self._callbacks or []
        kept = [entry for entry in before if entry[0] != fn]
        if before:
            self._callbacks = kept
        return len(before) - len(kept)

    def call_back(self) -> None:
        """It is done."""
        callbacks, self._callbacks = self._callbacks, None
        for fn, context in callbacks or ():
            self._outcome.loop.call_soon(fn, self, context=context)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._outcome.loop

    def __await__(self) -> Generator[Any, None, SendResult]:
        outcome = self._outcome
        if outcome.state == _OPEN and not self._is_cancelled:
            self._asyncio_future_blocking = True
            yield self
        results = outcome.results
        return self.result() if results is None or self._is_cancelled else results.of(self._number)

    def __repr__(self) -> str:
        state = _CANCELLED if self._is_cancelled else self._outcome.state
        return f"<{type(self).__name__} {self._number} of a batch, {_NAMES[state]}>"
