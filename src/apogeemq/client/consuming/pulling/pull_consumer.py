"""The plain pull consumer: the program says what to read, from where, and keeps the offsets itself."""

from __future__ import annotations

import asyncio
from typing import Final

from apogeemq.client.broker_calls import PullAnswer, pull_answer
from apogeemq.client.consuming.group_rules import from_where, message_model
from apogeemq.client.consuming.incoming import messages_of
from apogeemq.client.consuming.pulling.pull_result import PullResult, PullStatus, RawPullResult
from apogeemq.client.consuming.pulling.pull_run import RunTarget
from apogeemq.client.consuming.pulling.pulling_consumer import PullingConsumer
from apogeemq.client.consuming.pushing.returning import Returns
from apogeemq.client.options import ClientOptions, PullOptions
from apogeemq.errors import ApogeeError, ConfigError, NoRoute, OffsetIllegal
from apogeemq.filter.subscriptions import subscription_of
from apogeemq.model.queues import MessageQueue
from apogeemq.model.received import ReceivedMessage
from apogeemq.model.subscriptions import CONSUME_ACTIVELY, EVERY_TAG, SQL92, TAG, SubscriptionData
from apogeemq.model.topics import MASTER_ID
from apogeemq.protocol.bodies import consumers as bodies
from apogeemq.protocol.bodies.heartbeat import ConsumerData
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import broker as headers

_MAX_INT: Final = 2**31 - 1


