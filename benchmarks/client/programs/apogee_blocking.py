"""Our client without `await`: each message in flight has a thread."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from apogeemq.blocking import Producer
from benchmarks.client.programs.commands import TAGS, Job, Measured, answer, jobs


def send(name_server: str, job: Job) -> dict[str, Any]:
    body = bytes(job.size)
    counts = [0] * job.in_flight

    def one_after_the_other(index: int, until: float) -> None:
        while time.perf_counter() < until:
            producer.send(job.topic, body, tags=TAGS)
            counts[index] += 1

    with Producer(name_server, group="bench-blocking-producers") as producer:
        one_after_the_other(0, time.perf_counter() + 0.2)
        counts[0] = 0
        measured = Measured()
        until = time.perf_counter() + job.seconds
        threads = [threading.Thread(target=one_after_the_other, args=(index, until)) for index in range(job.in_flight)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return measured.stop(sum(counts))


def main(name_server: str) -> None:
    for job in jobs():
        answer(send(name_server, job))


if __name__ == "__main__":
    main(sys.argv[1])
