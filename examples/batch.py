"""Many messages: a batch by hand, batches that make themselves, and a bounded number on their way at once."""

import asyncio
import sys

from apogeemq.client import Message, Producer, ProducerOptions

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def main() -> None:
    messages = [Message("readings", b"%d" % number) for number in range(1_000)]

    # One request: the broker takes all of them or none.
    async with Producer(NAME_SERVER, group="sensors") as producer:
        result = await producer.send_batch(messages[:100])
        print("one batch:", result.status.name)

    # `send_soon` waits for no answer. Messages that come within 5 ms share a request, up to 32 KiB.
    async with Producer(NAME_SERVER, group="sensors", options=ProducerOptions(linger_seconds=0.005)) as producer:
        sending = [await producer.send_soon(message) for message in messages]
        results = await asyncio.gather(*sending)
        print(len(results), "messages, each with its own result:", {result.status.name for result in results})


asyncio.run(main())
