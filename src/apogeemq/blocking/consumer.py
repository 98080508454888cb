"""The consumer without `await`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from apogeemq import client as asynchronous
from apogeemq.blocking.handler_threads import HandlerThreads
from apogeemq.blocking.messages import ConsumedMessage
from apogeemq.blocking.queries import TopicQueries
from apogeemq.blocking.twins import Leave
from apogeemq.client.consuming.incoming import ConsumedMessage as AsyncMessage
from apogeemq.client.consuming.rebalance import Strategy
from apogeemq.client.options import ClientOptions, ConsumerOptions
from apogeemq.errors import WrongState
from apogeemq.model.subscriptions import EVERY_TAG

Handler = Callable[[ConsumedMessage], None]


class Consumer(TopicQueries):
    """Use as `with Consumer(…, group="billing", topic="orders", tags="paid || shipped") as consumer:` and then
    `for message in consumer:` with `message.ack()`, or give it a handler with `@consumer.on_message` and call
    `consumer.run()`. Several threads may iterate over one."""

    def __init__(
        self,
        name_server: str = "",
        group: str = "",
        topic: str = "",
        *,
        tags: str = EVERY_TAG,
        subscriptions: Mapping[str, str] | None = None,
        ordered: bool = False,
        options: ConsumerOptions | None = None,
        client: ClientOptions | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        """One `topic` with its `tags`, or several `subscriptions` from topic to tags (`*` for all).

        Ordered: the messages of a queue come one after the other, the next when the one before is acknowledged.
        """
        self._consumer = asynchronous.Consumer(
            name_server,
            group,
            topic,
            tags=tags,
            subscriptions=subscriptions,
            ordered=ordered,
            options=options,
            client=client,
            strategy=strategy,
        )
        super().__init__(self._consumer, self._consumer)
        self._unwanted: deque[AsyncMessage] = deque()  # taken for callers who were interrupted
        self._threads = HandlerThreads()
        self._has_handler = False

    @property
    def options(self) -> ConsumerOptions:
        return self._consumer.options

    @property
    def is_ordered(self) -> bool:
        return self._consumer.is_ordered

    def stop(self) -> None:
        """Leaves the group. Handlers at work may finish, as long as the options say; what was acknowledged by then is
        kept, what was not comes to another member. A handler that calls this is not waited for."""
        if self._threads.are_calling:
            self._begin(lambda: self._left(self._consumer.stop))
        else:
            super().stop()

    async def _ended(self, leave: Leave) -> None:
        try:
            await leave()
        finally:
            self._unwanted.clear()
            self._threads.close()

    def __iter__(self) -> Iterator[ConsumedMessage]:
        return self

    def __next__(self) -> ConsumedMessage:
        """Waits for a message. Once the consumer was stopped, there are no more."""
        message = self._wait(self._take, on_unwanted=self._keep)
        if message is None:
            raise StopIteration
        return ConsumedMessage(message, self)

    async def _take(self) -> AsyncMessage | None:
        if self._unwanted:
            return self._unwanted.popleft()
        return await anext(self._consumer, None)

    def _keep(self, message: AsyncMessage | None) -> None:
        if message is not None:
            self._unwanted.append(message)

    def subscribe(self, topic: str, tags: str = EVERY_TAG) -> None:
        """Want this topic too, or other tags of it. All members of a group must subscribe to the same."""
        self._call(self._consumer.subscribe, topic, tags)

    def unsubscribe(self, topic: str) -> None:
        """Want this topic no more; what was acknowledged is kept."""
        self._call(self._consumer.unsubscribe, topic)

    def pause(self) -> None:
        """Pull no more for the time being; what is here already still comes."""
        self._ask(self._consumer.pause)

    def resume(self) -> None:
        """Pull again."""
        self._ask(self._consumer.resume)

    # -- handlers --------------------------------------------------------------------------------------------

    def on_message(self, handler: Handler) -> Handler:
        """Decorates the function that `run` calls, in threads: a message is acknowledged when it returns, tried again
        later when it raises."""

        async def handle(message: AsyncMessage) -> None:
            twin = ConsumedMessage(message, self)
            ended = self._threads.run(lambda: handler(twin))
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError:
                # A thread cannot be stopped. What it has done must not be done again.
                with contextlib.suppress(Exception):
                    await ended
                    await message.ack()
                raise

        self._consumer.on_message(handle)
        self._has_handler = True
        return handler

    def run(self, *, concurrency: int = 20) -> None:
        """Call the handler for every message, so many at once, until the consumer is stopped.

        Interrupted by Ctrl-C, it waits for handlers at work, as long as the options say; interrupted again, not.
        """
        if not self._has_handler:
            raise WrongState(f"the consumer {self.group} has no handler; decorate one with @consumer.on_message")
        self._wait(lambda: self._consumer.run(concurrency=concurrency), interrupt_seconds=threading.TIMEOUT_MAX)
