"""Send a message. The topic is made on the way, if the brokers allow that."""

import asyncio
import sys

from apogeemq.client import Producer

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def main() -> None:
    async with Producer(NAME_SERVER, group="shop") as producer:
        result = await producer.send("orders", b"a book", tags="paid", keys=["42"])
        print(f"{result.status.name}: {result.queue.broker_name}, queue {result.queue.queue_id}")


asyncio.run(main())
