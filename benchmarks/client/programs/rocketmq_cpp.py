"""PyPI's `rocketmq`: ctypes around Apache's C++ client. It blocks, so that each message in flight has a thread."""

from __future__ import annotations

import sys
import threading
from typing import Any

from rocketmq.client import Message, Producer, PushConsumer  # type: ignore[import-not-found]

from benchmarks.client.programs.commands import TAGS, Counted, Job, answer, in_threads, jobs


def send(producer: Any, job: Job) -> dict[str, Any]:
    body = bytes(job.size).replace(b"\0", b"x")  # bodies are C strings here

    def one() -> None:
        message = Message(job.topic)
        message.set_tags(TAGS)
        message.set_body(body)
        producer.send_sync(message)

    return in_threads(job, one)


def consume(name_server: str, job: Job) -> dict[str, Any]:
    counted, done = Counted(job), threading.Event()
    results: list[dict[str, Any]] = []

    def on_message(message: Any) -> None:
        if counted.is_done:
            return
        message.body  # noqa: B018  other clients have read it by now
        if counted.add():
            results.append(counted.result())
            done.set()

    consumer = PushConsumer(job.group)
    consumer.set_namesrv_addr(name_server)
    consumer.set_thread_count(1)  # Python runs one at a time; more only wait for each other
    consumer.subscribe(job.topic, on_message)
    consumer.start()
    done.wait()
    consumer.shutdown()
    return results[0]


def main(name_server: str) -> None:
    producer = Producer("bench-cpp-producers")
    producer.set_namesrv_addr(name_server)
    producer.start()
    for job in jobs():
        answer(send(producer, job) if job.do == "send" else consume(name_server, job))
    producer.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
