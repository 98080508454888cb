"""What consumers that read on request have in common: their life, and the offsets their brokers keep."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import msgspec

from apogeemq.client.broker_calls import NO_OFFSET
from apogeemq.client.consuming.group_rules import checked_group
from apogeemq.client.consuming.pushing.running_info import as_properties, stacks
from apogeemq.client.instance import ClientInstance, joined_instance
from apogeemq.client.namespaces import with_namespace, without_namespace
from apogeemq.client.options import ClientOptions
from apogeemq.client.queries import TopicQueries
from apogeemq.errors import WrongState
from apogeemq.model.queues import MessageQueue
from apogeemq.model.subscriptions import CONSUME_ACTIVELY
from apogeemq.protocol.bodies import consumers as bodies
from apogeemq.protocol.bodies.heartbeat import ConsumerData
from apogeemq.runtime.clock import now_ms


class PullingConsumer(TopicQueries):
    """Queues are named, and come back, without the namespace."""

    def __init__(self, name_server: str, group: str, client: ClientOptions | None) -> None:
        self._client = client or ClientOptions()
        self._name_server = name_server
        self.group = with_namespace(checked_group(group), self._client.namespace)
        self._instance: ClientInstance | None = None
        self._has_ended = False
        self._started_ms = 0

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """WrongState when it runs already or has ended, or the group is in use in this process."""
        if self._instance is not None or self._has_ended:
            raise WrongState(f"the consumer {self.group} {'has ended' if self._has_ended else 'is running already'}")
        instance = joined_instance(self._name_server, self._client)
        instance.add_consumer(self)
        self._instance, self._started_ms = instance, now_ms()
        try:
            await self._begin(instance)
        except BaseException:
            await self._stop(is_done=False)
            raise

    async def stop(self) -> None:
        """The program is done with all that it was given."""
        await self._stop(is_done=True)

    async def _stop(self, *, is_done: bool) -> None:
        instance, self._instance, self._has_ended = self._instance, None, True
        if instance is None:
            return
        try:
            await self._end(is_done=is_done)
        finally:
            await instance.remove_consumer(self)

    async def _begin(self, instance: ClientInstance) -> None:
        """At the start, as a member already."""

    async def _end(self, *, is_done: bool) -> None:
        """Before leaving. Unless `is_done`, what was given last may not have been dealt with."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop(is_done=error is None)

    @property
    def _running(self) -> ClientInstance:
        if self._instance is None:
            raise WrongState(f"the consumer {self.group} is not running; use it in `async with`, or start it")
        return self._instance

    # -- queues ----------------------------------------------------------------------------------------------

    async def fetch_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues of a topic that can be read. Raises NoRoute."""
        return await self.subscribe_queues(topic)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Where the group goes on in a queue, as the broker keeps it; None when it has not begun."""
        own = self._own(queue)
        address = await self._master(own)
        offset = await self._running.calls.consumer_offset(address, self.group, own, zero_if_young=False)
        return offset if offset != NO_OFFSET else None

    async def offset_for_time(self, queue: MessageQueue, time_ms: int) -> int:
        """Of the first message stored at that time or later."""
        return await self.search_offset(queue, time_ms)

    def _shown(self, queue: MessageQueue) -> MessageQueue:
        namespace = self._client.namespace
        if not namespace:
            return queue
        return MessageQueue(queue.broker_name, queue.queue_id, without_namespace(queue.topic, namespace))

    # -- as a member -----------------------------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData | None:
        raise NotImplementedError

    def running_info(self, *, with_stacks: bool) -> bodies.ConsumerRunningInfo:
        info = self._running_info()
        info.stacks = stacks() if with_stacks else None
        return info

    def _running_info(self) -> bodies.ConsumerRunningInfo:
        raise NotImplementedError

    def _properties(self, options: msgspec.Struct) -> dict[str, str]:
        """What tools are shown of it."""
        return {
            **as_properties(options),
            "consumerGroup": self.group,
            bodies.NAME_SERVERS: "".join(f"{address};" for address in self._running.name_servers.book.addresses),
            bodies.CONSUME_TYPE: CONSUME_ACTIVELY,
            bodies.IS_ORDERED: "false",
            bodies.START_TIME: str(self._started_ms),
        }

    def routes_changed(self, topic: str) -> None:
        """A topic is served by others than before."""

    def ids_changed(self) -> None:
        """Members came or went."""
