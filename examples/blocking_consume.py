"""Print all messages of a topic without asyncio, until Ctrl-C."""

import contextlib
import sys

from apogeemq.blocking import Consumer, ConsumerOptions

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
options = ConsumerOptions(start_from="first")

with (
    contextlib.suppress(KeyboardInterrupt),
    Consumer(NAME_SERVER, group="blocking-billing", topic="orders", tags="paid", options=options) as consumer,
):
    for message in consumer:
        print(message.keys, message.body.decode(), flush=True)
        message.ack()
