"""A message that is delivered later. Level 1 is one second, 3 ten seconds, 18 two hours: brokers have a table."""

import asyncio
import sys

from apogeemq.client import Consumer, ConsumerOptions, Producer

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def main() -> None:
    async with Producer(NAME_SERVER, group="reminders") as producer:
        await producer.send("reminders", b"now")
        await producer.send("reminders", b"in a second", delay_level=1)
    options = ConsumerOptions(start_from="first")
    async with Consumer(NAME_SERVER, group="reminded", topic="reminders", options=options) as consumer:
        async for message in consumer:
            print(message.body.decode())
            await message.ack()
            if message.body == b"in a second":
                break


asyncio.run(main())
