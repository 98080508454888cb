"""A message nobody can deal with is given up: it goes to the dead letters of its group, where a person finds it."""

import asyncio
import sys

from apogeemq.client import Consumer, ConsumerOptions, Producer

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def main() -> None:
    async with Producer(NAME_SERVER, group="forms") as producer:
        await producer.send("forms", b"not a form", keys=["7"])
    options = ConsumerOptions(start_from="first", max_retries=3)
    async with Consumer(NAME_SERVER, group="readers", topic="forms", options=options) as consumer:
        async for message in consumer:
            # `retry()` lets it come again, later each time; after `max_retries` it is a dead letter, too.
            await message.retry(-1)
            print("given up:", message.body.decode(), "for the topic %DLQ%readers")
            break


asyncio.run(main())
