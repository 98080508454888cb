"""A consumer as a member of its group: which queues are its own, and the readers of those.

The members agree without talking to each other: each asks a broker who is in the group and computes the same answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from apogeemq.client.broker_calls import NO_OFFSET
from apogeemq.client.consuming.locks import QueueLocks, mark_locked
from apogeemq.client.consuming.queue_reader import QueueReader, Reading
from apogeemq.client.consuming.rebalance import STRATEGIES, Strategy, sorted_ids, sorted_queues
from apogeemq.client.route_info import readable_queues
from apogeemq.errors import ApogeeError, ConfigError, NoRoute, RouteCause
from apogeemq.model.queues import MessageQueue
from apogeemq.model.topics import RETRY_PREFIX
from apogeemq.runtime.clock import monotonic_ms

log = logging.getLogger(__name__)

FIRST: Final = "first"
LAST: Final = "last"
_LOCK_PERIOD_SECONDS: Final = 20.0
_HAND_OVER_SECONDS: Final = 20.0  # for the program to settle what it has of an ordered queue that is leaving
_RETRY_SECONDS: Final = 1.0


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
        self._leaving: dict[MessageQueue, tuple[QueueReader, asyncio.Task[None]]] = {}  # ordered ones, handed over
        self._locks = QueueLocks(reading)
        self._is_paused = False
        self._is_wanted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.is_settled = asyncio.Event()  # set after the first rebalance that reached everybody

    def start(self) -> None:
        self._is_wanted.set()
        self._tasks = [asyncio.ensure_future(self._keep_balanced())]
        if self._reading.uses_locks:
            self._tasks.append(asyncio.ensure_future(self._keep_locks()))

    def halt(self) -> None:
        """Nothing more is pulled or handed out; the queues stay ours, and what the program has still counts."""
        for task in self._tasks[:1]:  # locks are kept
            task.cancel()
        for reader in self.readers.values():
            reader.halt()

    async def stop(self) -> None:
        """Give all queues up. What is acknowledged from now on does not count any more."""
        for task in self._tasks:
            task.cancel()
        for reader in (*self.readers.values(), *(reader for reader, _ in self._leaving.values())):
            reader.cancel()  # whatever becomes of the rest
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            try:
                await asyncio.gather(
                    *(self._give_up(self.readers.pop(queue)) for queue in tuple(self.readers)),
                    *(task for _, task in self._leaving.values()),
                )
            finally:
                await self._locks.unlock_all()  # or nobody could read them for a minute

    def pause(self) -> None:
        """No more pulls; what is here is still handed out."""
        self._is_paused = True
        for reader in self.readers.values():
            reader.pause()

    def resume(self) -> None:
        self._is_paused = False
        for reader in self.readers.values():
            reader.resume()

    async def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on from these offsets, where the queue is ours.

        Apache's clients pause for ten seconds between dropping what they have and setting the offset, for their
        threads to come to rest. Here both happen in one turn of the loop: no acknowledgement of an old message and
        no answer to an old pull can come in between, and neither counts afterwards.
        """
        for queue, offset in offsets.items():
            reader = self.readers.get(queue)
            if reader is not None and queue.topic == topic and offset >= 0:
                log.info("%s is set to offset %d by its broker", queue, offset)
                reader.seek(offset)
        await self._reading.offsets.persist()

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
            for left in {queue.topic for queue in self.readers}.difference(topics):
                await self._adopt(left, ())
                self._on_change(left)
            for topic in topics:
                try:
                    is_complete &= await self._rebalance(topic)
                except ApogeeError as error:
                    is_complete &= self._is_waited_for(topic, error)
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

    def _is_waited_for(self, topic: str, error: ApogeeError) -> bool:
        """Whether there is nothing to do before the topic is there: whoever keeps the routes will tell. The retry topic
        is made when a broker hears of us."""
        if not isinstance(error, NoRoute) or error.cause is RouteCause.NO_NAME_SERVER:
            return False
        has_broker = bool(self._reading.instance.routes.broker_addresses(only_masters=False))
        return not (topic.startswith(RETRY_PREFIX) and has_broker)

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
            is_stuck = reader.process.is_pull_expired(moment_ms) or not reader.process.may_hand_out
            if queue.topic == topic and (queue not in own or is_stuck):
                await self._remove(queue)
        new = [queue for queue in own if queue not in self.readers and queue not in self._leaving]
        new_locked = (await self._locks.lock(new)).held if self._reading.uses_locks and new else set(new)
        added = [await self._add(queue) for queue in new if queue in new_locked]
        self._share_limits(topic)
        return all(added) and len(new_locked) == len(new) and self._leaving.keys().isdisjoint(own)

    def _share_limits(self, topic: str) -> None:
        """What a topic may hold in all is divided by its queues that are read here."""
        readers = [reader for queue, reader in self.readers.items() if queue.topic == topic]
        messages, size = self._reading.max_cached_per_topic, self._reading.max_cached_bytes_per_topic
        for reader in readers:
            if messages > 0:
                reader.max_cached = max(1, messages // len(readers))
            if size > 0:
                reader.max_cached_bytes = max(1, size // len(readers))

    async def _add(self, queue: MessageQueue) -> bool:
        try:
            offset = await self._first_offset(queue)
        except ApogeeError as error:
            log.warning("%s is not begun yet, its offset is not known: %s", queue, error)
            return False
        reader = self.readers[queue] = QueueReader(self._reading, queue, offset)
        if self._reading.uses_locks:
            mark_locked(reader)
        reader.is_paused = self._is_paused
        log.info("reading %s from offset %d", queue, offset)
        reader.start()
        return True

    async def _remove(self, queue: MessageQueue) -> None:
        """The queue is another's now. One whose order counts is handed over when the program has settled its
        message, so that the next one comes after it wherever that is."""
        reader = self.readers.pop(queue, None)
        if reader is None:  # somebody else was faster
            return
        if not self._reading.uses_locks:
            await self._give_up(reader)
            return
        reader.halt()
        self._leaving[queue] = (reader, asyncio.ensure_future(self._hand_over(reader)))

    async def _hand_over(self, reader: QueueReader) -> None:
        try:
            await reader.drain(_HAND_OVER_SECONDS)
            await self._give_up(reader)
        finally:
            del self._leaving[reader.queue]
            self.rebalance_soon()

    async def _give_up(self, reader: QueueReader) -> None:
        await reader.stop()
        await self._reading.offsets.release(reader.queue)
        if self._reading.uses_locks:
            await self._locks.unlock([reader.queue])

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

    def _is_here(self, queue: MessageQueue) -> bool:
        return queue in self.readers or queue in self._leaving

    async def _keep_locks(self) -> None:
        while True:
            await asyncio.sleep(_LOCK_PERIOD_SECONDS)
            locks = await self._locks.lock([*self.readers, *self._leaving])
            await self._locks.unlock([queue for queue in locks.held if not self._is_here(queue)])  # gone meanwhile
            moment_ms = monotonic_ms()
            for queue, reader in tuple(self.readers.items()):
                if queue in locks.held:
                    mark_locked(reader)
                elif queue in locks.refused or not reader.process.is_lock_valid(moment_ms):
                    log.warning("%s is given up: its lock is another's, or could not be kept", queue)
                    if self.readers.pop(queue, None) is reader:
                        await self._give_up(reader)
                    self.rebalance_soon()


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
