"""What programs do with lite pull consumers."""

from __future__ import annotations

from typing import Any

from apogeemq.client import LitePullConsumer, LitePullOptions
from tests.unit.client.cluster import Cluster, named

FIRST = LitePullOptions(start_from="first", rebalance_seconds=1.0)


def options(**more: Any) -> LitePullOptions:
    return LitePullOptions(**{"start_from": "first", **more})


def lite(where: Cluster, name: str = "1", topic: str = "T", group: str = "G", **more: Any) -> LitePullConsumer:
    """A client of its own for each name."""
    given = {"options": FIRST, "client": named(name), **more}
    return LitePullConsumer(where.address, group=group, topic=topic, **given)


async def polled(consumer: LitePullConsumer, count: int, **more: Any) -> list[bytes]:
    """So many bodies, over as many polls as it takes; the test's own time limit is the only one."""
    bodies: list[bytes] = []
    while len(bodies) < count:
        messages = await consumer.poll(60, **{"max_messages": count - len(bodies), **more})
        bodies += (message.body for message in messages)
    return bodies


def numbers(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


def read_by(consumer: LitePullConsumer, topic: str = "T") -> set[int]:
    return {queue.queue_id for queue in consumer.assignment if queue.topic == topic}