class PullConsumer(PullingConsumer):
    """Use as `async with PullConsumer(…, group="audit") as consumer:` and then, for each queue of
    `await consumer.fetch_queues("orders")`, `result = await consumer.pull(queue, offset)`.

    Any number of pulls may be on their way at once.
    """

    def __init__(
        self,
        name_server: str = "",
        group: str = "",
        *,
        options: PullOptions | None = None,
        client: ClientOptions | None = None,
    ) -> None:
        super().__init__(name_server, group, client)
        self.options = options or PullOptions()
        self._read_from: dict[MessageQueue, int] = {}  # the broker of a group that a queue's last answer suggested

    # -- messages --------------------------------------------------------------------------------------------

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = 32,
        tags: str = EVERY_TAG,
        *,
        sql: str = "",
        max_bytes: int | None = None,
        wait_seconds: float = 0.0,
    ) -> PullResult:
        """At most so many messages of a queue from an offset on: those with one of the tags, or those that match the
        SQL92 expression `sql`.

        Brokers have limits of their own; not all of them heed `max_bytes`. When there is nothing new, the broker waits
        for `wait_seconds` before it says so, Apache's some seconds longer. Raises OffsetIllegal for a negative offset;
        NoRoute, RemoteRefused and others when brokers fail.
        """
        subscription = self._subscription(queue, tags, sql)
        answer = await self._pull(queue, offset, max_messages, subscription, max_bytes, wait_seconds)
        messages: list[ReceivedMessage] = []
        if answer.records:
            namespace = self._client.namespace
            messages += messages_of(answer.records, self._shown(queue), subscription, namespace, first_offset=offset)
        status = PullStatus(answer.code)
        if status is PullStatus.FOUND and not messages:
            status = PullStatus.NO_MATCHED_MSG  # only hashes were alike
        return PullResult(status, messages, answer.next_offset, answer.min_offset, answer.max_offset)

    async def pull_raw(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = 32,
        tags: str = EVERY_TAG,
        *,
        sql: str = "",
        max_bytes: int | None = None,
        wait_seconds: float = 0.0,
    ) -> RawPullResult:
        """As `pull`, but the records are not decoded."""
        subscription = self._subscription(queue, tags, sql)
        return _raw(await self._pull(queue, offset, max_messages, subscription, max_bytes, wait_seconds))

    async def pull_raw_run(
        self, queue: MessageQueue, offset: int, max_messages: int, pulls: int, *, max_bytes: int | None = None
    ) -> list[RawPullResult]:
        """Several pulls at once: each begins where the one before ends if it brings as many messages as it may.

        They share a write, and their answers often a read: of small pulls many cost little more than one. Gives the
        answers up to the first pull that failed; raises what `pull_raw` raises when that is the first.
        """
        header = self._header(queue, offset, max_messages, self._subscription(queue, EVERY_TAG, ""), max_bytes, 0.0)
        own = self._own(queue)
        address = await self._reader_address(own)
        offsets = range(offset, offset + pulls * max_messages, max_messages)
        asked = self._running.calls.begin_pulls(address, header, offsets, self.options.pull_timeout_seconds)
        if not asked:
            return [await self.pull_raw(queue, offset, max_messages, max_bytes=max_bytes)]
        return await self._answers(own, address, asked)

    async def run_target(self, queue: MessageQueue, *, max_bytes: int | None = None) -> RunTarget | None:
        """For a `PullRun` of this queue; None where pulls are more than requests on a plain connection: signed, or
        encrypted. Raises NoRoute."""
        instance, own = self._running, self._own(queue)
        if instance.pool.is_encrypted or instance.pool.before_send:
            return None
        address, client = await self._reader_address(own), instance.options
        return RunTarget(
            client.address_map.get(address, address),
            self._header(queue, 0, 1, self._subscription(queue, EVERY_TAG, ""), max_bytes, 0.0),
            instance.pool.limits.max_frame_size,
            client.connect_timeout_seconds,
            round(client.unacknowledged_seconds * 1000),
            self.options.pull_timeout_seconds,
        )

    async def _answers(
        self, queue: MessageQueue, address: str, asked: list[asyncio.Future[Command]]
    ) -> list[RawPullResult]:
        found: list[RawPullResult] = []
        try:
            for one in asked:
                answer = pull_answer(await one, address)
                self._remember(queue, answer.suggested_broker_id)
                found.append(_raw(answer))
        except ApogeeError as error:
            self._failed(queue, error)
            if not found:
                raise
        finally:
            for one in asked[len(found) :]:
                one.cancel()
        return found

    def _subscription(self, queue: MessageQueue, tags: str, sql: str) -> SubscriptionData:
        if sql and tags != EVERY_TAG:
            raise ConfigError(f"a pull by the tags {tags} and by {sql}: expected one of them")
        return subscription_of(self._own(queue).topic, sql or tags, SQL92 if sql else TAG)

    async def _pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int,
        subscription: SubscriptionData,
        max_bytes: int | None,
        wait_seconds: float,
    ) -> PullAnswer:
        header = self._header(queue, offset, max_messages, subscription, max_bytes, wait_seconds)
        own = self._own(queue)
        address = await self._reader_address(own)
        instance, timeout_seconds = self._running, self.options.pull_timeout_seconds + wait_seconds
        try:
            answer = await instance.calls.pull(address, header, timeout_seconds)
        except ApogeeError as error:
            self._failed(own, error)
            raise
        self._remember(own, answer.suggested_broker_id)
        return answer

    def _header(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int,
        subscription: SubscriptionData,
        max_bytes: int | None,
        wait_seconds: float,
    ) -> headers.PullMessage:
        if offset < 0:
            raise OffsetIllegal(f"no pull of {queue} at {offset}: offsets begin at 0")
        if max_messages < 1 or wait_seconds < 0:
            raise ConfigError(
                f"a pull of {max_messages} messages, waiting {wait_seconds} s: expected at least 1, and 0 s"
            )
        own = self._own(queue)
        return headers.PullMessage(
            consumer_group=self.group,
            topic=own.topic,
            queue_id=own.queue_id,
            queue_offset=offset,
            max_messages=max_messages,
            system_flag=headers.PULL_SUBSCRIBES | (headers.PULL_SUSPENDS if wait_seconds else 0),
            suspend_ms=int(wait_seconds * 1000),
            subscription=subscription.sub_string,
            expression_type=subscription.expression_type,
            max_bytes=_MAX_INT if max_bytes is None else max_bytes,
            broker_name=own.broker_name,
        )

    def _failed(self, queue: MessageQueue, error: ApogeeError) -> None:
        self._read_from.pop(queue, None)
        if error.refresh_routes:
            self._running.routes.refresh_soon(queue.topic)

    def _remember(self, queue: MessageQueue, broker_id: int) -> None:
        if broker_id != MASTER_ID:
            self._read_from[queue] = broker_id
        elif self._read_from:
            self._read_from.pop(queue, None)

    async def _reader_address(self, queue: MessageQueue) -> str:
        """Of the master, or the slave its broker has suggested; of another where that one is gone."""
        routes, broker_id = self._running.routes, self._read_from.get(queue, MASTER_ID)
        await routes.get(queue.topic)
        found = routes.address(queue.broker_name, broker_id)
        if found is None:
            await routes.refresh(queue.topic)
            found = routes.address(queue.broker_name, broker_id)
        if found is None:
            raise NoRoute(f"the broker {queue.broker_name} of {queue.topic} is not known")
        return found

    async def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Let a message come again to the group, through its retry topic, after a delay that grows unless a level is
        given; -1 sends it to the dead letters at once. When its broker cannot be told, it is sent anew."""
        instance = self._running
        returns = Returns(instance, self.group, self.options.max_retries, is_ordered=False)
        try:
            await self._master(self._own(message.queue))  # its route may not be known here yet
            await returns.tell_broker(message, delay_level)
        except ApogeeError:
            if not await returns.send_anew(message):
                raise

    # -- offsets ---------------------------------------------------------------------------------------------

    async def fetch_consume_offset(self, queue: MessageQueue) -> int | None:
        """Where the group goes on in a queue, as the broker keeps it; None when it has not begun."""
        return await self.committed(queue)

    async def update_consume_offset(self, queue: MessageQueue, offset: int) -> None:
        """Keep where the group goes on: at the next message to read. When this returns, the broker has it."""
        if offset < 0:
            raise OffsetIllegal(f"no commit of {queue} at {offset}: offsets begin at 0")
        own = self._own(queue)
        await self._running.calls.update_offset_and_wait(await self._master(own), self.group, own, offset)

    # -- as a member -----------------------------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData | None:
        if not self.options.joins_group:
            return None
        model = message_model(is_broadcasting=False)
        return ConsumerData(self.group, CONSUME_ACTIVELY, model, from_where("last"), [], bool(self._client.unit_name))

    def _running_info(self) -> bodies.ConsumerRunningInfo:
        properties = self._properties(self.options)
        return bodies.ConsumerRunningInfo(properties=properties, subscriptions=[], queues={}, statuses={})


def _raw(answer: PullAnswer) -> RawPullResult:
    return RawPullResult(
        PullStatus(answer.code), answer.records, answer.next_offset, answer.min_offset, answer.max_offset
    )
