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
from apogeemq.client.queries import TopicQueries
from apogeemq.client.route_cache import NewTopic
from apogeemq.client.route_info import PublishInfo, nowhere_to_send, publish_info
from apogeemq.errors import ApogeeError, ConfigError, NoRoute, RemoteRefused, RouteCause, SendFailed, WrongState
from apogeemq.filter.tags import java_hash
from apogeemq.model.groups import group_problem
from apogeemq.model.messages import Message, SendResult, SendStatus
from apogeemq.model.queues import MessageQueue
from apogeemq.runtime.clock import now_ms

DEFAULT_GROUP: Final = "DEFAULT_PRODUCER"

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]

_NOBODY: Final[frozenset[str]] = frozenset()


class Producer(TopicQueries):
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
            self._accumulator.cancel()  # nothing is left there unless we were told not to wait
            for unfinished in tuple(self._sending):
                unfinished.cancel()
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
        info = await self._queues(outgoing.topic, self._deadline(None))
        if queue is not None or message.sharding_key:
            chosen = self._chosen_queue(queue, message, info)
        else:
            chosen = self._next_queue(outgoing.topic, info, "")
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
        deadline = self._deadline(timeout_seconds)
        info = await self._queues(outgoing.topic, deadline)
        if queue is not None or message.sharding_key:
            return await self._attempt_once(outgoing, self._chosen_queue(queue, message, info), deadline)
        failures: list[ApogeeError] = []
        kept: SendResult | None = None  # stored, but not as well as it should be
        last_broker = ""
        for _ in range(1 + self.options.retries):
            if failures and loop.time() >= deadline:
                break
            chosen = self._next_queue(outgoing.topic, info, last_broker)
            started = loop.time()
            try:
                result = await self._attempt(outgoing, chosen, deadline)
            except ApogeeError as error:
                self._report(chosen, started, error)
                if not self._may_do_elsewhere(error):
                    if kept is not None:
                        return kept
                    raise
                failures.append(error)
            else:
                self._report(chosen, started, None)
                if result.status is SendStatus.SEND_OK or not self.options.retries_when_not_ok:
                    return result
                kept = result
                failures.append(SendFailed(f"{chosen.broker_name} answered {result.status.name}", []))
            last_broker = chosen.broker_name
            self._running.routes.refresh_soon(outgoing.topic)
            fresh = self._publish_info(outgoing.topic)
            info = fresh if fresh is not None and fresh.queues else info
        if kept is not None:
            return kept
        raise _gave_up(outgoing, failures)

    def _deadline(self, timeout_seconds: float | None) -> float:
        return asyncio.get_running_loop().time() + (timeout_seconds or self.options.send_timeout_seconds)

    def _may_do_elsewhere(self, error: ApogeeError) -> bool:
        return error.code in self.options.retry_codes if isinstance(error, RemoteRefused) else error.retriable

    async def _attempt_once(self, outgoing: Outgoing, queue: MessageQueue, deadline: float) -> SendResult:
        try:
            return await self._attempt(outgoing, queue, deadline)
        except ApogeeError as error:
            if error.refresh_routes:
                self._running.routes.refresh_soon(outgoing.topic)
            raise

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

    async def _queues(self, topic: str, deadline: float | None = None) -> PublishInfo:
        info = self._publish_info(topic)
        if info is not None and info.queues:
            return info
        routes = self._running.routes
        new_topic = NewTopic(self.options.create_topic_key, self.options.default_topic_queues)
        try:
            async with asyncio.timeout_at(deadline):
                route = await (routes.get(topic, new_topic) if info is None else routes.refresh(topic))
        except TimeoutError:
            raise NoRoute(
                f"no route of topic {topic}: no name server answered in the time of the send: "
                f"{self._running.name_servers.describe()}",
                RouteCause.NO_NAME_SERVER,
            ) from None
        info = self._publish_info(topic)
        if info is None or not info.queues:
            raise nowhere_to_send(topic, route)
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

    def _next_queue(self, topic: str, info: PublishInfo, last_broker: str) -> MessageQueue:
        """Away from the broker that just failed; away from slow ones if that is wanted."""
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._turns[topic] = Turn(random.randrange(1024))
        last = frozenset((last_broker,)) if last_broker else _NOBODY
        if self.options.avoids_slow_brokers:
            slow = self._faults.unavailable(time.monotonic() * 1000)
            return turn.pick(info.queues, slow | last, self._faults.unreachable() | last)
        return turn.pick(info.queues, last)

    def _chosen_queue(
        self, queue: MessageQueue | QueueSelector | None, message: Message, info: PublishInfo
    ) -> MessageQueue:
        if queue is None:
            return info.queues[abs(java_hash(message.sharding_key)) % len(info.queues)]
        if isinstance(queue, MessageQueue):
            return queue
        namespace = self._client.namespace
        if not namespace:
            return queue(info.queues, message)
        known_as = msgspec.structs.replace(message, topic=without_namespace(message.topic, namespace))
        return queue([_without_namespace(one, namespace) for one in info.queues], known_as)

    def _address(self, queue: MessageQueue) -> str:
        address = self._running.master_of(queue.broker_name)
        if address is None:
            raise NoRoute(f"the broker {queue.broker_name} has no master that is known")
        return address

    def _report(self, queue: MessageQueue, started: float, error: ApogeeError | None) -> None:
        """As Apache's clients count: a broker that refuses is not to be reached, one that is not there is paused."""
        if self.options.avoids_slow_brokers:
            latency_ms = (asyncio.get_running_loop().time() - started) * 1000
            self._faults.report(
                queue.broker_name,
                latency_ms,
                time.monotonic() * 1000,
                has_failed=error is not None and not isinstance(error, NoRoute),
                is_reachable=not isinstance(error, RemoteRefused),
            )


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
