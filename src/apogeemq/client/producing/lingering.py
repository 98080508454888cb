"""The way of most messages of `send_soon` where there are batches: looked at once, and added without waiting."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import astuple

from apogeemq.client.options import ProducerOptions
from apogeemq.client.producing.accumulator import Accumulator
from apogeemq.client.producing.outgoing import check, may_be_batched
from apogeemq.client.producing.window import Window
from apogeemq.model.messages import Message, SendResult

_TURN: Final = 256  # after so many in a row the loop has its turn: else nobody would read answers


class Lingering:
    def __init__(self, accumulator: Accumulator, window: Window, options: ProducerOptions) -> None:
        self._accumulator = accumulator
        self._window = window
        self._options = options
        self._max_size = min(options.batch_bytes - 1, options.max_message_size)
        # Of the last message that was looked at thoroughly, and may be batched.
        self._topic = ""
        self._tags = ""
        self._begun_in_a_row = 0

    def ends_turn(self) -> bool:
        """Whether the loop must have its turn now; if so, it gets it."""
        is_over = self._begun_in_a_row >= _TURN
        if is_over:
            self._begun_in_a_row = 0
        return is_over

    def begin(self, message: Message) -> asyncio.Future[SendResult] | None:
        """The result it will have; None when it must go alone, or wait: until there is room, or for a turn of the
        loop. Raises MessageIllegal."""
        if self._begun_in_a_row >= _TURN:
            return None
        # All fields at once: cheaper than one after the other.
        topic, body, tags, keys, properties, sharding_key, delay_level, flag, _ = astuple(message)
        # What was found right of the last one is right of one that is like it.
        is_like_the_last = (
            type(body) is bytes
            and 0 < len(body) <= self._max_size
            and topic == self._topic
            and tags == self._tags
            and not (flag or delay_level or properties or keys or sharding_key)
        )
        if not is_like_the_last:
            if not may_be_batched(message, self._options):
                return None
            check(message, self._options)
            self._topic, self._tags = topic, tags
        self._begun_in_a_row += 1
        size = len(body)
        if not self._window.may_enter(size):
            return None
        try:
            if is_like_the_last:
                return self._accumulator.add_plain(message, body, topic, tags)
            return self._accumulator.add(message)
        except BaseException:
            self._window.leave(size)
            raise
