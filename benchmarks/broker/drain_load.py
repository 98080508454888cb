"""The reader of full queues, a process of its own: ``python -m benchmarks.broker.drain_load``.

Every queue has a connection and one pull in flight, as a consumer's has. All records are equally long and every pull
takes 32, so the pulls are encoded beforehand and an answer is right when it is as long as it must be.
"""

from __future__ import annotations

import os
import select
import sys
import time

import msgspec

from benchmarks import wire
from benchmarks.broker import asking, frames
from benchmarks.broker.frames import PULL_COUNT, QUEUES
from benchmarks.broker.windows import FramedWindow
from benchmarks.load import Result, percentile
from benchmarks.process import cpu_seconds


class Job(msgspec.Struct):
    """Read `per_queue` messages (a multiple of 32) of each queue of the topic, from the first on."""

    host: str
    port: int
    pid: int
    topic: str
    per_queue: int
    size: int
    queues: int = QUEUES


def run(job: Job) -> Result:
    """Pull everything once. Operations are messages."""
    with asking.consumer((job.host, job.port), job.topic, f"drain@{os.getpid()}"):
        windows = [_window(job, queue) for queue in range(job.queues)]
        own_before, cpu_before = time.process_time(), cpu_seconds(job.pid)
        started = time.perf_counter()
        _drain(windows, job.per_queue // PULL_COUNT)
        elapsed = time.perf_counter() - started
        cpu, own = cpu_seconds(job.pid) - cpu_before, time.process_time() - own_before
    for window in windows:
        window.check_drained()
    latencies = sorted(pair for window in windows for pair in window.latencies)
    messages = PULL_COUNT * sum(window.answered for window in windows)
    return Result(messages, elapsed, cpu, own, percentile(latencies, 0.50), percentile(latencies, 0.99))


def _window(job: Job, queue: int) -> FramedWindow:
    sock = wire.connect(job.host, job.port)
    ready = [
        frames.pull_frame(job.topic, queue, offset, opaque=wire.FIRST_OPAQUE + offset)
        for offset in range(0, job.per_queue, PULL_COUNT)
    ]
    answer = wire.ask(sock, ready[len(ready) // 2])
    assert [len(body) for body in frames.bodies_of(answer.body)] == [8] * PULL_COUNT, answer.header
    sock.settimeout(None)
    return FramedWindow(sock, ready, 1, answer.size)


def _drain(windows: list[FramedWindow], pulls: int) -> None:
    by_number = {window.sock.fileno(): window for window in windows}
    poll = select.epoll()
    for number, window in by_number.items():
        poll.register(number, select.EPOLLIN)
        window.start()
    unfinished = len(windows)
    while unfinished:
        for number, _ in poll.poll():
            window = by_number[number]
            if window.receive():
                if window.answered < pulls:
                    window.send(1)
                else:
                    unfinished -= 1
    poll.close()


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    sys.stdout.buffer.write(msgspec.json.encode(run(job)))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
