"""The producer: sends messages to whichever broker serves their topic, and tries again where that makes sense."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import msgspec

from apogeemq.client.instance import ClientInstance, joined_instance
from apogeemq.client.namespaces import with_namespace
from apogeemq.client.options import ClientOptions, ProducerOptions
from apogeemq.client.producing.accumulator import Accumulator
from apogeemq.client.producing.batch_results import BatchResults
from apogeemq.client.producing.destinations import Destinations, QueueSelector, queue_without_namespace
from apogeemq.client.producing.detector import Detector
from apogeemq.client.producing.direct_sends import DirectSends, may_send_directly
from apogeemq.client.producing.gathered import Gathered, gathered
from apogeemq.client.producing.lingering import Lingering
from apogeemq.client.producing.outgoing import (
    Outgoing,
    batch_properties,
    check,
    check_batch,
    encoded,
    may_be_batched,
    may_be_joined,
    prepared,
    prepared_batch,
)
from apogeemq.client.producing.queue_choice import LatencyFaults
from apogeemq.client.producing.sending import Attempt, Sending
from apogeemq.client.producing.window import Window
from apogeemq.client.queries import TopicQueries
from apogeemq.errors import ConfigError, WrongState
from apogeemq.model.groups import group_problem
from apogeemq.model.ids import UniqueIdRange
from apogeemq.model.messages import Message, SendResult
from apogeemq.model.properties import INSTANCE_ID, encode_properties
from apogeemq.model.queues import MessageQueue
from apogeemq.runtime.clock import now_ms
from apogeemq.runtime.tasks import Tasks

DEFAULT_GROUP: Final = "DEFAULT_PRODUCER"
# After so many messages in a row the loop has its turn: else nobody would read answers while a program goes on sending.
_TURN: Final = 64
_NO_MESSAGE: Final = Message("", b"")


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
        self._faults = LatencyFaults()
        self._destinations: Destinations | None = None
        self._sender: Sending | None = None
        self._tasks = Tasks()
        self._window = Window(self.options.max_in_flight, self.options.max_bytes_in_flight)
        self._accumulator = Accumulator(
            self._send_together, self.options.linger_seconds, self.options.batch_bytes, self._window.leave
        )
        self._lingering: Lingering | None = None
        self._joined = Accumulator(self._send_together, 0.0, self.options.batch_bytes)
        self._waiting_sends = 0
        self._sending: set[asyncio.Future[SendResult]] = set()
        self._begun_in_a_row = 0

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """WrongState when it runs already, has ended, or another producer of this process has its group."""
        if self._instance is not None or self._has_ended:
            raise WrongState(f"the producer {self.group} {'has ended' if self._has_ended else 'is running already'}")
        instance = joined_instance(self._name_server, self._client)
        instance.add_producer(self)
        self._instance = instance
        self._destinations = Destinations(instance, self.options, self._faults)
        self._sender = Sending(instance, self.options, self._destinations)
        if self.options.linger_seconds > 0 and not self._client.namespace:
            self._lingering = Lingering(self._accumulator, self._window, self.options)
        if self.options.detects_brokers:
            seconds = self.options.detect_timeout_seconds
            detector = Detector(instance, self._destinations, self._faults, seconds)
            self._tasks.repeat(lambda: self.options.detect_seconds, detector.look)

    async def stop(self) -> None:
        """Wait for what is on its way, then leave."""
        instance, self._has_ended = self._instance, True
        if instance is None:
            return
        try:
            await self.flush()
        finally:
            self._accumulator.cancel()  # nothing is left there unless we were told not to wait
            self._joined.cancel()
            for unfinished in tuple(self._sending):
                unfinished.cancel()
            self._instance = self._sender = self._lingering = None
            try:
                await self._tasks.cancel_all()
            finally:
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

    @property
    def _running_sender(self) -> Sending:
        if self._sender is None:
            raise WrongState(f"the producer {self.group} is not running; use it in `async with`, or start it")
        return self._sender

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
        if self.options.joins_sends and queue is None and timeout_seconds is None:
            return await self._send_joined(message)
        outgoing, message = self._prepared(message)
        sender = self._sender or self._running_sender
        return await sender.send(outgoing, message, queue, timeout_seconds or self.options.send_timeout_seconds)

    async def _send_joined(self, message: Message) -> SendResult:
        """With others of this turn of the loop; but one that is alone waits for nobody."""
        sender, has_company = self._running_sender, self._waiting_sends > 0
        self._waiting_sends += 1
        try:
            if has_company and may_be_joined(message, self.options):
                own = self._named(message)
                check(own, self.options)
                return await self._joined.add(own)
            return await sender.send(*self._prepared(message), None, self.options.send_timeout_seconds)
        finally:
            self._waiting_sends -= 1

    async def send_soon(self, message: Message) -> asyncio.Future[SendResult]:
        """Send without waiting for the answer; the future given has the result or the error.

        Waits only while too much is on its way. With `linger_seconds`, messages that may be are put into batches.
        """
        lingering = self._lingering
        if lingering is not None and (begun := lingering.begin(message)) is not None:
            return begun
        self._running  # noqa: B018  WrongState before anything waits
        self._begun_in_a_row += 1
        if self._begun_in_a_row >= _TURN or (lingering is not None and lingering.ends_turn()):
            self._begun_in_a_row = 0
            await asyncio.sleep(0)
        size = len(message.body)
        if not self._window.may_enter(size):
            await self._window.enter(size)
        try:
            if self.options.linger_seconds > 0 and may_be_batched(message, self.options):
                own = self._named(message)
                check(own, self.options)
                return self._accumulator.add(own)
            result = self._running_sender.begin(*self._prepared(message))
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
        await self._joined.flush()
        while self._sending:
            await asyncio.wait(tuple(self._sending))

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout_seconds: float | None = None
    ) -> SendResult:
        """Several messages of one topic in one request: a broker takes all or none."""
        own = [self._named(message) for message in messages]
        check_batch(own, self.options)
        unique_ids, result = await self._send_checked_batch(gathered(own), queue, timeout_seconds)
        return msgspec.structs.replace(result, message_id=",".join(unique_ids.texts()))

    async def _send_together(self, messages: Gathered) -> BatchResults:
        """A batch, unless there is only one to be sent."""
        if len(messages) > 1:
            unique_ids, result = await self._send_checked_batch(messages)
            return BatchResults(result, unique_ids)
        outgoing, message = self._prepared(messages.first)
        seconds = self.options.send_timeout_seconds
        return BatchResults(await self._running_sender.send(outgoing, message, None, seconds), None)

    async def _send_checked_batch(
        self, messages: Gathered, queue: MessageQueue | None = None, timeout_seconds: float | None = None
    ) -> tuple[UniqueIdRange, SendResult]:
        """The ids of the messages, and a result without."""
        born_ms = now_ms()
        unique_ids = self._running.unique_ids.several(born_ms, len(messages))
        outgoing = prepared_batch(messages, self.group, self.options, unique_ids, born_ms, self._client.namespace)
        seconds = timeout_seconds or self.options.send_timeout_seconds
        return unique_ids, await self._running_sender.send(outgoing, messages.first, queue, seconds)

    async def send_encoded(
        self,
        queue: MessageQueue,
        body: bytes,
        *,
        properties: str | None = None,
        system_flag: int = 0,
        timeout_seconds: float | None = None,
    ) -> SendResult:
        """For programs that encode many messages at once: a batch in the form of `protocol.batch`, or one message with
        its `properties`. Nothing is checked, one attempt is made, and the result names no unique id."""
        own, namespace, is_batch = self._own(queue), self._client.namespace, properties is None
        if properties is None:
            properties = batch_properties(namespace)
        elif namespace:
            properties += encode_properties({INSTANCE_ID: namespace})
        outgoing = encoded(
            *(own.topic, body, properties, self.group, self.options, now_ms()),
            system_flag=system_flag,
            is_batch=is_batch,
        )
        return await self._running_sender.deliver(outgoing, _NO_MESSAGE, own, self._deadline(timeout_seconds))

    async def send_one_way(self, message: Message, *, queue: MessageQueue | None = None) -> None:
        """Send and expect no answer: fast, and nobody knows whether it arrived."""
        outgoing, message = self._prepared(message)
        await self._running_sender.one_way(outgoing, message, queue, self._deadline(None))

    def direct_sends(self) -> DirectSends | None:
        """For a twin whose threads wait for their sends themselves; None where every send must be the loop's."""
        instance = self._running
        return DirectSends(instance, self.options, self.group) if may_send_directly(instance, self.options) else None

    async def go_on(self, attempt: Attempt) -> SendResult:
        """What has been tried directly was not simply a success."""
        return await self._running_sender.go_on(attempt)

    def _prepared(self, message: Message) -> tuple[Outgoing, Message]:
        namespace, born_ms = self._client.namespace, now_ms()
        if namespace:
            message = self._named(message)
        unique_id = (self._instance or self._running).unique_ids.next(born_ms)
        return prepared(message, self.group, self.options, unique_id, born_ms, namespace), message

    def _named(self, message: Message) -> Message:
        namespace = self._client.namespace
        if not namespace:
            return message
        return msgspec.structs.replace(message, topic=with_namespace(message.topic, namespace))

    def _deadline(self, timeout_seconds: float | None) -> float:
        return asyncio.get_running_loop().time() + (timeout_seconds or self.options.send_timeout_seconds)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues messages to the topic may go to."""
        namespace = self._client.namespace
        self._running  # noqa: B018
        assert self._destinations is not None
        info = await self._destinations.queues(with_namespace(topic, namespace))
        return tuple(queue_without_namespace(queue, namespace) for queue in info.queues)


def _checked_group(group: str) -> str:
    if group == DEFAULT_GROUP:
        raise ConfigError(f"the group {DEFAULT_GROUP} is reserved; give your producers a name of their own")
    if problem := group_problem(group):
        raise ConfigError(f"producer group: {problem}")
    return group
