"""From the records of a pull to messages a program sees. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from apogeemq.client.namespaces import without_namespace
from apogeemq.errors import ProtocolError
from apogeemq.model import properties as names
from apogeemq.model.flags import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from apogeemq.model.queues import MessageQueue
from apogeemq.model.received import Origin, ReceivedMessage
from apogeemq.model.subscriptions import SubscriptionData
from apogeemq.model.topics import RETRY_PREFIX
from apogeemq.protocol.batch import decode_batch
from apogeemq.protocol.compression import decompress
from apogeemq.protocol.record import Record, encode_record_head, outline_record, unpack_record_head

_BATCH: Final = INNER_BATCH | NEED_UNWRAP

HERE_AGAIN: Final = -(2**31)  # no level: it does not leave this consumer

# What becomes of a message: finished (None), or to come again after the delay of a level. What is given must be waited
# for, if anything is: most messages are finished at once.
Settle = Callable[["ConsumedMessage", int | None], Awaitable[None] | None]


class Settler:
    """What most messages are settled by: a `Settle` that finishes a message without being asked what becomes of it."""

    __slots__ = ()

    def __call__(self, message: ConsumedMessage, delay_level: int | None) -> Awaitable[None] | None:
        raise NotImplementedError

    def finish(self, message: ConsumedMessage) -> None:
        raise NotImplementedError


class ConsumedMessage(ReceivedMessage):
    """A message of a consumer. It is given out again, here or elsewhere, until one of its two methods was called."""

    __slots__ = ("_record_head", "_settle")

    def __init__(
        self,
        topic: str,
        queue: MessageQueue,
        queue_offset: int,
        body: bytes,
        encoded_properties: bytes,
        reconsume_times: int,
        system_flag: int,
        flag: int,
        record_head: bytes,
    ) -> None:
        """`record_head` is the record up to its body."""
        super().__init__(topic, queue, queue_offset, body, encoded_properties, reconsume_times, system_flag, flag)
        self._record_head = record_head
        self._settle: Settle | None = None

    def _read_origin(self) -> Origin:
        head = unpack_record_head(self._record_head)
        return Origin(head[6], head[8], head[9], head[10], head[11])

    async def ack(self) -> None:
        """It has been dealt with. Calling it again does nothing."""
        settle, self._settle = self._settle, None
        if isinstance(settle, Settler):
            settle.finish(self)
        elif settle is not None:
            end = settle(self, None)
            if end is not None:
                await end

    async def retry(self, delay_level: int = 0) -> None:
        """It could not be dealt with: let it come again later, after a delay that grows unless a level is given.

        Level -1 gives it up: it goes to the group's dead letters. Of an ordered group, it comes again soon and the
        next ones of its queue wait; other levels do not count there.
        """
        settle = self.unsettle()
        end = settle(self, delay_level) if settle is not None else None
        if end is not None:
            await end

    @property
    def is_settled(self) -> bool:
        return self._settle is None

    def settled_by(self, settle: Settle | None) -> None:
        """Set by whoever hands the message out."""
        self._settle = settle

    def unsettle(self) -> Settle | None:
        """From now on nobody else settles it; None when somebody has."""
        settle, self._settle = self._settle, None
        return settle


def messages_of(
    data: bytes,
    queue: MessageQueue,
    subscription: SubscriptionData | None,
    namespace: str = "",
    *,
    first_offset: int = 0,
) -> list[ConsumedMessage]:
    """The messages of a pull that the subscription wants: a broker compares hashes of tags, we the tags themselves.

    A record that holds a batch is unwrapped; of its messages those before `first_offset` have been here already.
    Raises ProtocolError.
    """
    wanted = subscription.tags_set if subscription is not None else frozenset()
    has_other_name = bool(namespace) or queue.topic.startswith(RETRY_PREFIX)
    messages: list[ConsumedMessage] = []
    position, end = 0, len(data)
    while position < end:
        outline, body_at, properties_at = outline_record(data, position)
        size, _, flag, queue_offset, system_flag, reconsume_times, body_length = outline
        body_end, after = body_at + body_length, position + size
        body = data[body_at:body_end]
        if system_flag & COMPRESSED:
            body, system_flag = _decompressed(body, system_flag)
        message = ConsumedMessage(
            *(queue.topic, queue, queue_offset, body, data[properties_at:after], reconsume_times, system_flag, flag),
            data[position:body_at],
        )
        position = after
        if has_other_name:
            message.topic = _name_for_programs(message, namespace)
        if system_flag & _BATCH == _BATCH:
            messages += (
                inner
                for inner in _unwrapped(message)
                if inner.queue_offset >= first_offset and (not wanted or inner.tags in wanted)
            )
        elif not wanted or message.tags in wanted:
            messages.append(message)
    return messages


def _unwrapped(batch: ConsumedMessage) -> list[ConsumedMessage]:
    """The messages of a batch that its broker keeps as one record; as it is, when it is none."""
    try:
        inner = decode_batch(batch.body)
    except ProtocolError:
        return [batch]
    return [
        ConsumedMessage(
            batch.topic,
            batch.queue,
            batch.queue_offset + number,
            body,
            properties,
            batch.reconsume_times,
            batch.system_flag,
            flag,
            batch._record_head,
        )
        for number, (flag, body, properties) in enumerate(inner)
    ]


def message_of(record: Record, queue: MessageQueue, namespace: str = "") -> ConsumedMessage:
    body, system_flag = record.body, record.system_flag
    if system_flag & COMPRESSED:
        body, system_flag = _decompressed(body, system_flag)
    message = ConsumedMessage(
        queue.topic,
        queue,
        record.queue_offset,
        body,
        record.properties,
        record.reconsume_times,
        system_flag,
        record.flag,
        encode_record_head(record),
    )
    message.topic = _name_for_programs(message, namespace)
    return message


def _decompressed(body: bytes, system_flag: int) -> tuple[bytes, int]:
    """A body that is not what its flag says is given as it is, with the flag: one such message stops no queue."""
    try:
        return decompress(body, system_flag), system_flag & ~COMPRESSED
    except ProtocolError:
        return body, system_flag


def _name_for_programs(message: ConsumedMessage, namespace: str) -> str:
    """A program knows a message that comes again by the topic it was first sent to, and no namespace."""
    topic = message.topic
    if topic.startswith(RETRY_PREFIX):
        topic = message.properties.get(names.RETRY_TOPIC, topic)
    return without_namespace(topic, namespace) if namespace else topic
