"""The producer without `await`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future

from apogeemq import client as asynchronous
from apogeemq.blocking.outbox import Outbox, share
from apogeemq.blocking.queries import TopicQueries
from apogeemq.blocking.twins import Leave
from apogeemq.client.options import ClientOptions, ProducerOptions
from apogeemq.client.producing.destinations import QueueSelector
from apogeemq.client.producing.direct_sends import DirectSends
from apogeemq.client.producing.outgoing import check
from apogeemq.model.messages import Message, SendResult
from apogeemq.model.queues import MessageQueue
from apogeemq.transport.forking import release_in_children


class _Sockets:
    """Those that a forked child must not keep, as long as the producer is there."""

    def __init__(self, direct: DirectSends) -> None:
        self._direct = direct
        release_in_children(self)

    def descriptors(self) -> Iterable[int]:
        return self._direct.descriptors()


class Producer(TopicQueries):
    """Use as `with Producer("127.0.0.1:9876", group="orders") as producer: …`, or call `start` and `stop`.

    Threads may share one.
    """

    def __init__(
        self,
        name_server: str = "",
        group: str = "",
        *,
        options: ProducerOptions | None = None,
        client: ClientOptions | None = None,
    ) -> None:
        """Without a name server: from the environment (NAMESRV_ADDR), as Apache's clients."""
        self._producer = asynchronous.Producer(name_server, group, options=options, client=client)
        super().__init__(self._producer, self._producer)
        self._outbox = Outbox(self._producer.send_soon)
        self._direct: DirectSends | None = None
        self._sockets: _Sockets | None = None

    @property
    def options(self) -> ProducerOptions:
        return self._producer.options

    def start(self) -> None:
        """Connect and join. WrongState when it runs already or has ended, or its group is in use in this process."""
        super().start()
        try:
            direct = self._ask(self._producer.direct_sends)
            if direct is not None:
                self._sockets = _Sockets(direct)
                self._direct = direct
        except BaseException:  # interrupted: nobody would know that it runs
            self._begin(self._abandoned)
            raise

    def send(
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
        The function must not call clients. Raises MessageIllegal, NoRoute, RemoteRefused, SendFailed.
        """
        message = (
            topic
            if isinstance(topic, Message)
            else Message(topic, body, tags, keys, properties or {}, sharding_key, delay_level)
        )
        direct = self._direct
        if direct is not None and queue is None and timeout_seconds is None and self._may_wait():
            done = direct.send(message)
            if isinstance(done, SendResult):
                return done
            if done is not None:
                return self._call(self._producer.go_on, done)
        return self._call(self._producer.send, message, queue=queue, timeout_seconds=timeout_seconds)

    def send_soon(self, message: Message) -> Future[SendResult]:
        """Send without waiting for the answer; the future given has the result or the error.

        Waits only while too much is on its way. With `linger_seconds`, messages that may be are put into batches.
        """
        if self._is_running:
            check(message, self.options)
            if (result := self._outbox.put(message, self._home().loop)) is not None:
                return result
        return self._call(self._send_soon, message)

    async def _send_soon(self, message: Message) -> Future[SendResult]:
        await self._outbox.emptied()  # nobody overtakes
        result: Future[SendResult] = Future()
        result.set_running_or_notify_cancel()
        share(await self._producer.send_soon(message), result)
        return result

    def flush(self) -> None:
        """Wait until everything of `send_soon` has its answer, whatever that is."""
        self._call(self._flush)

    async def _flush(self) -> None:
        is_busy = True
        while is_busy:  # what waits in the outbox for room may have it after this
            is_busy = self._outbox.is_busy
            await self._producer.flush()
            await asyncio.sleep(0)

    async def _ended(self, leave: Leave) -> None:
        if self._direct is not None:
            self._direct.close()
        try:
            await self._flush()
        finally:
            await leave()

    def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout_seconds: float | None = None
    ) -> SendResult:
        """Several messages of one topic in one request: a broker takes all or none."""
        return self._call(self._producer.send_batch, messages, queue=queue, timeout_seconds=timeout_seconds)

    def send_encoded(
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
        return self._call(
            self._producer.send_encoded,
            queue,
            body,
            properties=properties,
            system_flag=system_flag,
            timeout_seconds=timeout_seconds,
        )

    def send_one_way(self, message: Message, *, queue: MessageQueue | None = None) -> None:
        """Send and expect no answer: fast, and nobody knows whether it arrived."""
        self._call(self._producer.send_one_way, message, queue=queue)

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues messages to the topic may go to."""
        return self._call(self._producer.queues, topic)
