"""All messages of a topic, read without Spark."""

from __future__ import annotations

from apogeemq.blocking import PullConsumer, PullOptions, ReceivedMessage
from tests.spark.worlds import World


def messages_of(world: World, topic: str) -> list[ReceivedMessage]:
    """Queue by queue, each in its order."""
    found: list[ReceivedMessage] = []
    options = PullOptions(joins_group=False)
    with PullConsumer(world.address, world.name("reader"), options=options) as consumer:
        for queue in consumer.fetch_queues(topic):
            position, end = consumer.min_offset(queue), consumer.max_offset(queue)
            while position < end:
                pulled = consumer.pull(queue, position, 32)
                found += pulled.messages
                position = pulled.next_offset
    return found
