"""The lite pull consumer without `await`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from apogeemq import client as asynchronous
from apogeemq.blocking.handler_threads import ListenerThread
from apogeemq.blocking.pulling import PullingConsumer
from apogeemq.blocking.twins import Leave
from apogeemq.client.consuming.pulling.queue_listeners import QueueListener
from apogeemq.client.consuming.rebalance import Strategy
from apogeemq.client.options import ClientOptions, LitePullOptions
from apogeemq.errors import WrongState
from apogeemq.model.queues import MessageQueue
from apogeemq.model.received import ReceivedMessage
from apogeemq.model.subscriptions import EVERY_TAG


class LitePullConsumer(PullingConsumer):
    """Use as `with LitePullConsumer(…, group="billing", topic="orders") as consumer:` and then
    `messages = consumer.poll()`, or `for message in consumer:`.

    Members of a group that subscribe share the queues of their topics. One that is assigned queues reads those. With
    `auto_commit`, a poll says that what the polls before it gave has been dealt with; otherwise call `commit`. One
    thread at a time polls. Listeners are called in a thread of their own.
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
        self._listening = ListenerThread()
        self._consumer = asynchronous.LitePullConsumer(
            name_server,
            group,
            topic,
            tags=tags,
            subscriptions=subscriptions,
            options=options,
            client=client,
            strategy=strategy,
            on_rebalance=None if on_rebalance is None else self._in_thread(on_rebalance),
        )
        super().__init__(self._consumer)
        self._unwanted: deque[ReceivedMessage] = deque()  # polled for callers who were interrupted

    def _in_thread(self, listener: QueueListener) -> QueueListener:
        return lambda topic, queues: self._listening.call(lambda: listener(topic, queues))

    async def _ended(self, leave: Leave) -> None:
        # What nobody has seen was not dealt with, whatever the program says of all that was polled.
        failure = WrongState("a poll was interrupted") if self._unwanted else None
        self._unwanted.clear()
        try:
            await (leave() if failure is None else self._consumer.__aexit__(WrongState, failure, None))
        finally:
            self._listening.close()

    @property
    def options(self) -> LitePullOptions:
        return self._consumer.options

    # -- what to read ----------------------------------------------------------------------------------------

    def subscribe(self, topic: str, tags: str = EVERY_TAG) -> None:
        """Share the queues of a topic with the other members of the group. When it runs, it has its queues
        afterwards. WrongState after an `assign`; NoRoute when nobody serves the topic."""
        self._call(self._consumer.subscribe, topic, tags)

    def unsubscribe(self, topic: str) -> None:
        """The queues of the topic go to the other members."""
        self._call(self._consumer.unsubscribe, topic)

    def assign(self, queues: Iterable[MessageQueue], tags: str = EVERY_TAG) -> None:
        """Read these queues and no others, whoever else reads them. WrongState after a `subscribe`."""
        self._call(self._consumer.assign, queues, tags)

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read here at the moment."""
        return self._ask(lambda: self._consumer.assignment)

    def on_queues_changed(self, topic: str, listener: QueueListener) -> None:
        """From now on, or from the start, the listener is told when a topic has other queues than before."""
        self._call(self._consumer.on_queues_changed, topic, self._in_thread(listener))

    # -- messages --------------------------------------------------------------------------------------------

    def poll(self, timeout_seconds: float | None = None, *, max_messages: int | None = None) -> list[ReceivedMessage]:
        """What has been pulled, at most `pull_batch` messages unless told otherwise; waits for the first so long, and
        gives none when none came. Whoever is interrupted here has been given nothing."""
        return self._wait(lambda: self._poll(timeout_seconds, max_messages), on_unwanted=self._unwanted.extend)

    async def _poll(self, timeout_seconds: float | None, max_messages: int | None) -> list[ReceivedMessage]:
        if self._unwanted:
            count = len(self._unwanted) if max_messages is None else min(max_messages, len(self._unwanted))
            return [self._unwanted.popleft() for _ in range(count)]
        return await self._consumer.poll(timeout_seconds, max_messages=max_messages)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self

    def __next__(self) -> ReceivedMessage:
        """Waits for a message. Once the consumer was stopped, there are no more."""
        for message in self._wait(self._next, on_unwanted=self._unwanted.extend):
            return message
        raise StopIteration

    async def _next(self) -> Sequence[ReceivedMessage]:
        if self._unwanted:
            return (self._unwanted.popleft(),)
        message = await anext(self._consumer, None)
        return () if message is None else (message,)

    def pause(self, *queues: MessageQueue) -> None:
        """Polls give nothing of these queues until they are resumed. WrongState when one is not read here."""
        self._ask(lambda: self._consumer.pause(*queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Polls give messages of these queues again."""
        self._ask(lambda: self._consumer.resume(*queues))

    @property
    def paused(self) -> frozenset[MessageQueue]:
        return self._ask(lambda: self._consumer.paused)

    # -- offsets ---------------------------------------------------------------------------------------------

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """The next message of the queue is the one with this offset, whatever was pulled before. WrongState when the
        queue is not read here, OffsetIllegal when it has no such offset."""
        self._call(self._consumer.seek, queue, offset)

    def seek_to_beginning(self, *queues: MessageQueue) -> None:
        """To the oldest message that is still there; of all queues that are read here when none is named."""
        self._call(self._consumer.seek_to_beginning, *queues)

    def seek_to_end(self, *queues: MessageQueue) -> None:
        """Only what comes from now on; of all queues that are read here when none is named."""
        self._call(self._consumer.seek_to_end, *queues)

    def seek_to_time(self, time_ms: int, *queues: MessageQueue) -> None:
        """To the first message stored at that time or later; of all queues that are read here when none is named."""
        self._call(self._consumer.seek_to_time, time_ms, *queues)

    def position(self, queue: MessageQueue) -> int:
        """The offset of the message of this queue that polls give next."""
        return self._ask(lambda: self._consumer.position(queue))

    def commit(self, queues: Iterable[MessageQueue] | Mapping[MessageQueue, int] | None = None) -> None:
        """Keep how far the program is: it is done with all that polls gave of these queues, or of all.

        With offsets, keep those: each is that of the next message to read. When this returns, the brokers have it.
        Raises WrongState for a queue that is not read here any more: what was read of it comes to its new reader.
        """
        self._call(self._consumer.commit, queues)
