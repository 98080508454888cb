"""Producer and consumer at a fixed rate, a process of its own: ``python -m benchmarks.broker.latency_load``.

Messages leave at times fixed beforehand, whatever the broker does. Each carries the time it was due; its latency ends
when the consumer, which holds one pull a queue at the broker, has it.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import random
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator

import msgspec

from benchmarks import wire
from benchmarks.broker import asking, frames
from benchmarks.broker.frames import FOUND, NOT_FOUND, QUEUES, Encoder
from benchmarks.load import percentile
from benchmarks.process import cpu_seconds

_PR_SET_TIMERSLACK = 29
_TIMEOUT_S = 30.0
_LENGTHS = struct.Struct(">ii")


class Job(msgspec.Struct):
    """Messages of `size` bytes at a mean rate per second; one connection for the consumer, several for producers."""

    host: str
    port: int
    pid: int
    topic: str
    seconds: float
    rate: float
    size: int = 128
    producers: int = 4


class Result(msgspec.Struct):
    """Latencies in µs from when a message was due, to the consumer and to the producer's acknowledgement."""

    messages: int
    seconds: float
    server_cpu: float
    p50_us: float
    p99_us: float
    p999_us: float
    acknowledged_p50_us: float
    acknowledged_p99_us: float
    late_p99_us: float


class Line:
    """A socket that is read frame by frame."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray()

    def frames(self) -> Iterator[bytes]:
        part = self.sock.recv(1 << 18)
        if not part:
            raise ConnectionError("the server closed the connection under load")
        self._buffer += part
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < end:
                return
            yield bytes(self._buffer[4:end])
            del self._buffer[:end]


class Producer(Line):
    """Sends ready frames with the due time written over the beginning of the body."""

    def __init__(self, job: Job, number: int) -> None:
        super().__init__(wire.connect(job.host, job.port))
        encoder, places = Encoder(), frames.spread(1, first=number * 1_000, size=job.size)
        self._ready = itertools.cycle(
            [bytearray(encoder.send(key._replace(topic=job.topic))) for key in itertools.islice(places, 1_000)]
        )
        self._body = -job.size
        self._due: deque[int] = deque()

    def send(self, due_ns: int) -> None:
        frame = next(self._ready)
        struct.pack_into(">q", frame, len(frame) + self._body, due_ns)
        self._due.append(due_ns)
        self.sock.sendall(frame)

    def acknowledged(self) -> list[int]:
        """Due times of the messages acknowledged by what has come."""
        due = []
        for frame in self.frames():
            if b'"code":0,' not in frame[:30]:
                raise RuntimeError(f"the server answered {frame!r}")
            due.append(self._due.popleft())
        return due


class Consumer(Line):
    """Holds one pull a queue at the broker, all on one connection, and renews each at once."""

    def __init__(self, job: Job) -> None:
        super().__init__(wire.connect(job.host, job.port))
        self._topic = job.topic
        for queue in range(QUEUES):
            answer = wire.ask(self.sock, frames.max_offset_frame(job.topic, queue))
            self._pull(queue, int(answer.header["extFields"]["offset"]))

    def received(self) -> list[int]:
        """Due times of the messages that have come."""
        due: list[int] = []
        for frame in self.frames():
            header_size = int.from_bytes(frame[:4], "big") & 0xFFFFFF
            header = json.loads(frame[4 : 4 + header_size])
            if header["code"] not in (FOUND, NOT_FOUND):
                raise RuntimeError(f"the server answered {header}")
            self._pull(header["opaque"] - wire.FIRST_OPAQUE, int(header["extFields"]["nextBeginOffset"]))
            due += [int.from_bytes(body, "big") for body in frames.bodies_of(frame[4 + header_size :])]
        return due

    def _pull(self, queue: int, offset: int) -> None:
        self.sock.sendall(frames.pull_frame(self._topic, queue, offset, opaque=wire.FIRST_OPAQUE + queue))


def run(job: Job) -> Result:
    """Send on time, note when each message and each acknowledgement came."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    with asking.consumer((job.host, job.port), job.topic, f"latency@{os.getpid()}"):
        consumer = Consumer(job)
        producers = [Producer(job, number) for number in range(job.producers)]
        cpu_before, started = cpu_seconds(job.pid), time.perf_counter_ns()
        taken = _Taken()
        _drive(consumer, producers, _due_times(job, started + 10_000_000), taken)
        elapsed, cpu = (time.perf_counter_ns() - started) / 1e9, cpu_seconds(job.pid) - cpu_before
    return Result(
        messages=len(taken.latencies),
        seconds=elapsed,
        server_cpu=cpu,
        p50_us=_share(taken.latencies, 0.50),
        p99_us=_share(taken.latencies, 0.99),
        p999_us=_share(taken.latencies, 0.999),
        acknowledged_p50_us=_share(taken.acknowledged, 0.50),
        acknowledged_p99_us=_share(taken.acknowledged, 0.99),
        late_p99_us=_share(taken.late, 0.99),
    )


class _Taken:
    """Nanoseconds from when a message was due until it was consumed, acknowledged, sent."""

    def __init__(self) -> None:
        self.latencies: list[int] = []
        self.acknowledged: list[int] = []
        self.late: list[int] = []


def _share(nanoseconds: list[int], share: float) -> float:
    return percentile(sorted((value, 1) for value in nanoseconds), share)


def _due_times(job: Job, first_ns: int) -> list[int]:
    """Independent arrivals (exponential gaps) from a fixed seed: both brokers get the very same schedule."""
    source = random.Random(20260101)
    times, now = [], 0.0
    while now < job.seconds:
        times.append(first_ns + round(now * 1e9))
        now += source.expovariate(job.rate)
    return times


def _drive(consumer: Consumer, producers: list[Producer], due: list[int], taken: _Taken) -> None:
    by_socket = {producer.sock: producer for producer in producers}
    sockets = [consumer.sock, *by_socket]
    sent, count = 0, len(due)
    while len(taken.latencies) < count or len(taken.acknowledged) < count:
        now = time.perf_counter_ns()
        while sent < count and due[sent] <= now:
            producers[sent % len(producers)].send(due[sent])
            taken.late.append(now - due[sent])
            sent += 1
        wait_s = (due[sent] - time.perf_counter_ns()) / 1e9 if sent < count else _TIMEOUT_S
        readable, _, _ = select.select(sockets, (), (), max(0.0, wait_s))
        if not readable and sent == count:
            raise TimeoutError(f"{count} messages were sent, {len(taken.latencies)} came")
        for sock in readable:
            if sock is consumer.sock:
                arrived = consumer.received()
                now = time.perf_counter_ns()
                taken.latencies += [now - due_ns for due_ns in arrived]
            else:
                answered = by_socket[sock].acknowledged()
                now = time.perf_counter_ns()
                taken.acknowledged += [now - due_ns for due_ns in answered]


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    sys.stdout.buffer.write(msgspec.json.encode(run(job)))


if __name__ == "__main__":
    main()
