"""A consumed message whose methods need no `await`."""

from __future__ import annotations

from apogeemq.blocking.twins import BlockingClient
from apogeemq.client.consuming.incoming import ConsumedMessage as AsyncMessage
from apogeemq.model.queues import MessageQueue


class ConsumedMessage:
    """A message of a consumer. It is given out again, here or elsewhere, until one of its two methods was called."""

    __slots__ = ("_consumer", "_is_settled", "_message")

    def __init__(self, message: AsyncMessage, consumer: BlockingClient) -> None:
        self._message = message
        self._consumer = consumer
        self._is_settled = False

    def ack(self) -> None:
        """It has been dealt with. Calling it again does nothing."""
        self._is_settled = True
        self._consumer._begin(self._message.ack)  # no broker is asked: every later call comes after it

    def retry(self, delay_level: int = 0) -> None:
        """It could not be dealt with: let it come again later, after a delay that grows unless a level is given."""
        self._is_settled = True
        self._consumer._call(self._message.retry, delay_level)

    @property
    def is_settled(self) -> bool:
        return self._is_settled or self._message.is_settled

    @property
    def topic(self) -> str:
        return self._message.topic

    @property
    def body(self) -> bytes:
        return self._message.body

    @property
    def tags(self) -> str:
        return self._message.tags

    @property
    def keys(self) -> list[str]:
        return self._message.keys

    @property
    def properties(self) -> dict[str, str]:
        return self._message.properties

    @property
    def message_id(self) -> str:
        """What its producer called it; where it is, when it was not called anything."""
        return self._message.message_id

    @property
    def offset_id(self) -> str:
        """Where it is stored."""
        return self._message.offset_id

    @property
    def queue(self) -> MessageQueue:
        return self._message.queue

    @property
    def queue_offset(self) -> int:
        return self._message.queue_offset

    @property
    def physical_offset(self) -> int:
        return self._message.physical_offset

    @property
    def reconsume_times(self) -> int:
        return self._message.reconsume_times

    @property
    def born_time_ms(self) -> int:
        return self._message.born_time_ms

    @property
    def born_host(self) -> bytes:
        return self._message.born_host

    @property
    def store_time_ms(self) -> int:
        return self._message.store_time_ms

    @property
    def store_host(self) -> bytes:
        return self._message.store_host

    @property
    def system_flag(self) -> int:
        return self._message.system_flag

    @property
    def flag(self) -> int:
        return self._message.flag

    def __repr__(self) -> str:
        return repr(self._message)
