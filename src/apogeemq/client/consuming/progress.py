"""How far a consumer is with one queue: what is settled moves the offset, and wakes whoever waits for room."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from apogeemq.client.consuming.incoming import ConsumedMessage
from apogeemq.client.consuming.offset_store import OffsetStore
from apogeemq.client.consuming.process_queue import ProcessQueue
from apogeemq.model.queues import MessageQueue


class QueueProgress:
    """Of one reader, and apart from it because every message passes here. `process` is the one that counts: what
    belongs to an earlier one moves no offset."""

    def __init__(self, queue: MessageQueue, offsets: OffsetStore, process: ProcessQueue) -> None:
        self.process = process
        self._has_room = asyncio.Event()
        self._queue = queue
        self._offsets = offsets
        self.is_waited_for = False  # looked at for every message: cheaper than to set an event that is set

    def finished(self, message: ConsumedMessage, process: ProcessQueue) -> None:
        """A message is done with; what may be committed is remembered."""
        offset = process.finish_one(message)
        if process is self.process and not process.is_dropped:
            self._offsets.update(self._queue, offset)
            if self.is_waited_for:
                self.go_on()

    def returned(self, message: ConsumedMessage, process: ProcessQueue) -> None:
        """The program has a message no more, and it is not done with."""
        process.put_back(message)
        self.go_on()

    def given(self, messages: Sequence[ConsumedMessage], process: ProcessQueue, next_offset: int) -> None:
        """The first of those that wait have gone to the program, which keeps account of them itself."""
        offset = process.finish(messages)
        self._offsets.update(self._queue, offset if len(process) else next_offset)
        self.go_on()

    async def until_something_is_settled(self) -> None:
        self.is_waited_for = True
        self._has_room.clear()
        await self._has_room.wait()

    def go_on(self) -> None:
        """Whoever waits looks again."""
        self.is_waited_for = False
        self._has_room.set()
