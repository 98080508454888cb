"""A plain function is called for every message, in up to four threads. Ctrl-C lets those at work finish."""

import contextlib
import sys
import threading

from apogeemq.blocking import ConsumedMessage, Consumer, ConsumerOptions

NAME_SERVER = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
consumer = Consumer(NAME_SERVER, group="blocking-packing", topic="orders", options=ConsumerOptions(start_from="first"))


@consumer.on_message
def pack(message: ConsumedMessage) -> None:
    # Whole lines: print writes its end by itself, and another thread may come in between.
    print(f"packed {message.body.decode()} in {threading.current_thread().name}\n", end="", flush=True)


with contextlib.suppress(KeyboardInterrupt), consumer:
    consumer.run(concurrency=4)
