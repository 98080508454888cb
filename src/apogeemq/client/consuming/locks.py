"""Locks of an ordered group's queues: brokers give each to one member at a time."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from apogeemq.client.consuming.queue_reader import QueueReader, Reading
from apogeemq.errors import ApogeeError
from apogeemq.model.queues import MessageQueue
from apogeemq.runtime.clock import monotonic_ms, now_ms

log = logging.getLogger(__name__)

LOCK_LIFE_MS: Final = 30_000  # for us; a broker keeps it for a minute


class Locks(NamedTuple):
    """Queues whose brokers did not answer are in neither."""

    held: set[MessageQueue]
    refused: set[MessageQueue]


class QueueLocks:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._may_be_held: set[MessageQueue] = set()  # asked for, and not given back: an answer may never be seen

    async def lock(self, queues: Sequence[MessageQueue]) -> Locks:
        locks = Locks(set(), set())
        self._may_be_held.update(queues)
        for address, some in self._by_master(queues).items():
            try:
                instance = self._reading.instance
                held = await instance.calls.lock(address, self._reading.group, instance.client_id, some)
            except ApogeeError as error:
                log.warning("no locks from %s: %s", address, error)
            else:
                locks.held.update(held)
                locks.refused.update(set(some).difference(held))
        self._may_be_held -= locks.refused
        return locks

    async def unlock_all(self) -> None:
        """Also those that were asked for when we were cancelled. With a connection there is nothing to wait for."""
        await self.unlock(tuple(self._may_be_held))

    async def unlock(self, queues: Sequence[MessageQueue]) -> None:
        self._may_be_held.difference_update(queues)
        for address, some in self._by_master(queues).items():
            with contextlib.suppress(ApogeeError):
                instance = self._reading.instance
                await instance.calls.unlock(address, self._reading.group, instance.client_id, some)

    def _by_master(self, queues: Sequence[MessageQueue]) -> dict[str, list[MessageQueue]]:
        grouped: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            address = self._reading.instance.master_of(queue.broker_name)
            if address is not None:
                grouped.setdefault(address, []).append(queue)
        return grouped


def mark_locked(reader: QueueReader) -> None:
    process = reader.process
    process.is_locked = True
    process.locked_until_ms = monotonic_ms() + LOCK_LIFE_MS
    process.last_lock_ms = now_ms()
