"""Which client of a group consumes a queue in order. Nothing is kept on disk.

A lock belongs to the client id that took it, until it gives it back or has not asked for it again for a minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from apogeemq.model.queues import MessageQueue

LOCK_LIFE_MS = 60_000


class QueueLock(NamedTuple):
    client_id: str
    taken_ms: int


class QueueLocks:
    def __init__(self, life_ms: int = LOCK_LIFE_MS, max_locks: int = 500_000) -> None:
        self.groups: dict[str, dict[MessageQueue, QueueLock]] = {}
        self.lock_count = 0
        self._life_ms = life_ms
        self._max_locks = max_locks

    def lock_batch(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> list[MessageQueue]:
        """Those of the queues the client holds from now on."""
        locks = self.groups.setdefault(group, {})
        held = [queue for queue in queues if self._lock(locks, queue, client_id, now_ms)]
        if not locks:
            del self.groups[group]
        return held

    def _lock(self, locks: dict[MessageQueue, QueueLock], queue: MessageQueue, client_id: str, now_ms: int) -> bool:
        lock = locks.get(queue)
        if lock is None:
            if self.lock_count >= self._max_locks:
                return False
            self.lock_count += 1
        elif lock.client_id != client_id and not self._is_expired(lock, now_ms):
            return False
        locks[queue] = QueueLock(client_id, now_ms)
        return True

    def unlock_batch(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """What the client does not hold stays as it is."""
        locks = self.groups.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
                self.lock_count -= 1
        if not locks:
            self.groups.pop(group, None)

    def is_locking(self, group: str, now_ms: int) -> bool:
        """Whether some client of the group consumes some queue in order."""
        return any(not self._is_expired(lock, now_ms) for lock in self.groups.get(group, {}).values())

    def expire(self, now_ms: int) -> None:
        for group, locks in tuple(self.groups.items()):
            for queue in [queue for queue, lock in locks.items() if self._is_expired(lock, now_ms)]:
                del locks[queue]
                self.lock_count -= 1
            if not locks:
                del self.groups[group]

    def _is_expired(self, lock: QueueLock, now_ms: int) -> bool:
        return now_ms - lock.taken_ms > self._life_ms
