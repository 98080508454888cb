"""Poll for messages, deal with them, and only then say so."""

import asyncio
import sys

from apogeemq.client import LitePullConsumer, LitePullOptions, Message, Producer

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def main() -> None:
    async with Producer(NAME_SERVER, group="lines") as producer:
        await producer.send_batch([Message("lines", b"line %d" % number) for number in range(10)])

    lines: list[str] = []
    options = LitePullOptions(start_from="first", auto_commit=False)
    async with LitePullConsumer(NAME_SERVER, group="files", topic="lines", options=options) as consumer:
        while len(lines) < 10:
            messages = await consumer.poll(timeout_seconds=5, max_messages=4)
            lines += [message.body.decode() for message in messages]
            await consumer.commit()  # after a crash before this, the same messages come again
    print(len(lines), "lines, the last one:", lines[-1])


asyncio.run(main())
