"""An answer that comes later, cheaper than a future: one that thousands of requests a second wait for."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from typing import TYPE_CHECKING

from apogeemq.protocol.command import Command

if TYPE_CHECKING:
    from apogeemq.transport.channel import Channel


class Later:
    """Whoever promises settles it, once, on the loop; then the channel that holds the request writes the answer.

    What is settled before anybody holds it is kept. What nobody holds goes nowhere.
    """

    __slots__ = ("_answer", "_channel", "_command", "_future")

    def __init__(self) -> None:
        self._answer: bytes | None = None
        self._channel: Channel | None = None
        self._command: Command | None = None
        self._future: Future[bytes] | None = None

    def settle(self, answer: bytes) -> None:
        channel, command = self._channel, self._command
        if channel is not None and command is not None:
            channel.release(command, answer)
        elif self._future is None:
            self._answer = answer
        elif not self._future.done():
            self._future.set_result(answer)

    def hold(self, channel: Channel, command: Command) -> bytes | None:
        """To be written to a channel; gives the answer when it is there already, and holds nothing then."""
        if self._answer is None:
            self._channel, self._command = channel, command
        return self._answer

    def as_future(self, loop: AbstractEventLoop) -> Future[bytes]:
        """For who wants to do more with it than to have it written; instead of `hold`."""
        future: Future[bytes] = loop.create_future()
        self._future = future
        if self._answer is not None:
            future.set_result(self._answer)
        return future
