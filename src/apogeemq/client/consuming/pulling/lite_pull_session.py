"""What a lite pull consumer has while it runs: readers, what they have pulled, and how far the program is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

from apogeemq.client.broker_calls import NO_OFFSET
from apogeemq.client.consuming.figures import Figures
from apogeemq.client.consuming.incoming import ConsumedMessage
from apogeemq.client.consuming.membership import Membership
from apogeemq.client.consuming.offset_store import LocalOffsets, OffsetStore, RemoteOffsets, local_folder
from apogeemq.client.consuming.pulling.lite_pull_cache import LitePullCache
from apogeemq.client.consuming.pulling.lite_pull_positions import LitePullPositions
from apogeemq.client.consuming.queue_reader import QueueReader, Reading
from apogeemq.client.consuming.rebalance import Strategy, by_config
from apogeemq.client.instance import ClientInstance
from apogeemq.client.options import LitePullOptions
from apogeemq.errors import WrongState
from apogeemq.model.queues import MessageQueue
from apogeemq.model.subscriptions import SubscriptionData
from apogeemq.runtime.tasks import Tasks

log = logging.getLogger(__name__)


class FixedQueues(Membership):
    """Reads the queues it is told to, whoever else does."""

    def __init__(
        self, reading: Reading, queues: Callable[[], Collection[MessageQueue]], on_change: Callable[[str], None]
    ) -> None:
        super().__init__(reading, lambda: list({queue.topic for queue in queues()}), by_config(()), on_change)
        self._queues = queues

    async def _own_queues(self, topic: str) -> Sequence[MessageQueue]:
        await self._reading.instance.routes.get(topic)  # where its brokers are
        return [queue for queue in self._queues() if queue.topic == topic]


class LitePullSession:
    """From `begin` to `end`."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        options: LitePullOptions,
        subscription_of: Callable[[str], SubscriptionData | None],
        on_change: Callable[[str], None],
    ) -> None:
        self.instance = instance
        self.cache = LitePullCache()
        self.membership: Membership | None = None
        self._group = group
        self._options = options
        self._tell_of_change = on_change
        self._store = self._new_store()
        self.positions = LitePullPositions(self._store)
        self.figures = Figures()
        self._reading = Reading(
            instance,
            group,
            options,
            self.positions,
            subscription_of,
            self.cache.deliver,
            False,
            instance.options.namespace,
            is_lite=True,
            has_room=self._has_room,
            figures=self.figures,
        )
        self._tasks = Tasks()
        self._taker: asyncio.Task[Any] | None = None  # whoever polled last

    def _new_store(self) -> OffsetStore:
        if not self._options.is_broadcasting:
            return RemoteOffsets(self.instance, self._group)
        return LocalOffsets(local_folder(self._options.local_offset_dir), self.instance.lasting_id, self._group)

    # -- life ------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        if isinstance(self._store, LocalOffsets):
            await self._store.load()
        if self._options.auto_commit:
            self._tasks.repeat(lambda: self._options.auto_commit_seconds, self.positions.persist)

    async def subscribe(self, topics: Callable[[], Sequence[str]], strategy: Strategy) -> None:
        """Read our share of these topics, from now on or anew."""
        for topic in topics():
            await self.instance.routes.get(topic)
        await self.instance.heartbeat()
        if self.membership is None:
            self.membership = Membership(self._reading, topics, strategy, self._changed)
            self.membership.start()
        await self._rebalanced(self.membership)

    async def assign(self, queues: Callable[[], Collection[MessageQueue]]) -> None:
        """Read these queues, from now on or anew."""
        for topic in {queue.topic for queue in queues()}:
            await self.instance.routes.get(topic)
        await self.instance.heartbeat_to_new()
        if self.membership is None:
            self.membership = FixedQueues(self._reading, queues, self._changed)
            self.membership.start()
        await self._rebalanced(self.membership)

    async def _rebalanced(self, membership: Membership) -> None:
        """What brokers that do not answer keep us from is done later."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.instance.options.request_timeout_seconds):
                await membership.rebalanced()

    async def end(self, *, is_done: bool) -> None:
        """Unless `is_done`, what was given last may not have been dealt with and is not committed."""
        self.cache.close()
        if is_done and self._options.auto_commit:
            self.positions.settle()
        async with AsyncExitStack() as ending:  # all of it, also when we are cancelled meanwhile
            ending.push_async_callback(self.positions.persist)
            if self.membership is not None:
                ending.push_async_callback(self.membership.stop)
            await self._tasks.cancel_all()

    # -- queues ----------------------------------------------------------------------------------------------

    @property
    def readers(self) -> Mapping[MessageQueue, QueueReader]:
        return self.membership.readers if self.membership is not None else {}

    def reader(self, queue: MessageQueue) -> QueueReader:
        found = self.readers.get(queue)
        if found is None:
            raise WrongState(
                f"{queue} is not assigned to the consumer {self._group}"
                f" at the moment; it reads {len(self.readers)} other queues"
            )
        return found

    def position(self, queue: MessageQueue) -> int:
        """Of the message the program gets next."""
        self.reader(queue)
        return self.positions.known(queue)

    def _changed(self, topic: str) -> None:
        """Where the group begins a queue is where it goes on after a restart, also if nothing comes till then."""
        for queue, reader in self.readers.items():
            if self.positions.known(queue) == NO_OFFSET:
                self.positions.update(
                    queue, reader.process.commit_offset if len(reader.process) else reader.next_offset
                )
        self._tell_of_change(topic)

    def pull_anew(self, topic: str) -> None:
        """Something else is wanted of a topic: do not wait for pulls that ask for what was wanted before."""
        for queue, reader in self.readers.items():
            if queue.topic == topic:
                reader.pull_anew()

    def _has_room(self) -> bool:
        return sum(len(reader.process) for reader in self.readers.values()) < self._options.max_cached

    # -- messages and offsets --------------------------------------------------------------------------------

    async def take(self, max_messages: int, timeout_seconds: float | None) -> list[ConsumedMessage]:
        self._taker = asyncio.current_task()
        if self._options.auto_commit:
            self.positions.settle()
        return await self.cache.take(max_messages, timeout_seconds)

    @property
    def is_taken_care_of(self) -> bool:
        """Whether nobody else than who asks can be at work with what was given last."""
        return self._taker is None or self._taker.done() or self._taker is asyncio.current_task()

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        for queue in offsets:
            self.reader(queue)
        await self.positions.commit(offsets)

    def given(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Offsets after what the program was given, of those queues that are read here."""
        found = {queue: self.positions.known(queue) for queue in queues}
        return {queue: offset for queue, offset in found.items() if offset != NO_OFFSET}
