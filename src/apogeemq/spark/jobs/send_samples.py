"""`python -m apogeemq.spark.jobs.send_samples NAME_SERVER [TOPIC]`: the sample orders, sent to a topic.

Those of ten minutes, and one of an hour later, which ends every window of the others. Their keys are order ids, their
sharding keys customers: the orders of a customer are in one queue, in order.
"""

from __future__ import annotations

import sys
import time
from importlib.resources import files
from typing import Final

from apogeemq.blocking import Message, Producer
from apogeemq.errors import ApogeeError, ConnectFailed, NoNameServer, NoRoute
from apogeemq.spark.jobs.sample_orders import Order, closing_bell, order

SEED: Final = 1
FIRST_MS: Final = 1_794_787_200_000  # 2026-11-16T00:00:00Z
EVERY_MS: Final = 3_000
COUNT: Final = 200  # without the last one
CLOSING_MS: Final = FIRST_MS + COUNT * EVERY_MS + 3_600_000
TOPIC: Final = "orders"
_READY_SECONDS: Final = 15.0  # servers that have just been started need a moment
_LOOK_SECONDS: Final = 0.2


def sample_orders() -> list[Order]:
    """Those of `samples/orders.jsonl`, with what their messages carry."""
    closing = Order(f"{SEED:04d}-closing", "nobody", closing_bell(SEED, CLOSING_MS), False)
    return [*(order(SEED, number, FIRST_MS + number * EVERY_MS) for number in range(COUNT)), closing]


def sample_text(name: str) -> str:
    """A file of the folder `samples`."""
    return (files("apogeemq.spark.jobs") / "samples" / name).read_text()


def send_orders(name_server: str, topic: str = TOPIC) -> int:
    """Gives how many were sent; raises what the producer raises. Waits a while for servers that are about to start."""
    deadline = time.monotonic() + _READY_SECONDS
    orders = sample_orders()
    with Producer(name_server, "sample-orders") as producer:
        for made in orders:
            message = Message(topic, made.body, tags="order", keys=[made.order_id], sharding_key=made.customer)
            _send(producer, message, deadline)
    return len(orders)


def _send(producer: Producer, message: Message, deadline: float) -> None:
    while True:
        try:
            producer.send(message)
            return
        except (NoRoute, NoNameServer, ConnectFailed):  # nothing has been sent
            if time.monotonic() > deadline:
                raise
        time.sleep(_LOOK_SECONDS)


def main() -> int:
    if not 2 <= len(sys.argv) <= 3:
        print(__doc__, file=sys.stderr)
        return 2
    topic = sys.argv[2] if len(sys.argv) == 3 else TOPIC
    try:
        print(f"{send_orders(sys.argv[1], topic)} orders sent to {topic}")
    except ApogeeError as error:
        print(f"send_samples: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
