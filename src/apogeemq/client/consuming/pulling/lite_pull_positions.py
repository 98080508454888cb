"""How far a program has polled each queue, and what of that may be committed.

A message that was given to the program is done with when the program asks for more: then its offset may be kept. What
the last poll gave comes again if the program dies over it.
"""

from __future__ import annotations

from collections.abc import Mapping

from apogeemq.client.broker_calls import NO_OFFSET
from apogeemq.client.consuming.offset_store import OffsetStore
from apogeemq.model.queues import MessageQueue


class LitePullPositions(OffsetStore):
    """An offset store for readers, with another behind it: what readers report are positions, not yet commits."""

    def __init__(self, store: OffsetStore) -> None:
        super().__init__()
        self._store = store
        self._given = self.table  # offset after what the program has had
        self._unsettled: set[MessageQueue] = set()  # queues whose position the store has not heard of

    async def committed(self, queue: MessageQueue) -> int:
        return await self._store.read(queue)

    async def read(self, queue: MessageQueue) -> int:
        """Where a reader begins."""
        offset = await self._store.read(queue)
        if offset != NO_OFFSET:
            self._given[queue] = offset
        return offset

    def update(self, queue: MessageQueue, offset: int, *, only_forward: bool = True) -> None:
        if offset < 0 or (only_forward and offset <= self.known(queue)):
            return
        self._given[queue] = offset
        self._unsettled.add(queue)

    def settle(self) -> None:
        """The program is done with all it was given."""
        for queue in self._unsettled:
            self._store.update(queue, self._given[queue], only_forward=False)
        self._unsettled.clear()

    async def persist(self) -> None:
        await self._store.persist()

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        await self._store.commit(offsets)
        for queue, offset in offsets.items():
            if self.known(queue) == offset:  # otherwise more was given meanwhile
                self._unsettled.discard(queue)

    async def release(self, queue: MessageQueue) -> None:
        """What is not settled comes to whoever reads the queue next."""
        self._given.pop(queue, None)
        self._unsettled.discard(queue)
        await self._store.release(queue)
