"""Messages on their way from a program's threads to the event loop, without a wait for each."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Final

from apogeemq.errors import WrongState
from apogeemq.model.messages import Message, SendResult

# So many may be here beyond those the producer's own window holds.
MAX_WAITING: Final = 1000
GIVEN_UP: Final = "the message was given up: its producer or process has come to an end"

SendSoon = Callable[[Message], Awaitable[asyncio.Future[SendResult]]]


class Outbox:
    """Any thread puts messages in; the loop gives them to the producer, in that order."""

    def __init__(self, send_soon: SendSoon) -> None:
        self._send_soon = send_soon
        self._room = threading.Semaphore(MAX_WAITING)
        self._waiting: deque[tuple[Message, Future[SendResult]]] = deque()
        self._is_called_for = False
        self._emptying: set[asyncio.Task[None]] = set()

    def put(self, message: Message, loop: asyncio.AbstractEventLoop) -> Future[SendResult] | None:
        """None when there is no room: whoever comes then has to wait for the loop."""
        if not self._room.acquire(blocking=False):
            return None
        # It cannot be cancelled: nobody knows how far it is.
        result: Future[SendResult] = Future()
        result.set_running_or_notify_cancel()
        self._waiting.append((message, result))
        if not self._is_called_for:
            self._is_called_for = True
            loop.call_soon_threadsafe(self._begin)
        return result

    def _begin(self) -> None:
        self._is_called_for = False  # first: what is put in from now on calls again
        task = asyncio.get_running_loop().create_task(self._empty())
        self._emptying.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._emptying.discard(task)
        if task.cancelled():  # at the end of the process
            while self._waiting:
                self._waiting.popleft()[1].set_exception(WrongState(GIVEN_UP))
                self._room.release()

    async def _empty(self) -> None:
        while self._waiting:
            message, result = self._waiting.popleft()
            try:
                share(await self._send_soon(message), result)
            except Exception as error:
                result.set_exception(error)
            except BaseException:
                result.set_exception(WrongState(GIVEN_UP))
                raise
            finally:
                self._room.release()

    @property
    def is_busy(self) -> bool:
        """Whether something that was put in has not reached the producer yet."""
        return bool(self._emptying)

    async def emptied(self) -> None:
        """Wait until it is so."""
        while self._emptying:
            await asyncio.wait(tuple(self._emptying))


def share(sending: asyncio.Future[SendResult], result: Future[SendResult]) -> None:
    """The outcome of the one, as soon as it is there, is the other's."""

    def ended(done: asyncio.Future[SendResult]) -> None:
        if done.cancelled():
            result.set_exception(WrongState(GIVEN_UP))
        elif (error := done.exception()) is not None:
            result.set_exception(error)
        else:
            result.set_result(done.result())

    sending.add_done_callback(ended)
