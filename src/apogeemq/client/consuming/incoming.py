"""From the records of a pull to messages a program sees. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

from apogeemq.client.namespaces import without_namespace
from apogeemq.errors import ProtocolError
from apogeemq.model import properties as names
from apogeemq.model.flags import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from apogeemq.model.queues import MessageQueue
from apogeemq.model.received import ReceivedMessage
from apogeemq.model.subscriptions import SubscriptionData
from apogeemq.model.topics import RETRY_PREFIX
from apogeemq.protocol.batch import decode_batch
from apogeemq.protocol.compression import decompress
from apogeemq.protocol.record import Record, split_record

_BATCH: Final = INNER_BATCH | NEED_UNWRAP

HERE_AGAIN: Final = -(2**31)  # no level: it does not leave this consumer

# What becomes of a message: finished (None), or to come again after the delay of a level. What is given must be waited
# for, if anything is: most messages are finished at once.
Settle = Callable[["ConsumedMessage", int | None], Awaitable[None] | None]


class ConsumedMessage(ReceivedMessage):
    """A message of a consumer. It is given out again, here or elsewhere, until one of its two methods was called."""

    __slots__ = ("_settle",)

    _settle: Settle | None

    async def ack(self) -> None:
        """It has been dealt with. Calling it again does nothing."""
        settle, self._settle = self._settle, None
        if settle is not None:
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
    messages: list[ConsumedMessage] = []
    position = 0
    while position < len(data):
        head, body, _, properties = split_record(data, position)
        position += head[0]
        message = _message(head, body, properties, queue, namespace)
        if message.system_flag & _BATCH == _BATCH:
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
    messages = [
        ConsumedMessage(
            batch.topic,
            batch.queue,
            batch.queue_offset + number,
            body,
            properties,
            physical_offset=batch.physical_offset,
            store_host=batch.store_host,
            store_time_ms=batch.store_time_ms,
            born_host=batch.born_host,
            born_time_ms=batch.born_time_ms,
            reconsume_times=batch.reconsume_times,
            system_flag=batch.system_flag,
            flag=flag,
        )
        for number, (flag, body, properties) in enumerate(inner)
    ]
    for message in messages:
        message.settled_by(None)
    return messages


def message_of(record: Record, queue: MessageQueue, namespace: str = "") -> ConsumedMessage:
    return _message(record, record.body, record.properties, queue, namespace)


def _message(
    head: tuple[Any, ...], body: bytes, properties: bytes, queue: MessageQueue, namespace: str
) -> ConsumedMessage:
    """From the fields of a record up to its body, in their order.

    A body that is not what its flag says is given as it is, with the flag: one such message stops no queue.
    """
    system_flag: int = head[7]
    topic = queue.topic
    if system_flag & COMPRESSED:
        with contextlib.suppress(ProtocolError):
            body, system_flag = decompress(body, system_flag), system_flag & ~COMPRESSED
    message = ConsumedMessage(
        topic,
        queue,
        head[5],
        body,
        properties,
        physical_offset=head[6],
        store_host=head[11],
        store_time_ms=head[10],
        born_host=head[9],
        born_time_ms=head[8],
        reconsume_times=head[12],
        system_flag=system_flag,
        flag=head[4],
    )
    message.settled_by(None)
    if topic.startswith(RETRY_PREFIX):  # the program knows it by the topic it was first sent to
        message.topic = message.properties.get(names.RETRY_TOPIC, topic)
    if namespace:
        message.topic = without_namespace(message.topic, namespace)
    return message
