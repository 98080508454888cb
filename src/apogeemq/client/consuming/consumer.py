"""The consumer: a member of a group, to which the brokers' messages come."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from types import TracebackType
from typing import Final, Self

from apogeemq.client.consuming.figures import Figures
from apogeemq.client.consuming.group_rules import checked_group, from_where, message_model
from apogeemq.client.consuming.incoming import ConsumedMessage, message_of
from apogeemq.client.consuming.membership import Membership, check_start, strategy_named
from apogeemq.client.consuming.offset_store import LocalOffsets, OffsetStore, RemoteOffsets, local_folder
from apogeemq.client.consuming.pushing.delivery import Delivery, MessageIterator
from apogeemq.client.consuming.pushing.option_limits import check_options
from apogeemq.client.consuming.pushing.ordered_delivery import OrderedDelivery
from apogeemq.client.consuming.pushing.returning import BroadcastReturns, Returns
from apogeemq.client.consuming.pushing.running_info import as_properties, running_info, stacks
from apogeemq.client.consuming.pushing.working import Handler, Handlers
from apogeemq.client.consuming.queue_reader import Reading
from apogeemq.client.consuming.rebalance import Strategy
from apogeemq.client.consuming.subscribing import Subscriptions
from apogeemq.client.instance import ClientInstance, joined_instance
from apogeemq.client.namespaces import with_namespace
from apogeemq.client.options import ClientOptions, ConsumerOptions
from apogeemq.client.queries import TopicQueries
from apogeemq.errors import ConfigError, NoRoute, RouteCause, WrongState
from apogeemq.model.queues import MessageQueue
from apogeemq.model.subscriptions import CONSUME_TYPES, EVERY_TAG
from apogeemq.protocol.bodies import consumers as bodies
from apogeemq.protocol.bodies.heartbeat import ConsumerData
from apogeemq.protocol.record import decode_record
from apogeemq.runtime.clock import now_ms
from apogeemq.runtime.tasks import Tasks

log = logging.getLogger(__name__)

_PASSIVELY: Final = CONSUME_TYPES[1]
_EXPIRY_CHECKS: Final = 15  # in the time a message may take
_SUSPEND_SECONDS: Final = (0.01, 30.0)


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
        self._subscriptions = Subscriptions(
            self.group,
            {**(subscriptions or {}), **({topic: tags} if topic else {})},
            self._client.namespace,
            has_retries=not self.options.is_broadcasting,
        )
        self._strategy = strategy or strategy_named(self.options.rebalance)
        check_start(self.options.start_from)
        check_options(self.options)
        self._instance: ClientInstance | None = None
        self._membership: Membership | None = None
        self._delivery: Delivery | None = None
        self._offsets: OffsetStore | None = None
        self._handler: Handler | None = None
        self._handlers = Handlers()
        self._figures = Figures()
        self._tasks = Tasks()
        self._started_ms = 0
        self._has_ended = False
        self._is_over = asyncio.Event()

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Joins the group. WrongState when it runs already or has ended, or the group is in use in this process."""
        if self._instance is not None or self._has_ended:
            raise WrongState(f"the consumer {self.group} {'has ended' if self._has_ended else 'is running already'}")
        if not self._subscriptions.own_topics:
            raise ConfigError(f"the consumer {self.group} subscribes to no topic")
        instance = joined_instance(self._name_server, self._client)
        instance.add_consumer(self)
        self._instance = instance
        self._started_ms = now_ms()
        try:
            await self._join(instance)
        except BaseException:
            await self.stop()
            raise

    async def _join(self, instance: ClientInstance) -> None:
        self._offsets = offsets = await self._offset_store(instance)
        self._delivery = delivery = self._new_delivery(instance)
        options = self.options
        reading = Reading(
            instance,
            self.group,
            options,
            offsets,
            self._subscriptions.get,
            delivery.deliver,
            self.is_ordered,
            self._client.namespace,
            figures=self._figures,
            max_cached_per_topic=options.max_cached_per_topic,
            max_cached_bytes_per_topic=options.max_cached_bytes_per_topic,
        )
        for topic in self._subscriptions.own_topics:  # the retry topic is made by our first heartbeat
            await _look_for(instance, topic)
        await instance.heartbeat()
        self._membership = Membership(reading, lambda: self._subscriptions.topics, self._strategy)
        self._membership.start()
        self._tasks.repeat(lambda: options.offset_persist_seconds, offsets.persist)
        self._tasks.repeat(lambda: options.consume_timeout_seconds / _EXPIRY_CHECKS, self._give_back_expired)

    async def _offset_store(self, instance: ClientInstance) -> OffsetStore:
        if not self.options.is_broadcasting:
            return RemoteOffsets(instance, self.group)
        offsets = LocalOffsets(local_folder(self.options.local_offset_dir), instance.lasting_id, self.group)
        await offsets.load()
        return offsets

    def _new_delivery(self, instance: ClientInstance) -> Delivery:
        kind = BroadcastReturns if self.options.is_broadcasting else Returns
        returns = kind(instance, self.group, self.options.max_retries, is_ordered=self.is_ordered)
        if not self.is_ordered:
            return Delivery(returns, self._figures)
        shortest, longest = _SUSPEND_SECONDS
        return OrderedDelivery(returns, self._figures, min(max(self.options.suspend_seconds, shortest), longest))

    async def stop(self) -> None:
        """Leaves the group. Handlers at work may finish, as long as the options say; what was acknowledged by then is
        kept, what was not comes to another member. When this returns it is over, whoever began it; only a handler
        that is waited for does not wait itself."""
        instance, is_first, self._has_ended = self._instance, not self._has_ended, True
        if instance is None:
            return
        if is_first:
            try:
                await self._leave(instance)
            finally:
                self._is_over.set()
        elif not self._handlers.are_calling:
            await self._is_over.wait()

    async def _leave(self, instance: ClientInstance) -> None:
        if self._delivery is not None:
            self._delivery.close()
        if self._membership is not None:
            self._membership.halt()
        async with contextlib.AsyncExitStack() as leaving:  # every step, also when we are cancelled meanwhile
            leaving.push_async_callback(self._forget_instance, instance)
            if self._offsets is not None:
                leaving.push_async_callback(self._offsets.persist)
            if self._membership is not None:
                leaving.push_async_callback(self._membership.stop)
            leaving.push_async_callback(self._tasks.cancel_all)
            leaving.push_async_callback(self._handlers.finish, self.options.stop_grace_seconds)

    async def _forget_instance(self, instance: ClientInstance) -> None:
        try:
            await instance.remove_consumer(self)
        finally:
            self._instance = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # -- messages --------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[ConsumedMessage]:
        return MessageIterator(self._delivery) if self._delivery is not None else self

    async def __anext__(self) -> ConsumedMessage:
        delivery = self._running_delivery
        message = delivery.take_now() or await delivery.take()
        if message is None:
            raise StopAsyncIteration
        return message

    def on_message(self, handler: Handler) -> Handler:
        """Decorates the function that `run` calls: a message is acknowledged when it returns, tried again later when
        it raises."""
        self._handler = handler
        return handler

    async def run(self, *, concurrency: int = 20) -> None:
        """Call the handler for every message, so many at once, until the consumer is stopped.

        Cancelled, as by Ctrl-C, it begins nothing new and lets handlers at work finish, as long as the options say.
        """
        if self._handler is None:
            raise WrongState(f"the consumer {self.group} has no handler; decorate one with @consumer.on_message")
        if concurrency < 1:
            raise ConfigError(f"concurrency={concurrency}: expected 1 or more handlers at once")
        take, grace_seconds = self._running_delivery.take, self.options.stop_grace_seconds
        await self._handlers.run(self._handler, take, concurrency, grace_seconds)

    @property
    def _running(self) -> ClientInstance:
        if self._instance is None:
            raise self._not_running()
        return self._instance

    @property
    def _running_delivery(self) -> Delivery:
        if self._delivery is None:
            raise self._not_running()
        return self._delivery

    @property
    def _running_membership(self) -> Membership:
        if self._membership is None or self._has_ended:
            raise self._not_running()
        return self._membership

    def _not_running(self) -> WrongState:
        return WrongState(f"the consumer {self.group} is not running; use it in `async with`, or start it")

    async def _give_back_expired(self) -> None:
        assert self._membership is not None and self._delivery is not None
        readers = list(self._membership.readers.values())
        await self._delivery.give_back_expired(readers, int(self.options.consume_timeout_seconds * 1000))

    # -- while it runs ---------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, tags: str = EVERY_TAG) -> None:
        """Want this topic too, or other tags of it. All members of a group must subscribe to the same."""
        instance, membership = self._running, self._running_membership
        await _look_for(instance, with_namespace(topic, self._client.namespace))
        name = self._subscriptions.add(topic, tags)
        await instance.heartbeat()  # first: a broker filters by what it was told
        for queue, reader in membership.readers.items():
            if queue.topic == name:
                reader.pull_anew()
        await membership.rebalanced()

    async def unsubscribe(self, topic: str) -> None:
        """Want this topic no more; what was acknowledged is kept."""
        instance, membership = self._running, self._running_membership
        name = self._subscriptions.remove(topic)
        if name is not None:
            for queue, reader in membership.readers.items():
                if queue.topic == name:
                    reader.halt()
            await membership.rebalanced()
            await instance.heartbeat()

    def pause(self) -> None:
        """Pull no more for the time being; what is here already still comes."""
        self._running_membership.pause()

    def resume(self) -> None:
        self._running_membership.resume()

    # -- as a member -----------------------------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(
            self.group,
            _PASSIVELY,
            message_model(is_broadcasting=self.options.is_broadcasting),
            from_where(self.options.start_from),
            self._subscriptions.all,
            bool(self._client.unit_name),
        )

    def routes_changed(self, topic: str) -> None:
        if topic in self._subscriptions and self._membership is not None:
            self._membership.rebalance_soon()

    def ids_changed(self) -> None:
        """A broker says that members came or went."""
        if self._membership is not None:
            self._membership.rebalance_soon()

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        if self._membership is not None and not self._has_ended:
            self._tasks.spawn(self._membership.reset(topic, offsets))

    def offsets_of(self, topic: str) -> Mapping[MessageQueue, int]:
        known = self._offsets.all_known() if self._offsets is not None else {}
        return {queue: offset for queue, offset in known.items() if not topic or queue.topic == topic}

    def running_info(self, *, with_stacks: bool) -> bodies.ConsumerRunningInfo:
        instance, membership = self._running, self._running_membership
        assert self._offsets is not None
        properties = {
            **as_properties(self.options),
            "consumerGroup": self.group,
            bodies.NAME_SERVERS: "".join(f"{address};" for address in instance.name_servers.book.addresses),
            bodies.CONSUME_TYPE: _PASSIVELY,
            bodies.IS_ORDERED: str(self.is_ordered).lower(),
            bodies.HANDLERS_AT_ONCE: str(self._handlers.concurrency),
            bodies.START_TIME: str(self._started_ms),
        }
        info = running_info(properties, self._subscriptions.all, membership.readers, self._offsets, self._figures)
        info.stacks = stacks() if with_stacks else None
        return info

    def consume_directly(self, record: bytes, broker_name: str) -> Awaitable[bytes]:
        """A broker gives a message outside of any order; ProtocolError when it is none."""
        decoded = decode_record(record)
        queue = MessageQueue(broker_name, decoded.queue_id, decoded.topic.decode(errors="replace"))
        message = message_of(decoded, queue, self._client.namespace)
        consuming = self._handlers.consume_directly(self._handler, message, is_ordered=self.is_ordered)
        return asyncio.shield(asyncio.ensure_future(consuming))  # whoever asked may lose patience, handlers not


async def _look_for(instance: ClientInstance, topic: str) -> None:
    """A topic that is not there yet is waited for while the consumer runs. Raises NoRoute when nobody can be asked."""
    try:
        await instance.routes.get(topic)
    except NoRoute as error:
        if error.cause is RouteCause.NO_NAME_SERVER:
            raise
        log.warning("%s; its messages come when there are any", error)
