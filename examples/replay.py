"""Read a topic again, from where you like: the program knows the queues and keeps the offsets itself."""

import asyncio
import sys

from apogeemq.client import Message, Producer, PullConsumer, PullStatus

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def main() -> None:
    async with Producer(NAME_SERVER, group="events") as producer:
        for number in range(10):
            await producer.send(Message("events", b"event %d" % number))

    count = 0
    async with PullConsumer(NAME_SERVER, group="audit") as consumer:
        for queue in await consumer.fetch_queues("events"):
            offset = await consumer.min_offset(queue)  # or: await consumer.offset_for_time(queue, time_ms)
            while (result := await consumer.pull(queue, offset)).status is PullStatus.FOUND:
                count += len(result.messages)
                offset = result.next_offset
    print(count, "events")


asyncio.run(main())
