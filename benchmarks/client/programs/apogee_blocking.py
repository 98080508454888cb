"""Our client without `await`: each message in flight has a thread."""

from __future__ import annotations

import sys
from typing import Any

from apogeemq.blocking import Producer
from benchmarks.client.programs.commands import TAGS, Job, answer, in_threads, jobs


def send(name_server: str, job: Job) -> dict[str, Any]:
    body = bytes(job.size)
    with Producer(name_server, group="bench-blocking-producers") as producer:
        return in_threads(job, lambda: producer.send(job.topic, body, tags=TAGS))


def main(name_server: str) -> None:
    for job in jobs():
        answer(send(name_server, job))


if __name__ == "__main__":
    main(sys.argv[1])
