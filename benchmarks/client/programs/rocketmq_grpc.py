"""PyPI's `rocketmq-python-client`: gRPC, through Apache's proxy."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from rocketmq import (  # type: ignore[import-not-found]
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
)

from benchmarks.client.programs.commands import TAGS, Counted, Job, Measured, answer, jobs


def message_of(job: Job, body: bytes) -> Any:
    message = Message()
    message.topic, message.body, message.tag = job.topic, body, TAGS
    return message


def send(producer: Any, job: Job) -> dict[str, Any]:
    body, count = bytes(job.size), 0
    producer.send(message_of(job, body))
    room = threading.Semaphore(job.in_flight)
    measured = Measured()
    until = time.perf_counter() + job.seconds
    while time.perf_counter() < until:
        if job.in_flight == 1:
            producer.send(message_of(job, body))
        else:
            room.acquire()
            producer.send_async(message_of(job, body)).add_done_callback(lambda _: room.release())
        count += 1
    for _ in range(job.in_flight):
        room.acquire()
    return measured.stop(count)


class _Listener(MessageListener):  # type: ignore[misc]
    def __init__(self, job: Job) -> None:
        self._counted = Counted(job)
        self._lock = threading.Lock()
        self.done = threading.Event()
        self.result: dict[str, Any] = {}

    def consume(self, message: Any) -> Any:
        with self._lock:
            if not self._counted.is_done and self._counted.add():
                self.result = self._counted.result()
                self.done.set()
        return ConsumeResult.SUCCESS


def consume(configuration: Any, job: Job) -> dict[str, Any]:
    listener = _Listener(job)
    consumer = PushConsumer(configuration, job.group, listener, {job.topic: FilterExpression()})
    consumer.startup()
    listener.done.wait()
    consumer.shutdown()
    return listener.result


def main(proxy: str) -> None:
    configuration = ClientConfiguration(proxy, Credentials())
    producer = Producer(configuration, ("bench-send",))
    producer.startup()
    time.sleep(2)  # it learns of the topic's queues some time after its start
    for job in jobs():
        answer(send(producer, job) if job.do == "send" else consume(configuration, job))
    producer.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
