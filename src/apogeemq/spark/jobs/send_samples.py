"""`python -m apogeemq.spark.jobs.send_samples NAME_SERVER [TOPIC]`: the sample orders, sent to a topic.

Their keys are order ids, their sharding keys customers: the orders of a customer are in one queue, in order.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from typing import Final

from apogeemq.blocking import Message, Producer
from apogeemq.errors import ApogeeError
from apogeemq.spark.jobs.sample_orders import Order, order

SEED: Final = 1
FIRST_MS: Final = 1_794_787_200_000  # 2026-11-16T00:00:00Z
EVERY_MS: Final = 300
COUNT: Final = 200
TOPIC: Final = "orders"


def sample_orders() -> list[Order]:
    """Those of `samples/orders.jsonl`, with what their messages carry."""
    return [order(SEED, number, FIRST_MS + number * EVERY_MS) for number in range(COUNT)]


def sample_text(name: str) -> str:
    """A file of the folder `samples`."""
    return (files("apogeemq.spark.jobs") / "samples" / name).read_text()


def send_orders(name_server: str, topic: str = TOPIC) -> int:
    """Gives how many were sent; raises what the producer raises."""
    with Producer(name_server, "sample-orders") as producer:
        for made in sample_orders():
            message = Message(topic, made.body, tags="order", keys=[made.order_id], sharding_key=made.customer)
            producer.send(message)
    return COUNT


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
