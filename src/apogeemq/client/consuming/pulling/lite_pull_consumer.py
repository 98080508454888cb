"""The lite pull consumer: a program asks for messages when it wants them, and they have been pulled already."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Final

from apogeemq.client.consuming.group_rules import from_where, message_model
from apogeemq.client.consuming.membership import check_start, strategy_named
from apogeemq.client.consuming.pulling.lite_pull_session import LitePullSession
from apogeemq.client.consuming.pulling.pulling_consumer import PullingConsumer
from apogeemq.client.consuming.pulling.queue_listeners import QueueListener, QueueListeners, tell
from apogeemq.client.consuming.pushing.running_info import running_info
from apogeemq.client.consuming.rebalance import Strategy
from apogeemq.client.consuming.subscribing import Subscriptions
from apogeemq.client.instance import ClientInstance
from apogeemq.client.namespaces import with_namespace, without_namespace
from apogeemq.client.options import ClientOptions, LitePullOptions
from apogeemq.errors import ConfigError, OffsetIllegal, WrongState
from apogeemq.model.queues import MessageQueue
from apogeemq.model.received import ReceivedMessage
from apogeemq.model.subscriptions import CONSUME_ACTIVELY, EVERY_TAG
from apogeemq.protocol.bodies import consumers as bodies
from apogeemq.protocol.bodies.heartbeat import ConsumerData

_MAX_PULL_BATCH: Final = 1024


class LitePullConsumer(PullingConsumer):
    """Use as `async with LitePullConsumer(…, group="billing", topic="orders") as consumer:` and then
    `messages = await consumer.poll()`, or `async for message in consumer:`.

    Members of a group that subscribe share the queues of their topics. One that is assigned queues reads those. With
    `auto_commit`, a poll says that what the polls before it gave has been dealt with; otherwise call `commit`. One
    task at a time polls.
    """

    def __init__(
        self,
        name_server: str = "",
        group: str = "",
        topic: str = "",
        *,
        tags: str = EVERY_TAG,
        subscriptions: Mapping[str, str] | None = None,
        options: LitePullOptions | None = None,
        client: ClientOptions | None = None,
        strategy: Strategy | None = None,
        on_rebalance: QueueListener | None = None,
    ) -> None:
        """One `topic` with its `tags`, or several `subscriptions` from topic to tags (`*` for all); or none, to
        `subscribe` or `assign` later. `on_rebalance` is told when other queues of a topic are read than before."""
        super().__init__(name_server, group, client)
        self.options = options or LitePullOptions()
        self._strategy = strategy or strategy_named(self.options.rebalance)
        _check(self.options)
        self._on_rebalance = on_rebalance
        self._subscriptions = self._wanted({**(subscriptions or {}), **({topic: tags} if topic else {})})
        self._assigned: frozenset[MessageQueue] | None = None  # None: not told to read any by themselves
        self._listeners = QueueListeners(self._client.namespace)
        self._session: LitePullSession | None = None

    def _wanted(self, tags_by_topic: Mapping[str, str]) -> Subscriptions:
        return Subscriptions(self.group, tags_by_topic, self._client.namespace, has_retries=False)

    # -- what to read ----------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, tags: str = EVERY_TAG) -> None:
        """Share the queues of a topic with the other members of the group, or want other tags of it. When it runs, it
        has its queues afterwards. WrongState after an `assign`; NoRoute when nobody serves the topic."""
        if self._assigned is not None:
            raise WrongState(f"the consumer {self.group} was assigned queues: it cannot subscribe to {topic} as well")
        if self._session is not None:
            await self._session.instance.routes.get(with_namespace(topic, self._client.namespace))
        name = self._subscriptions.add(topic, tags)
        if self._session is not None:
            self._session.pull_anew(name)
            await self._session.subscribe(self._topics, self._strategy)

    async def unsubscribe(self, topic: str) -> None:
        """The queues of the topic go to the other members."""
        if self._assigned is not None or self._subscriptions.remove(topic) is None:
            raise WrongState(f"the consumer {self.group} does not subscribe to {topic}")
        if self._session is not None:
            await self._session.subscribe(self._topics, self._strategy)

    async def assign(self, queues: Iterable[MessageQueue], tags: str = EVERY_TAG) -> None:
        """Read these queues and no others, whoever else reads them. WrongState after a `subscribe`."""
        if self._assigned is None and self._subscriptions.topics:
            raise WrongState(f"the consumer {self.group} subscribes to topics: it cannot be assigned queues as well")
        chosen = frozenset(self._own(queue) for queue in queues)
        if self._session is not None:
            for topic in {queue.topic for queue in chosen}:
                await self._session.instance.routes.get(topic)
        self._assigned = chosen
        self._subscriptions = self._wanted({queue.topic: tags for queue in self._assigned})
        if self._session is not None:
            for topic in self._subscriptions.topics:
                self._session.pull_anew(topic)
            await self._session.assign(self._assigned_queues)

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read here at the moment."""
        return frozenset(self._shown(queue) for queue in self._running_session.readers)

    def _topics(self) -> list[str]:
        return self._subscriptions.topics

    def _assigned_queues(self) -> frozenset[MessageQueue]:
        return self._assigned or frozenset()

    # -- life ------------------------------------------------------------------------------------------------

    async def _begin(self, instance: ClientInstance) -> None:
        session = self._session = LitePullSession(
            instance, self.group, self.options, lambda topic: self._subscriptions.get(topic), self._rebalanced
        )
        await session.begin()
        if self._assigned is not None:
            await session.assign(self._assigned_queues)
        elif self._subscriptions.topics:
            await session.subscribe(self._topics, self._strategy)
        await self._listeners.begin(instance)

    async def stop(self) -> None:
        """Leave the group. With `auto_commit`, what was given is committed; when another task than the caller polls and
        is not through, what that was given last may not have been dealt with and comes again."""
        await self._stop(is_done=self._session is None or self._session.is_taken_care_of)

    async def _end(self, *, is_done: bool) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.end(is_done=is_done)

    @property
    def _running_session(self) -> LitePullSession:
        if self._session is None:
            raise WrongState(f"the consumer {self.group} is not running; use it in `async with`, or start it")
        return self._session

    # -- messages --------------------------------------------------------------------------------------------

    async def poll(
        self, timeout_seconds: float | None = None, *, max_messages: int | None = None
    ) -> list[ReceivedMessage]:
        """What has been pulled, at most `pull_batch` messages unless told otherwise; waits for the first so long, and
        gives none when none came. Whoever is cancelled here has been given nothing."""
        wait_seconds = self.options.poll_timeout_seconds if timeout_seconds is None else timeout_seconds
        count = self.options.pull_batch if max_messages is None else max_messages
        if wait_seconds < 0 or count < 1:
            raise ConfigError(
                f"poll of {count} messages in {wait_seconds} s: expected at least 1, and no negative time"
            )
        return await self._poll(count, wait_seconds)

    async def _poll(self, count: int, timeout_seconds: float | None) -> list[ReceivedMessage]:
        session = self._running_session
        if session.membership is None:
            raise WrongState(f"the consumer {self.group} reads nothing: subscribe to a topic, or assign queues")
        taken = await session.take(count, timeout_seconds)
        if namespace := self._client.namespace:
            for message in taken:
                message.queue = self._shown(message.queue)
                message.topic = without_namespace(message.topic, namespace)
        return list(taken)

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        return self

    async def __anext__(self) -> ReceivedMessage:
        messages = await self._poll(1, None) if not self._has_ended else []
        if not messages:  # stopped
            raise StopAsyncIteration
        return messages[0]

    def pause(self, *queues: MessageQueue) -> None:
        """Polls give nothing of these queues until they are resumed. WrongState when one is not read here."""
        for reader in [self._running_session.reader(self._own(queue)) for queue in queues]:
            reader.pause()

    def resume(self, *queues: MessageQueue) -> None:
        for reader in [self._running_session.reader(self._own(queue)) for queue in queues]:
            reader.resume()
        self._running_session.cache.resume()

    @property
    def paused(self) -> frozenset[MessageQueue]:
        readers = self._running_session.readers
        return frozenset(self._shown(queue) for queue, reader in readers.items() if reader.is_paused)

    # -- offsets ---------------------------------------------------------------------------------------------

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """The next message of the queue is the one with this offset, whatever was pulled before. WrongState when the
        queue is not read here, OffsetIllegal when it has no such offset."""
        self._running_session.reader(self._own(queue))
        lowest, highest = await self.min_offset(queue), await self.max_offset(queue)
        if not lowest <= offset <= highest:
            raise OffsetIllegal(f"no seek of {queue} to {offset}: it has the offsets {lowest} to {highest}")
        self._seek(queue, offset)

    async def seek_to_beginning(self, *queues: MessageQueue) -> None:
        """To the oldest message that is still there; of all queues that are read here when none is named."""
        await self._seek_all(queues, self.min_offset)

    async def seek_to_end(self, *queues: MessageQueue) -> None:
        """Only what comes from now on; of all queues that are read here when none is named."""
        await self._seek_all(queues, self.max_offset)

    async def seek_to_time(self, time_ms: int, *queues: MessageQueue) -> None:
        """To the first message stored at that time or later; of all queues that are read here when none is named."""
        await self._seek_all(queues, lambda queue: self.offset_for_time(queue, time_ms))

    async def _seek_all(
        self, queues: Iterable[MessageQueue], offset_of: Callable[[MessageQueue], Awaitable[int]]
    ) -> None:
        for queue in tuple(queues) or self.assignment:
            self._running_session.reader(self._own(queue))
            self._seek(queue, await offset_of(queue))

    def _seek(self, queue: MessageQueue, offset: int) -> None:
        self._running_session.reader(self._own(queue)).seek(offset)

    def position(self, queue: MessageQueue) -> int:
        """The offset of the message of this queue that polls give next."""
        return self._running_session.position(self._own(queue))

    async def commit(self, queues: Iterable[MessageQueue] | Mapping[MessageQueue, int] | None = None) -> None:
        """Keep how far the program is: it is done with all that polls gave of these queues, or of all.

        With offsets, keep those: each is that of the next message to read. When this returns, the brokers have it.
        Raises WrongState for a queue that is not read here any more: what was read of it comes to its new reader.
        """
        session = self._running_session
        if isinstance(queues, Mapping):
            offsets = {self._own(queue): offset for queue, offset in queues.items()}
        elif queues is not None:
            chosen = [self._own(queue) for queue in queues]
            for queue in chosen:
                session.reader(queue)
            offsets = session.given(chosen)
        else:
            offsets = session.given(session.readers)
        await session.commit(offsets)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Where the group goes on in a queue after a restart; None when nothing was committed."""
        if not self.options.is_broadcasting:
            return await super().committed(queue)
        offset = await self._running_session.positions.committed(self._own(queue))
        return offset if offset >= 0 else None

    # -- changes ---------------------------------------------------------------------------------------------

    async def on_queues_changed(self, topic: str, listener: QueueListener) -> None:
        """From now on, or from the start, the listener is told when a topic has other queues than before."""
        self._listeners.add(topic, listener)
        if self._instance is not None:
            await self._listeners.begin(self._instance)

    def routes_changed(self, topic: str) -> None:
        session = self._session
        if session is not None and session.membership is not None and topic in self._subscriptions:
            session.membership.rebalance_soon()
        if self._instance is not None:
            self._listeners.route_changed(self._instance, topic)

    def ids_changed(self) -> None:
        if self._session is not None and self._session.membership is not None:
            self._session.membership.rebalance_soon()

    def _rebalanced(self, topic: str) -> None:
        if self._on_rebalance is not None and self._session is not None:
            read = frozenset(self._shown(queue) for queue in self._session.readers if queue.topic == topic)
            tell(self._on_rebalance, without_namespace(topic, self._client.namespace), read)

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(
            self.group,
            CONSUME_ACTIVELY,
            message_model(is_broadcasting=self.options.is_broadcasting),
            from_where(self.options.start_from),
            [] if self._assigned is not None else self._subscriptions.all,
            bool(self._client.unit_name),
        )

    def offsets_of(self, topic: str) -> Mapping[MessageQueue, int]:
        known = self._session.positions.all_known() if self._session is not None else {}
        return {queue: offset for queue, offset in known.items() if not topic or queue.topic == topic}

    def _running_info(self) -> bodies.ConsumerRunningInfo:
        session, properties = self._running_session, self._properties(self.options)
        return running_info(properties, self._subscriptions.all, session.readers, session.positions, session.figures)


def _check(options: LitePullOptions) -> None:
    check_start(options.start_from)
    if not 1 <= options.pull_batch <= _MAX_PULL_BATCH:
        raise ConfigError(f"pull_batch={options.pull_batch}: expected 1 to {_MAX_PULL_BATCH}")
    for name in ("max_cached", "max_cached_per_queue", "max_cached_bytes_per_queue", "max_span_per_queue"):
        if (value := getattr(options, name)) < 1:
            raise ConfigError(f"{name}={value}: expected at least 1")
    if options.pull_timeout_seconds * 1000 < options.suspend_ms:
        raise ConfigError(
            f"pull_timeout_seconds={options.pull_timeout_seconds:g}: expected more than "
            f"the {options.suspend_ms} ms (suspend_ms) that a broker waits for messages"
        )
