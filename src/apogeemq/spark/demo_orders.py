"""Both ends of the demonstration's pipeline: who sends the orders, and who reads what became of them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from decimal import Decimal
from typing import Final

import msgspec

from apogeemq.blocking import Message, Producer, ProducerOptions, PullConsumer, PullOptions
from apogeemq.client import MessageQueue, SendResult
from apogeemq.errors import NoRoute
from apogeemq.spark.jobs.sample_orders import closing_bell, order

_TICK_SECONDS: Final = 0.05
_ROUTE_SECONDS: Final = 15.0
# Later than any window that is open when the bell rings, and its lateness.
_BELL_AHEAD_MS: Final = 3_600_000
_PULL_AT_ONCE: Final = 512


class OrderProducer:
    """Sends orders in a thread of its own, so many a second, from `start` to `stop`."""

    def __init__(self, name_server: str, topic: str, per_second: float, seed: int) -> None:
        self._topic = topic
        self._per_second = per_second
        self._seed = seed
        self._producer = Producer(name_server, "demo-orders", options=ProducerOptions(linger_seconds=0.005))
        self._is_over = threading.Event()
        self._counting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="orders", daemon=True)
        self.produced = 0  # a broker has said that it has them
        self.broken = 0  # among these
        self.bells = 0  # messages in the topic that are no orders
        self.failures: list[str] = []

    def start(self, topics: Mapping[str, int]) -> None:
        """Makes these topics, with so many queues each, and begins. NoRoute when they cannot be had."""
        self._producer.start()
        for topic, queues in topics.items():
            self._producer.create_topic(topic, queues)
        for topic, queues in topics.items():
            self._await_route(topic, queues)
        self._thread.start()

    def stop(self) -> None:
        """Returns when every order has its answer. May be called twice."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()

    def ring(self) -> None:
        """Ends all windows: nothing is counted before its window has ended. After `stop`, once."""
        body = closing_bell(self._seed, _now_ms() + _BELL_AHEAD_MS)
        self._producer.send(self._topic, body, tags="bell")
        self.bells += 1

    def close(self) -> None:
        self.stop()
        self._producer.stop()

    def _await_route(self, topic: str, queues: int) -> None:
        """The name server hears of a new topic a moment later."""
        deadline = time.monotonic() + _ROUTE_SECONDS
        while True:
            try:
                if len(self._producer.publish_queues(topic)) == queues or time.monotonic() > deadline:
                    return
            except NoRoute:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_TICK_SECONDS)

    def _run(self) -> None:
        number, began = 0, time.monotonic()
        try:
            while not self._is_over.wait(_TICK_SECONDS):
                due = int((time.monotonic() - began) * self._per_second)
                for place in range(number, due):
                    self._send(place)
                number = max(number, due)
            self._producer.flush()
        except Exception as error:  # shown to the person, who sees the account fail
            self.failures.append(str(error))

    def _send(self, number: int) -> None:
        made = order(self._seed, number, _now_ms())
        message = Message(self._topic, made.body, tags="order", keys=[made.order_id])

        def answered(result: Future[SendResult]) -> None:
            error = result.exception()
            with self._counting:
                if error is not None:
                    self.failures.append(f"{made.order_id}: {error}")
                else:
                    self.produced += 1
                    self.broken += made.is_broken

        self._producer.send_soon(message).add_done_callback(answered)


class ProductRevenue(msgspec.Struct):
    """All windows of a product that have ended."""

    orders: int = 0
    items: int = 0
    revenue: Decimal = Decimal()
    last_window: str = ""
    last_revenue: Decimal = Decimal()


class TopicFigures(msgspec.Struct, frozen=True):
    name: str
    brokers: tuple[str, ...]
    queues: int
    messages: int


class RevenueReader:
    """Reads a topic of revenues as any program would, and counts the messages of others."""

    def __init__(self, name_server: str, topic: str) -> None:
        self._topic = topic
        self._consumer = PullConsumer(name_server, "demo-table", options=PullOptions(joins_group=False))
        self._positions: dict[MessageQueue, int] = {}
        self.products: dict[str, ProductRevenue] = {}
        self.windows = 0

    def start(self) -> None:
        self._consumer.start()

    def close(self) -> None:
        self._consumer.stop()

    @property
    def orders(self) -> int:
        return sum(product.orders for product in self.products.values())

    def read_new(self) -> None:
        for queue in self._consumer.fetch_queues(self._topic):
            position, end = self._positions.get(queue, 0), self._consumer.max_offset(queue)
            while position < end:
                pulled = self._consumer.pull(queue, position, _PULL_AT_ONCE)
                for message in pulled.messages:
                    self._take(message.body)
                # At once: a later question may fail, and what has been taken must not be taken again.
                self._positions[queue] = position = max(pulled.next_offset, position + 1)

    def topic(self, name: str) -> TopicFigures:
        queues = self._consumer.fetch_queues(name)
        messages = sum(self._consumer.max_offset(queue) - self._consumer.min_offset(queue) for queue in queues)
        return TopicFigures(name, tuple(sorted({queue.broker_name for queue in queues})), len(queues), messages)

    def _take(self, body: bytes) -> None:
        found = json.loads(body, parse_float=Decimal)
        product = self.products.setdefault(found["product"], ProductRevenue())
        self.windows += 1
        product.orders += found["orders"]
        product.items += found["items"]
        product.revenue += Decimal(found["revenue"])
        if found["window_end"] > product.last_window:
            product.last_window, product.last_revenue = found["window_end"], Decimal(found["revenue"])


def _now_ms() -> int:
    return int(time.time() * 1000)
