"""Make a topic, look at its queues, and find a message again."""

import asyncio
import sys

from apogeemq.client import Producer
from apogeemq.errors import NoRoute

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def main() -> None:
    async with Producer(NAME_SERVER, group="letters") as producer:
        await producer.create_topic("letters", queues=2)
        while True:
            try:
                queues = await producer.publish_queues("letters")
                break
            except NoRoute:  # the broker has made it; the name server hears of it a moment later
                await asyncio.sleep(0.1)
        print(len(queues), "queues")

        sent = await producer.send("letters", b"Dear all", keys=["greeting"], queue=queues[0])
        print("offsets", await producer.min_offset(sent.queue), "to", await producer.max_offset(sent.queue))
        found = await producer.view_message("letters", sent.message_id)
        print("by id:", found.body.decode() if found else "nothing")
        print("by key:", [message.body.decode() for message in await producer.query_messages("letters", "greeting")])


asyncio.run(main())
