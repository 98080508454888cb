"""The producer: sends messages to whichever broker serves their topic, and tries again where that makes sense."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import msgspec

from apogeemq.client.broker_calls import SendAnswer
from apogeemq.client.instance import ClientInstance, joined_instance
from apogeemq.client.namespaces import with_namespace, without_namespace
from apogeemq.client.options import ClientOptions, ProducerOptions
from apogeemq.client.producing.accumulator import Accumulator
from apogeemq.client.producing.outgoing import Outgoing, check, may_be_batched, prepared, prepared_batch
from apogeemq.client.producing.queue_choice import LatencyFaults, Turn
from apogeemq.client.producing.window import Window
from apogeemq.client.route_cache import NewTopic
from apogeemq.client.route_info import PublishInfo, publish_info
from apogeemq.errors import (
    ApogeeError,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    NoRoute,
    RemoteRefused,
    RequestTimedOut,
    SendFailed,
    WrongState,
)
from apogeemq.filter.tags import java_hash
from apogeemq.model.groups import group_problem
from apogeemq.model.messages import Message, SendResult, SendStatus
from apogeemq.model.queues import MessageQueue
from apogeemq.runtime.clock import now_ms

DEFAULT_GROUP: Final = "DEFAULT_PRODUCER"

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]

_ELSEWHERE_ERRORS = (ConnectFailed, ConnectionLost, RequestTimedOut, NoRoute)  # another broker may do


class Producer:
    """Use as `async with Producer("127.0.0.1:9876", group="orders") as producer: …`, or call `start` and `stop`."""

    def __init__(
        self,
        name_server: str = "",
        group: str = "",
        *,
        options: ProducerOptions | None = None,
        client: ClientOptions | None = None,
    ) -> None:
        """Without a name server: from the environment (NAMESRV_ADDR), as Apache's clients."""
        self._name_server = name_server
        self._client = client or ClientOptions()
        self.options = options or ProducerOptions()
        self.group = with_namespace(_checked_group(group), self._client.namespace)
        self._instance: ClientInstance | None = None
        self._has_ended = False
        self._publish: dict[str, tuple[object, PublishInfo]] = {}
        self._turns: dict[str, Turn] = {}
        self._faults = LatencyFaults()
        self._window = Window(self.options.max_in_flight, self.options.max_bytes_in_flight)
        self._accumulator = Accumulator(self.send_batch, self.options.linger_seconds, self.options.batch_bytes)
        self._sending: set[asyncio.Future[SendResult]] = set()

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """WrongState when it runs already, has ended, or another producer of this process has its group."""
        if self._instance is not None or self._has_ended:
            raise WrongState(f"the producer {self.group} {'has ended' if self._has_ended else 'is running already'}")
        instance = joined_instance(self._name_server, self._client)
        instance.add_producer(self)
        self._instance = instance

    async def stop(self) -> None:
        """Wait for what is on its way, then leave."""
        instance, self._has_ended = self._instance, True
        if instance is None:
            return
        try:
            await self.flush()
        finally:
            self._instance = None
            await instance.remove_producer(self)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def _running(self) -> ClientInstance:
        if self._instance is None:
            raise WrongState(f"the producer {self.group} is not running; use it in `async with`, or start it")
        return self._instance

    # -- sending ---------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str | Message,
        body: bytes = b"",
        *,
        tags: str = "",
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str = "",
        delay_level: int = 0,
        queue: MessageQueue | QueueSelector | None = None,
        timeout_seconds: float | None = None,
    ) -> SendResult:
        """Send one message and wait until a broker has it.

        A `queue`, or a function that chooses one, is kept to: another broker is tried only where the choice is ours.
        Raises MessageIllegal, NoRoute, RemoteRefused, SendFailed.
        """
        message = (
            topic
            if isinstance(topic, Message)
            else Message(topic, body, tags, keys, properties or {}, sharding_key, delay_level)
        )
        outgoing, message = self._prepared(message)
        return await self._deliver(outgoing, message, queue, timeout_seconds)

    async def send_soon(self, message: Message) -> asyncio.Future[SendResult]:
        """Send without waiting for the answer; the future given has the result or the error.

        Waits only while too much is on its way. With `linger_seconds`, messages that may be are put into batches.
        """
        self._running  # noqa: B018  WrongState before anything waits
        size = len(message.body)
        await self._window.enter(size)
        try:
            if self.options.linger_seconds > 0 and may_be_batched(message, self.options):
                check(message, self.options)
                result = self._accumulator.add(message)
            else:
                result = asyncio.ensure_future(self.send(message))
        except BaseException:
            self._window.leave(size)
            raise
        self._sending.add(result)

        def ended(done: asyncio.Future[SendResult]) -> None:
            self._window.leave(size)
            self._sending.discard(done)

        result.add_done_callback(ended)
        return result

    async def flush(self) -> None:
        """Wait until everything of `send_soon` has its answer, whatever that is."""
        await self._accumulator.flush()
        while self._sending:
            await asyncio.wait(tuple(self._sending))

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout_seconds: float | None = None
    ) -> SendResult:
        """Several messages of one topic in one request: a broker takes all or none."""
        instance = self._running
        born_ms = now_ms()
        own = [self._named(message) for message in messages]
        unique_ids = [instance.unique_ids.next(born_ms) for _ in own]
        outgoing = prepared_batch(own, self.group, self.options, unique_ids, born_ms, self._client.namespace)
        return await self._deliver(outgoing, own[0], queue, timeout_seconds)

    async def send_one_way(self, message: Message, *, queue: MessageQueue | None = None) -> None:
        """Send and expect no answer: fast, and nobody knows whether it arrived."""
        outgoing, message = self._prepared(message)
        info = await self._queues(outgoing.topic)
        chosen = queue or self._next_queue(outgoing, message, info, frozenset())
        header = msgspec.structs.replace(outgoing.header, queue_id=chosen.queue_id)
        await self._running.calls.send_one_way(self._address(chosen), header, outgoing.body)

    def _prepared(self, message: Message) -> tuple[Outgoing, Message]:
        born_ms = now_ms()
        message = self._named(message)
        unique_id = self._running.unique_ids.next(born_ms)
        outgoing = prepared(message, self.group, self.options, unique_id, born_ms, self._client.namespace)
        return outgoing, message

    def _named(self, message: Message) -> Message:
        namespace = self._client.namespace
        if not namespace:
            return message
        return msgspec.structs.replace(message, topic=with_namespace(message.topic, namespace))

    async def _deliver(
        self,
        outgoing: Outgoing,
        message: Message,
        queue: MessageQueue | QueueSelector | None,
        timeout_seconds: float | None,
    ) -> SendResult:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (timeout_seconds or self.options.send_timeout_seconds)
        info = await self._queues(outgoing.topic)
        if queue is not None or message.sharding_key:
            chosen = self._chosen_queue(queue, message, info)
            return await self._attempt(outgoing, chosen, deadline)
        failures: list[ApogeeError] = []
        avoided: frozenset[str] = frozenset()
        for _ in range(1 + self.options.retries):
            if failures and loop.time() >= deadline:
                break
            chosen = self._next_queue(outgoing, message, info, avoided)
            started = loop.time()
            try:
                result = await self._attempt(outgoing, chosen, deadline)
            except RemoteRefused as error:
                if not error.retriable:
                    raise
                failures.append(error)
            except _ELSEWHERE_ERRORS as error:
                failures.append(error)
            else:
                self._report(chosen, started, has_failed=False)
                if result.status is SendStatus.SEND_OK or not self.options.retries_when_not_ok:
                    return result
                failures.append(SendFailed(f"{chosen.broker_name} answered {result.status.name}", []))
            self._report(chosen, started, has_failed=True)
            avoided = frozenset((chosen.broker_name,))
            self._running.routes.refresh_soon(outgoing.topic)
            fresh = self._publish_info(outgoing.topic)
            info = fresh if fresh is not None and fresh.queues else info
        raise _gave_up(outgoing, failures)

    async def _attempt(self, outgoing: Outgoing, queue: MessageQueue, deadline: float) -> SendResult:
        timeout_seconds = max(deadline - asyncio.get_running_loop().time(), 0.0)
        header = msgspec.structs.replace(outgoing.header, queue_id=queue.queue_id)
        answer = await self._running.calls.send(self._address(queue), header, outgoing.body, timeout_seconds)
        return _result(outgoing, _without_namespace(queue, self._client.namespace), answer)

    # -- which queue -----------------------------------------------------------------------------------------

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues messages to the topic may go to."""
        namespace = self._client.namespace
        info = await self._queues(with_namespace(topic, namespace))
        return tuple(_without_namespace(queue, namespace) for queue in info.queues) if namespace else info.queues

    async def _queues(self, topic: str) -> PublishInfo:
        routes = self._running.routes
        info = self._publish_info(topic)
        if info is None:
            await routes.get(topic, NewTopic(self.options.create_topic_key, self.options.default_topic_queues))
            info = self._publish_info(topic)
        if info is None or not info.queues:
            await routes.refresh(topic)
            info = self._publish_info(topic)
        if info is None or not info.queues:
            raise NoRoute(
                f"no queue of topic {topic} can be sent to: its brokers have no master, or may not be written to"
            )
        return info

    def _publish_info(self, topic: str) -> PublishInfo | None:
        """Worked out once for each route."""
        route = self._running.routes.known(topic)
        if route is None:
            return None
        known = self._publish.get(topic)
        if known is None or known[0] is not route:
            known = self._publish[topic] = (route, publish_info(topic, route))
        return known[1]

    def _next_queue(
        self, outgoing: Outgoing, message: Message, info: PublishInfo, avoided: frozenset[str]
    ) -> MessageQueue:
        turn = self._turns.get(outgoing.topic)
        if turn is None:
            turn = self._turns[outgoing.topic] = Turn(random.randrange(1024))
        if self.options.avoids_slow_brokers:
            avoided |= self._faults.unavailable(time.monotonic() * 1000)
        return turn.pick(info.queues, avoided)

    def _chosen_queue(
        self, queue: MessageQueue | QueueSelector | None, message: Message, info: PublishInfo
    ) -> MessageQueue:
        if queue is None:
            return info.queues[abs(java_hash(message.sharding_key)) % len(info.queues)]
        return queue if isinstance(queue, MessageQueue) else queue(info.queues, message)

    def _address(self, queue: MessageQueue) -> str:
        address = self._running.master_of(queue.broker_name)
        if address is None:
            raise NoRoute(f"the broker {queue.broker_name} has no master that is known")
        return address

    def _report(self, queue: MessageQueue, started: float, *, has_failed: bool) -> None:
        if self.options.avoids_slow_brokers:
            now = time.monotonic() * 1000
            latency_ms = (asyncio.get_running_loop().time() - started) * 1000
            self._faults.report(queue.broker_name, latency_ms, now, has_failed=has_failed)


def _without_namespace(queue: MessageQueue, namespace: str) -> MessageQueue:
    """Programs know topics by their own names."""
    if not namespace:
        return queue
    return MessageQueue(queue.broker_name, queue.queue_id, without_namespace(queue.topic, namespace))


def _result(outgoing: Outgoing, queue: MessageQueue, answer: SendAnswer) -> SendResult:
    return SendResult(
        SendStatus(answer.code),
        ",".join(outgoing.unique_ids),
        answer.offset_ids,
        MessageQueue(queue.broker_name, answer.queue_id, queue.topic),
        answer.queue_offset,
        answer.transaction_id,
    )


def _gave_up(outgoing: Outgoing, failures: list[ApogeeError]) -> SendFailed:
    reasons = "; ".join(str(failure) for failure in failures)
    return SendFailed(f"the message to {outgoing.topic} was not taken in {len(failures)} attempts: {reasons}", failures)


def _checked_group(group: str) -> str:
    if group == DEFAULT_GROUP:
        raise ConfigError(f"the group {DEFAULT_GROUP} is reserved; give your producers a name of their own")
    if problem := group_problem(group):
        raise ConfigError(f"producer group: {problem}")
    return group
