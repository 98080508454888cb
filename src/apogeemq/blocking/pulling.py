"""Consumers that read on request, without `await`: what they have in common, and the plain one."""

from __future__ import annotations

from apogeemq import client as asynchronous
from apogeemq.blocking.queries import TopicQueries
from apogeemq.client.consuming.pulling.pull_result import PullResult, RawPullResult
from apogeemq.client.consuming.pulling.pulling_consumer import PullingConsumer as AsyncPullingConsumer
from apogeemq.client.options import ClientOptions, PullOptions
from apogeemq.model.queues import MessageQueue
from apogeemq.model.received import ReceivedMessage
from apogeemq.model.subscriptions import EVERY_TAG


class PullingConsumer(TopicQueries):
    """Queues are named, and come back, without the namespace."""

    def __init__(self, client: AsyncPullingConsumer) -> None:
        super().__init__(client, client)
        self._puller = client

    def fetch_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues of a topic that can be read. Raises NoRoute."""
        return self._call(self._puller.fetch_queues, topic)

    def committed(self, queue: MessageQueue) -> int | None:
        """Where the group goes on in a queue, as the broker keeps it; None when it has not begun."""
        return self._call(self._puller.committed, queue)

    def offset_for_time(self, queue: MessageQueue, time_ms: int) -> int:
        """Of the first message stored at that time or later."""
        return self._call(self._puller.offset_for_time, queue, time_ms)


class PullConsumer(PullingConsumer):
    """Use as `with PullConsumer(…, group="audit") as consumer:` and then, for each queue of
    `consumer.fetch_queues("orders")`, `result = consumer.pull(queue, offset)`.

    Any number of threads may pull at once.
    """

    def __init__(
        self,
        name_server: str = "",
        group: str = "",
        *,
        options: PullOptions | None = None,
        client: ClientOptions | None = None,
    ) -> None:
        """Without a name server: from the environment (NAMESRV_ADDR), as Apache's clients."""
        self._consumer = asynchronous.PullConsumer(name_server, group, options=options, client=client)
        super().__init__(self._consumer)

    @property
    def options(self) -> PullOptions:
        return self._consumer.options

    def pull(
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
        SQL92 expression `sql`; and no more bytes than `max_bytes`, but one at least.

        Brokers have limits of their own. When there is nothing new, the broker waits for `wait_seconds` before it
        says so. Raises OffsetIllegal for a negative offset; NoRoute, RemoteRefused and others when brokers fail.
        """
        return self._call(
            self._consumer.pull,
            *(queue, offset, max_messages, tags),
            sql=sql,
            max_bytes=max_bytes,
            wait_seconds=wait_seconds,
        )

    def pull_raw(
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
        return self._call(
            self._consumer.pull_raw,
            *(queue, offset, max_messages, tags),
            sql=sql,
            max_bytes=max_bytes,
            wait_seconds=wait_seconds,
        )

    def pull_raw_run(
        self, queue: MessageQueue, offset: int, max_messages: int, pulls: int, *, max_bytes: int | None = None
    ) -> list[RawPullResult]:
        """Several pulls at once: each begins where the one before ends if it brings as many messages as it may. Gives
        the answers up to the first pull that failed; raises what `pull_raw` raises when that is the first."""
        return self._call(self._consumer.pull_raw_run, queue, offset, max_messages, pulls, max_bytes=max_bytes)

    def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Let a message come again to the group, through its retry topic, after a delay that grows unless a level is
        given; -1 sends it to the dead letters at once."""
        self._call(self._consumer.send_back, message, delay_level)

    def fetch_consume_offset(self, queue: MessageQueue) -> int | None:
        """Where the group goes on in a queue, as the broker keeps it; None when it has not begun."""
        return self._call(self._consumer.fetch_consume_offset, queue)

    def update_consume_offset(self, queue: MessageQueue, offset: int) -> None:
        """Keep where the group goes on: at the next message to read. When this returns, the broker has it."""
        self._call(self._consumer.update_consume_offset, queue, offset)
