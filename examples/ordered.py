"""What happens to one order comes in order: its messages have a key, and the consumer takes one after the other."""

import asyncio
import sys

from apogeemq.client import Consumer, ConsumerOptions, Producer

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
STEPS = ("placed", "paid", "packed", "shipped")
ORDERS = ("A", "B", "C")


async def main() -> None:
    async with Producer(NAME_SERVER, group="order-steps") as producer:
        for step in STEPS:
            for order in ORDERS:
                await producer.send("order-steps", step.encode(), keys=[order], sharding_key=order)

    seen: dict[str, list[str]] = {order: [] for order in ORDERS}
    options = ConsumerOptions(start_from="first")
    async with Consumer(
        NAME_SERVER, group="order-history", topic="order-steps", ordered=True, options=options
    ) as consumer:
        async for message in consumer:
            (order,) = message.keys
            seen[order].append(message.body.decode())
            await message.ack()  # only now the next one of its queue comes
            if sum(map(len, seen.values())) == len(ORDERS) * len(STEPS):
                break
    for order, steps in seen.items():
        print(order, *steps)


asyncio.run(main())
