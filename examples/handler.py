"""A function is called for every message, up to ten at once. What it fails to deal with comes again later."""

import asyncio
import contextlib
import sys

from apogeemq.client import ConsumedMessage, Consumer, ConsumerOptions

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
consumer = Consumer(NAME_SERVER, group="packing", topic="orders", options=ConsumerOptions(start_from="first"))


@consumer.on_message
async def pack(message: ConsumedMessage) -> None:
    await asyncio.sleep(0.01)  # packing takes its time
    print("packed", message.body.decode(), flush=True)
    # Returning acknowledges the message, raising lets it come again.


async def main() -> None:
    async with consumer:
        await consumer.run(concurrency=10)


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
