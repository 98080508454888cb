"""What programs do with consumers, and the messages they find."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from apogeemq.client import ConsumedMessage, Consumer, Producer
from tests.unit.client.cluster import Cluster, named


async def fill(where: Cluster, topic: str, count: int, queues: int = 4, *, first: int = 0, **more: Any) -> None:
    """Messages 0, 1, 2 … in turn to the queues of a topic, which is made when there is none."""
    if where.state.topics.get(topic) is None:
        await where.make_topic(topic, queues)
    async with Producer(where.address, group="FILL", client=named("fill")) as producer:
        for number in range(first, first + count):
            await producer.send(topic, b"%d" % number, queue=where.queue(topic, number % queues), **more)


async def taken(consumer: Consumer, count: int) -> list[ConsumedMessage]:
    return [await anext(consumer) for _ in range(count)]


async def settled(*consumers: Consumer) -> None:
    for consumer in consumers:
        assert consumer._membership is not None
        await consumer._membership.is_settled.wait()


def queues_of(consumer: Consumer, topic: str = "T") -> set[int]:
    assert consumer._membership is not None
    return {queue.queue_id for queue in consumer._membership.readers if queue.topic == topic}


class Log:
    """A consumer that runs its handler in the background and notes what comes."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.bodies: list[bytes] = []
        self.messages: list[ConsumedMessage] = []
        consumer.on_message(self._note)

    async def _note(self, message: ConsumedMessage) -> None:
        self.bodies.append(message.body)
        self.messages.append(message)


@asynccontextmanager
async def handling(consumer: Consumer, **run: int) -> AsyncIterator[Log]:
    log = Log(consumer)
    async with consumer:
        running = asyncio.ensure_future(consumer.run(**run))
        yield log
    await running
