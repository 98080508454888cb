"""The consumer: a member of a group, to which the brokers' messages come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Final, Self

from apogeemq.client.consuming.delivery import Delivery
from apogeemq.client.consuming.group_rules import checked_group, from_where, message_model
from apogeemq.client.consuming.incoming import ConsumedMessage
from apogeemq.client.consuming.membership import Membership, check_start, strategy_named
from apogeemq.client.consuming.offset_store import LocalOffsets, OffsetStore, RemoteOffsets, local_folder
from apogeemq.client.consuming.queue_reader import Reading
from apogeemq.client.consuming.rebalance import Strategy
from apogeemq.client.instance import ClientInstance, joined_instance
from apogeemq.client.namespaces import with_namespace
from apogeemq.client.options import ClientOptions, ConsumerOptions
from apogeemq.client.queries import TopicQueries
from apogeemq.errors import ApogeeError, ConfigError, WrongState
from apogeemq.filter.subscriptions import subscription_of
from apogeemq.model.subscriptions import CONSUME_TYPES, EVERY_TAG, SubscriptionData
from apogeemq.model.topics import retry_topic
from apogeemq.protocol.bodies.heartbeat import ConsumerData
from apogeemq.protocol.headers.broker import SendBack
from apogeemq.runtime.clock import now_ms

log = logging.getLogger(__name__)

_PASSIVELY: Final = CONSUME_TYPES[1]

Handler = Callable[[ConsumedMessage], Awaitable[None]]


class Consumer(TopicQueries):
    """Use as `async with Consumer(…, group="billing", topic="orders", tags="paid || shipped") as consumer:` and then
    `async for message in consumer:` with `await message.ack()`, or give it a handler with `@consumer.on_message` and
    `await consumer.run()`."""

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
        self._client = client or ClientOptions()
        self._name_server = name_server
        self.options = options or ConsumerOptions()
        self.is_ordered = ordered
        self.group = with_namespace(checked_group(group), self._client.namespace)
        self._subscriptions: dict[str, SubscriptionData] = {}
        for name, expression in {**(subscriptions or {}), **({topic: tags} if topic else {})}.items():
            self._subscribe(name, expression)
        if not self.options.is_broadcasting:
            self._subscribe(retry_topic(self.group), EVERY_TAG)
        self._strategy = strategy or strategy_named(self.options.rebalance)
        check_start(self.options.start_from)
        self._instance: ClientInstance | None = None
        self._membership: Membership | None = None
        self._delivery: Delivery | None = None
        self._offsets: OffsetStore | None = None
        self._persisting: asyncio.Task[None] | None = None
        self._handler: Handler | None = None
        self._has_ended = False

    def _subscribe(self, topic: str, expression: str) -> None:
        name = with_namespace(topic, self._client.namespace)
        self._subscriptions[name] = subscription_of(name, expression, sub_version=now_ms())

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Joins the group. WrongState when it runs already or has ended, or the group is in use in this process."""
        if self._instance is not None or self._has_ended:
            raise WrongState(f"the consumer {self.group} {'has ended' if self._has_ended else 'is running already'}")
        if not any(topic != retry_topic(self.group) for topic in self._subscriptions):
            raise ConfigError(f"the consumer {self.group} subscribes to no topic")
        instance = joined_instance(self._name_server, self._client)
        instance.add_consumer(self)
        self._instance = instance
        try:
            await self._join(instance)
        except BaseException:
            await self.stop()
            raise

    async def _join(self, instance: ClientInstance) -> None:
        self._offsets = await self._offset_store(instance)
        self._delivery = Delivery(self._send_back, is_ordered=self.is_ordered)
        reading = Reading(
            instance,
            self.group,
            self.options,
            self._offsets,
            self._subscriptions.get,
            self._delivery.deliver,
            self.is_ordered,
            self._client.namespace,
        )
        for topic in self._subscriptions:
            if topic != retry_topic(self.group):  # that one is made by our first heartbeat
                await instance.routes.get(topic)
        await instance.heartbeat()
        self._membership = Membership(reading, lambda: list(self._subscriptions), self._strategy)
        self._membership.start()
        self._persisting = asyncio.ensure_future(self._keep_offsets(self._offsets))

    async def _offset_store(self, instance: ClientInstance) -> OffsetStore:
        if not self.options.is_broadcasting:
            return RemoteOffsets(instance, self.group)
        folder = local_folder(self.options.local_offset_dir)
        offsets = LocalOffsets(folder, instance.lasting_id, self.group)
        await offsets.load()
        return offsets

    async def stop(self) -> None:
        """Leaves the group: what was acknowledged is kept, what was not comes to another member."""
        instance, self._instance, self._has_ended = self._instance, None, True
        if instance is None:
            return
        if self._delivery is not None:
            self._delivery.close()
        if self._persisting is not None:
            self._persisting.cancel()
        try:
            await self._leave()
        finally:
            await instance.remove_consumer(self)

    async def _leave(self) -> None:
        try:
            if self._membership is not None:
                await self._membership.stop()
        finally:
            if self._offsets is not None:
                await self._offsets.persist()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # -- messages --------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[ConsumedMessage]:
        return self

    async def __anext__(self) -> ConsumedMessage:
        message = await self._running_delivery.take()
        if message is None:
            raise StopAsyncIteration
        return message

    def on_message(self, handler: Handler) -> Handler:
        """Decorates the function that `run` calls: a message is acknowledged when it returns, tried again later when
        it raises."""
        self._handler = handler
        return handler

    async def run(self, *, concurrency: int = 20) -> None:
        """Call the handler for every message, so many at once, until the consumer is stopped."""
        if self._handler is None:
            raise WrongState(f"the consumer {self.group} has no handler; decorate one with @consumer.on_message")
        handler = self._handler
        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(self._work(handler))

    async def _work(self, handler: Handler) -> None:
        async for message in self:
            try:
                await handler(message)
            except Exception:
                log.exception("%r was not dealt with and will come again", message)
                await message.retry()
            else:
                await message.ack()

    @property
    def _running(self) -> ClientInstance:
        if self._instance is None:
            raise WrongState(f"the consumer {self.group} is not running; use it in `async with`, or start it")
        return self._instance

    @property
    def _running_delivery(self) -> Delivery:
        if self._delivery is None:
            raise WrongState(f"the consumer {self.group} is not running; use it in `async with`, or start it")
        return self._delivery

    async def _send_back(self, message: ConsumedMessage, delay_level: int) -> bool:
        if self.options.is_broadcasting:
            log.warning("%r failed; a broadcasting group has no retries", message)
            return True
        instance = self._instance
        address = instance.master_of(message.queue.broker_name) if instance is not None else None
        if instance is None or address is None:
            return False
        header = SendBack(
            message.physical_offset,
            self.group,
            delay_level,
            originMsgId=message.message_id,
            originTopic=message.topic,
            maxReconsumeTimes=self.options.max_retries,
        )
        try:
            await instance.calls.send_back(address, header)
        except ApogeeError as error:
            log.warning("%r could not be sent back and is tried here again: %s", message, error)
            return False
        return True

    async def _keep_offsets(self, offsets: OffsetStore) -> None:
        while True:
            await asyncio.sleep(self.options.offset_persist_seconds)
            try:
                await offsets.persist()
            except ApogeeError as error:
                log.warning("offsets are not kept yet: %s", error)

    # -- as a member -----------------------------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(
            self.group,
            _PASSIVELY,
            message_model(is_broadcasting=self.options.is_broadcasting),
            from_where(self.options.start_from),
            list(self._subscriptions.values()),
            bool(self._client.unit_name),
        )

    def routes_changed(self, topic: str) -> None:
        if topic in self._subscriptions and self._membership is not None:
            self._membership.rebalance_soon()

    def ids_changed(self) -> None:
        """A broker says that members came or went."""
        if self._membership is not None:
            self._membership.rebalance_soon()
