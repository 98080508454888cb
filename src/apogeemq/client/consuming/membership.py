"""A consumer as a member of its group: which queues are its own, and the readers of those.

The members agree without talking to each other: each asks a broker who is in the group and computes the same answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from apogeemq.client.broker_calls import NO_OFFSET
from apogeemq.client.consuming.queue_reader import QueueReader, Reading
from apogeemq.client.consuming.rebalance import STRATEGIES, Strategy, sorted_ids, sorted_queues
from apogeemq.client.route_info import readable_queues
from apogeemq.errors import ApogeeError, ConfigError
from apogeemq.model.queues import MessageQueue
from apogeemq.model.topics import RETRY_PREFIX
from apogeemq.runtime.clock import monotonic_ms

log = logging.getLogger(__name__)

FIRST: Final = "first"
LAST: Final = "last"
_LOCK_PERIOD_SECONDS: Final = 20.0
_LOCK_LIFE_MS: Final = 30_000
_RETRY_SECONDS: Final = 1.0


class _Locks(NamedTuple):
    """Queues whose brokers did not answer are in neither."""

    held: set[MessageQueue]
    refused: set[MessageQueue]


class Membership:
    """`topics` gives the topics of the group; `on_change(topic)` is called when other queues are read than before."""

    def __init__(
        self,
        reading: Reading,
        topics: Callable[[], Sequence[str]],
        strategy: Strategy,
        on_change: Callable[[str], None] = lambda topic: None,
    ) -> None:
        self._reading = reading
        self._on_change = on_change
        self._waiting: list[asyncio.Future[None]] = []  # for the end of the next round
        self._topics = topics
        self._strategy = strategy
        self.readers: dict[MessageQueue, QueueReader] = {}
        self._is_wanted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.is_settled = asyncio.Event()  # set after the first rebalance that reached everybody

    def start(self) -> None:
        self._is_wanted.set()
        self._tasks = [asyncio.ensure_future(self._keep_balanced())]
        if self._reading.is_ordered:
            self._tasks.append(asyncio.ensure_future(self._keep_locks()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for reader in self.readers.values():
            reader.cancel()  # whatever becomes of the rest
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._remove(queue) for queue in tuple(self.readers)))

    def rebalance_soon(self) -> None:
        self._is_wanted.set()

    async def rebalanced(self) -> None:
        """Begin a round and wait for its end. What could not be done then is tried again by itself."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._is_wanted.set()
        await asyncio.wait((waiter, *self._tasks), return_when=asyncio.FIRST_COMPLETED)

    # -- balance ---------------------------------------------------------------------------------------------

    async def _keep_balanced(self) -> None:
        period_seconds = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(period_seconds or None):
                    await self._is_wanted.wait()
            self._is_wanted.clear()
            waiting, self._waiting = self._waiting, []
            topics = self._topics()
            is_complete = True
            for queue in tuple(self.readers):
                if queue.topic not in topics:
                    await self._remove(queue)
            for topic in topics:
                try:
                    is_complete &= await self._rebalance(topic)
                except ApogeeError as error:
                    is_complete = False
                    log.warning("no rebalance of %s at the moment: %s", topic, error)
                except Exception:  # of a strategy that is not ours
                    is_complete = False
                    log.exception("no rebalance of %s at the moment", topic)
            if is_complete:
                self.is_settled.set()
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)
            period_seconds = self._reading.options.rebalance_seconds if is_complete else _RETRY_SECONDS

    async def _rebalance(self, topic: str) -> bool:
        """Says whether every queue that is ours has its reader."""
        before = set(self.readers)
        try:
            return await self._adopt(topic, await self._own_queues(topic))
        finally:
            if before != set(self.readers):
                self._on_change(topic)

    async def _own_queues(self, topic: str) -> Sequence[MessageQueue]:
        instance = self._reading.instance
        route = await instance.routes.get(topic)
        queues = sorted_queues(readable_queues(topic, route))
        if self._reading.options.is_broadcasting:
            return queues
        return self._strategy(instance.client_id, queues, await self._client_ids(topic))

    async def _client_ids(self, topic: str) -> list[str]:
        """From any broker that serves the topic: all of them hear of all members."""
        instance = self._reading.instance
        addresses = instance.routes.masters_of(topic)
        problem: ApogeeError | None = None
        for address in addresses:
            try:
                return sorted_ids(await instance.calls.consumer_ids(address, self._reading.group))
            except ApogeeError as error:
                problem = error
        if problem is not None:
            raise problem
        return []

    async def _adopt(self, topic: str, own: Sequence[MessageQueue]) -> bool:
        moment_ms = monotonic_ms()
        for queue, reader in tuple(self.readers.items()):
            if queue.topic == topic and (queue not in own or reader.process.is_pull_expired(moment_ms)):
                await self._remove(queue)
        new = [queue for queue in own if queue not in self.readers]
        new_locked = (await self._lock(new)).held if self._reading.is_ordered and new else set(new)
        added = [await self._add(queue) for queue in new if queue in new_locked]
        return all(added) and len(new_locked) == len(new)

    async def _add(self, queue: MessageQueue) -> bool:
        try:
            offset = await self._first_offset(queue)
        except ApogeeError as error:
            log.warning("%s is not begun yet, its offset is not known: %s", queue, error)
            return False
        reader = self.readers[queue] = QueueReader(self._reading, queue, offset)
        if self._reading.is_ordered:
            self._mark_locked(reader)
        log.info("reading %s from offset %d", queue, offset)
        reader.start()
        return True

    async def _remove(self, queue: MessageQueue) -> None:
        reader = self.readers.pop(queue, None)
        if reader is None:  # somebody else was faster
            return
        await reader.stop()
        await self._reading.offsets.release(queue)
        if self._reading.is_ordered:
            await self._unlock([queue])

    async def _first_offset(self, queue: MessageQueue) -> int:
        kept = await self._reading.offsets.read(queue)
        if kept != NO_OFFSET:
            return kept
        start = self._reading.options.start_from
        if queue.topic.startswith(RETRY_PREFIX) and start == LAST:
            return 0  # what was sent back before we came is for us
        if start == FIRST:
            return 0
        instance = self._reading.instance
        address = instance.routes.address(queue.broker_name)
        if address is None:
            raise ConfigError(f"the broker {queue.broker_name} is not known")
        if start == LAST or queue.topic.startswith(RETRY_PREFIX):
            return await instance.calls.max_offset(address, queue)
        return await instance.calls.search_offset(address, queue, int(start))

    # -- locks of an ordered group ---------------------------------------------------------------------------

    async def _keep_locks(self) -> None:
        while True:
            await asyncio.sleep(_LOCK_PERIOD_SECONDS)
            locks = await self._lock(list(self.readers))
            moment_ms = monotonic_ms()
            for queue, reader in tuple(self.readers.items()):
                if queue in locks.held:
                    self._mark_locked(reader)
                elif queue in locks.refused or not reader.process.is_lock_valid(moment_ms):
                    log.warning("%s is given up: its lock is another's, or could not be kept", queue)
                    await self._remove(queue)
                    self.rebalance_soon()

    def _mark_locked(self, reader: QueueReader) -> None:
        reader.process.is_locked = True
        reader.process.locked_until_ms = monotonic_ms() + _LOCK_LIFE_MS

    async def _lock(self, queues: Sequence[MessageQueue]) -> _Locks:
        locks = _Locks(set(), set())
        for address, some in self._by_master(queues).items():
            try:
                instance = self._reading.instance
                held = await instance.calls.lock(address, self._reading.group, instance.client_id, some)
            except ApogeeError as error:
                log.warning("no locks from %s: %s", address, error)
            else:
                locks.held.update(held)
                locks.refused.update(set(some).difference(held))
        return locks

    async def _unlock(self, queues: Sequence[MessageQueue]) -> None:
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


def strategy_named(name: str) -> Strategy:
    try:
        return STRATEGIES[name]
    except KeyError:
        raise ConfigError(f"rebalance={name}: expected one of {', '.join(STRATEGIES)}") from None


def check_start(start_from: str | int) -> None:
    if isinstance(start_from, int) and start_from >= 0:
        return
    if start_from not in (FIRST, LAST):
        raise ConfigError(f"start_from={start_from!r}: expected {FIRST!r}, {LAST!r} or a time in ms")
