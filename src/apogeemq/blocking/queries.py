"""Questions about topics, offsets and stored messages, without `await`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apogeemq.blocking.twins import AsyncClient, BlockingClient
from apogeemq.client import queries
from apogeemq.model.queues import MessageQueue
from apogeemq.model.received import ReceivedMessage
from apogeemq.model.topics import AUTO_CREATE_TOPIC

END_OF_TIME_MS: Final = 2**63 - 1


class TopicQueries(BlockingClient):
    """A part of producers and consumers. Topics are named, and come back, without the namespace."""

    def __init__(self, client: AsyncClient, asked: queries.TopicQueries) -> None:
        super().__init__(client)
        self._asked = asked

    def create_topic(
        self,
        topic: str,
        queues: int = 4,
        *,
        like: str = AUTO_CREATE_TOPIC,
        attributes: Mapping[str, str] | None = None,
        system_flag: int = 0,
    ) -> None:
        """Make a topic on every master that serves the topic `like`; where there is one already, it is changed.

        `like` may be the name of a cluster. Succeeds when one broker has made it; name servers hear of it a moment
        later. Raises ConfigError for a name no topic may have, NoRoute when nobody serves `like`.
        """
        self._call(self._asked.create_topic, topic, queues, like=like, attributes=attributes, system_flag=system_flag)

    def list_topics(self) -> tuple[str, ...]:
        """Those of the namespace that a name server knows now, the system's among them, by name.

        Raises NoNameServer, or RemoteRefused.
        """
        return self._call(self._asked.list_topics)

    def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues a producer may send to, as a name server knows them now. Raises NoRoute."""
        return self._call(self._asked.publish_queues, topic)

    def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues a consumer may read, as a name server knows them now. Raises NoRoute."""
        return self._call(self._asked.subscribe_queues, topic)

    def search_offset(self, queue: MessageQueue, time_ms: int, *, is_upper: bool = False) -> int:
        """The offset of the first message stored at that time or later; of the last of several with `is_upper`."""
        return self._call(self._asked.search_offset, queue, time_ms, is_upper=is_upper)

    def min_offset(self, queue: MessageQueue) -> int:
        """Of the oldest message that is still there."""
        return self._call(self._asked.min_offset, queue)

    def max_offset(self, queue: MessageQueue) -> int:
        """The one the next message will have."""
        return self._call(self._asked.max_offset, queue)

    def earliest_message_time(self, queue: MessageQueue) -> int:
        """When the oldest message that is still there was stored, in ms; -1 when there is none."""
        return self._call(self._asked.earliest_message_time, queue)

    def broker_figures(self, queue: MessageQueue) -> dict[str, str]:
        """What the master of a queue says of itself, in its own words (Apache's runtime info)."""
        return self._call(self._asked.broker_figures, queue)

    def topic_attributes(self, queue: MessageQueue) -> dict[str, str]:
        """Those that the master of a queue has of its topic, such as `cleanup.policy`; most topics have none. Raises
        RemoteRefused where the broker is too old to tell."""
        return self._call(self._asked.topic_attributes, queue)

    def view_message(self, topic: str, message_id: str) -> ReceivedMessage | None:
        """By the id its producer gave it or by the one that says where it is stored; None when there is none."""
        return self._call(self._asked.view_message, topic, message_id)

    def query_messages(
        self, topic: str, key: str, *, max_count: int = 32, begin_ms: int = 0, end_ms: int = END_OF_TIME_MS
    ) -> list[ReceivedMessage]:
        """Messages with this key that were stored between these times, the oldest first, of all brokers of the topic.

        A broker that does not answer is left out when another has some; RemoteRefused, ConnectFailed … when none has.
        """
        return self._call(self._asked.query_messages, topic, key, max_count=max_count, begin_ms=begin_ms, end_ms=end_ms)
