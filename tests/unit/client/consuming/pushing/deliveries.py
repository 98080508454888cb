"""What the tests of both ways of delivery share."""

from __future__ import annotations

from apogeemq.client.consuming.incoming import ConsumedMessage
from apogeemq.client.consuming.pushing.delivery import Delivery
from apogeemq.client.consuming.pushing.ordered_delivery import OrderedDelivery
from apogeemq.client.consuming.queue_reader import QueueReader
from apogeemq.model.queues import MessageQueue
from tests.unit.client.consuming.messages import message

OTHER = MessageQueue("broker-a", 3, "T")


class Back:
    """Where messages are sent back to."""

    def __init__(self, *, works: bool = True, most: int = 16) -> None:
        self.works = works
        self.most = most
        self.sent: list[tuple[int, int]] = []
        self.anew: list[int] = []

    async def send_back(self, message: ConsumedMessage, delay_level: int) -> bool:
        self.sent.append((message.queue_offset, delay_level))
        return self.works

    async def send_anew(self, message: ConsumedMessage) -> bool:
        self.anew.append(message.queue_offset)
        return self.works


def ordered(back: Back | None = None) -> OrderedDelivery:
    return OrderedDelivery(back or Back(), suspend_seconds=0.0)


def put(delivery: Delivery, reader: QueueReader, *offsets: int) -> None:
    delivery.deliver(reader, reader.process.put([message(offset, queue=reader.queue) for offset in offsets]))


async def taken(delivery: Delivery) -> ConsumedMessage:
    found = await delivery.take()
    assert found is not None
    return found


def committed(reader: QueueReader) -> int:
    return reader._reading.offsets.known(reader.queue)
