"""Print all messages of a topic, from the first, until Ctrl-C. Start it twice, and each gets a share."""

import asyncio
import contextlib
import sys

from apogeemq.client import Consumer, ConsumerOptions

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def main() -> None:
    options = ConsumerOptions(start_from="first")  # of a group that is new to the topic
    consumer = Consumer(NAME_SERVER, group="billing", topic="orders", tags="paid || shipped", options=options)
    async with consumer:
        async for message in consumer:
            print(message.keys, message.body.decode(), flush=True)
            await message.ack()


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
