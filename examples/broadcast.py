"""Every consumer of the group gets every message, as caches that must forget something need it."""

import asyncio
import sys
import tempfile

from apogeemq.client import ClientOptions, Consumer, ConsumerOptions, Producer

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def listen(name: str, folder: str) -> None:
    # How far it is, such a consumer keeps itself, in a file of its instance: the name must be the same the next time.
    options = ConsumerOptions(is_broadcasting=True, start_from="first", local_offset_dir=folder)
    consumer = Consumer(
        NAME_SERVER, group="caches", topic="forget", options=options, client=ClientOptions(instance_name=name)
    )
    async with consumer:
        async for message in consumer:
            print(name, "forgets", message.body.decode())
            await message.ack()
            break


async def main() -> None:
    async with Producer(NAME_SERVER, group="prices") as producer:
        await producer.send("forget", b"price 42")
    with tempfile.TemporaryDirectory() as folder:
        await asyncio.gather(listen("one", folder), listen("two", folder))


asyncio.run(main())
