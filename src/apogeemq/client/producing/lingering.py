"""The way of most messages of `send_soon` where there are batches: looked at once, and added without waiting."""

from __future__ import annotations

import asyncio

from apogeemq.client.options import ProducerOptions
from apogeemq.client.producing.accumulator import Accumulator
from apogeemq.client.producing.outgoing import body_of, check, may_be_batched
from apogeemq.client.producing.window import Window
from apogeemq.model.messages import Message, SendResult


class Lingering:
    def __init__(self, accumulator: Accumulator, window: Window, options: ProducerOptions) -> None:
        self._accumulator = accumulator
        self._window = window
        self._options = options
        self._max_size = min(options.batch_bytes - 1, options.max_message_size)
        # Of the last message that was looked at thoroughly, and may be batched.
        self._topic = ""
        self._tags = ""

    def begin(self, message: Message) -> asyncio.Future[SendResult] | None:
        """The result it will have; None when it must go alone, or wait until it may go. Raises MessageIllegal."""
        if not self._is_like_the_last(message):
            if not may_be_batched(message, self._options):
                return None
            check(message, self._options)
            self._topic, self._tags = message.topic, message.tags
        size = len(body_of(message))
        if not self._window.may_enter(size):
            return None
        try:
            return self._accumulator.add(message)
        except BaseException:
            self._window.leave(size)
            raise

    def _is_like_the_last(self, message: Message) -> bool:
        """Then what was found right there is right here, too."""
        body = body_of(message)
        return (
            type(body) is bytes
            and 0 < len(body) <= self._max_size
            and message.topic == self._topic
            and message.tags == self._tags
            and message.flag == 0
            and message.delay_level == 0
            and not (message.properties or message.keys or message.sharding_key)
        )
