"""The closed-loop sender, a process of its own: ``python -m benchmarks.broker.send_load``.

Some thousands of frames are encoded before the clock starts, every message with a unique key of its own. Afterwards
the broker must hold as many messages as it acknowledged.
"""

from __future__ import annotations

import itertools
import os
import sys
import time

import msgspec

from benchmarks import memory, wire
from benchmarks.broker import asking, frames
from benchmarks.broker.frames import Encoder
from benchmarks.broker.windows import FramedWindow
from benchmarks.load import Result, drive, percentile
from benchmarks.process import cpu_seconds

_FRAMES = 8_192
"""Of all connections together; a batch counts as one frame, but see below."""
_MESSAGES_IN_BATCHES = 32_768


class Job(msgspec.Struct):
    """What to send, to whom, and for how long. With `batch` above 1 every request carries so many messages."""

    host: str
    port: int
    pid: int
    seconds: float
    size: int
    connections: int = 16
    in_flight: int = 1
    batch: int = 1
    topics: int = 1
    keyed: bool = False


def run(job: Job) -> Result:
    """Set up, load for `job.seconds`, drain, check. Operations are messages."""
    topics = [frames.topic_name(index) for index in range(job.topics)]
    asker = wire.connect(job.host, job.port)
    before = asking.settled(asker, topics)
    windows = _windows(job)
    memory.have_ready()
    own_before, cpu_before = time.process_time(), cpu_seconds(job.pid)
    started = time.perf_counter()
    drive(windows, started + job.seconds)
    elapsed = time.perf_counter() - started
    cpu, own = cpu_seconds(job.pid) - cpu_before, time.process_time() - own_before
    messages = job.batch * sum(window.answered for window in windows)
    for window in windows:
        window.check_drained()
    asking.wait_until_stored(asker, topics, before + job.batch * job.connections + messages)
    latencies = sorted(pair for window in windows for pair in window.latencies)
    return Result(messages, elapsed, cpu, own, percentile(latencies, 0.50), percentile(latencies, 0.99))


def _windows(job: Job) -> list[FramedWindow]:
    encoder = Encoder(keyed=job.keyed)
    count = (_FRAMES if job.batch == 1 else _MESSAGES_IN_BATCHES // job.batch) // job.connections
    windows = []
    for number in range(job.connections):
        sock = wire.connect(job.host, job.port)
        ready = _frames(encoder, job, number * count, max(count, 2 * job.in_flight))
        first = wire.ask(sock, ready[0])  # one more message (or batch) than the window will count
        sock.settimeout(None)
        windows.append(FramedWindow(sock, ready, job.in_flight, first.size))
    return windows


def _frames(encoder: Encoder, job: Job, first: int, count: int) -> list[bytes]:
    places = frames.spread(job.topics, first=first, size=job.size)
    if job.batch == 1:
        return [encoder.send(key) for key in itertools.islice(places, count)]
    return [
        encoder.batch([place._replace(number=place.number * job.batch + inner) for inner in range(job.batch)])
        for place in itertools.islice(places, count)
    ]


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    sys.stdout.buffer.write(msgspec.json.encode(run(job)))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
