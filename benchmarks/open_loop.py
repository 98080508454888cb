"""The open-loop load generator, a process of its own: ``python -m benchmarks.open_loop``.

Requests leave at times fixed beforehand, whatever the server does, and each latency counts from
the time its request was due. A server that stalls cannot slow the questions down.
"""

from __future__ import annotations

import ctypes
import random
import select
import socket
import sys
import time
from collections import deque

import msgspec

from benchmarks import made_up, wire
from benchmarks.load import percentile
from benchmarks.made_up import Cluster
from benchmarks.process import cpu_seconds

_PR_SET_TIMERSLACK = 29
_ANSWER_TIMEOUT_S = 30


class Job(msgspec.Struct):
    """Route queries at a mean rate per second over several connections."""

    host: str
    port: int
    pid: int
    cluster: Cluster
    seconds: float
    rate: float
    connections: int = 16


class Result(msgspec.Struct):
    """Latencies in µs from when a request was due; `late_p99_us` is how late the generator itself was."""

    operations: int
    seconds: float
    server_cpu: float
    p50_us: float
    p99_us: float
    p999_us: float
    late_p99_us: float


class Line:
    """One connection, its frames in turn and the due times of what it still waits for."""

    def __init__(self, job: Job, number: int) -> None:
        self.sock = wire.connect(job.host, job.port)
        self.frames = made_up.route_frames(job.cluster, job.cluster.topics, first=7 * number)
        answers = [wire.ask(self.sock, frame) for frame in self.frames]
        for answer in answers:
            made_up.check_route(answer, job.cluster)
        self._answer_size = answers[0].size
        self._buffer = bytearray(1 << 18)
        self._partial = 0
        self._next = 0
        self.due: deque[float] = deque()

    def send(self, due: float) -> None:
        self.due.append(due)
        self.sock.sendall(self.frames[self._next])
        self._next = (self._next + 1) % len(self.frames)

    def receive(self) -> list[float]:
        """Due times of the requests answered by what has come."""
        size = self.sock.recv_into(self._buffer)
        if size == 0:
            raise ConnectionError("the server closed the connection under load")
        count, self._partial = divmod(self._partial + size, self._answer_size)
        return [self.due.popleft() for _ in range(count)]


def run(job: Job) -> Result:
    """Send on time, note when each answer came."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    lines = [Line(job, number) for number in range(job.connections)]
    cpu_before = cpu_seconds(job.pid)
    started = time.perf_counter()
    due = _due_times(job, started)
    latencies, lateness = _drive(lines, due)
    elapsed, cpu = time.perf_counter() - started, cpu_seconds(job.pid) - cpu_before
    took = sorted((round(1e9 * latency), 1) for latency in latencies)
    late = sorted((round(1e9 * latency), 1) for latency in lateness)
    return Result(
        operations=len(took),
        seconds=elapsed,
        server_cpu=cpu,
        p50_us=percentile(took, 0.50),
        p99_us=percentile(took, 0.99),
        p999_us=percentile(took, 0.999),
        late_p99_us=percentile(late, 0.99),
    )


def _due_times(job: Job, started: float) -> list[float]:
    """Independent arrivals (exponential gaps) from a fixed seed: both servers get the very same schedule."""
    source = random.Random(20260101)
    times = [started + 0.01]
    while times[-1] < started + job.seconds:
        times.append(times[-1] + source.expovariate(job.rate))
    return times


def _drive(lines: list[Line], due: list[float]) -> tuple[list[float], list[float]]:
    by_socket = {line.sock: line for line in lines}
    sockets: list[socket.socket] = list(by_socket)
    latencies: list[float] = []
    lateness: list[float] = []
    sent, count = 0, len(due)
    while len(latencies) < count:
        now = time.perf_counter()
        while sent < count and due[sent] <= now:
            lines[sent % len(lines)].send(due[sent])
            lateness.append(now - due[sent])
            sent += 1
        wait_s = due[sent] - time.perf_counter() if sent < count else _ANSWER_TIMEOUT_S
        readable, _, _ = select.select(sockets, (), (), max(0.0, wait_s))
        if not readable and sent == count:
            raise TimeoutError("the server left requests unanswered")
        for sock in readable:
            answered = by_socket[sock].receive()
            now = time.perf_counter()
            latencies += [now - due_at for due_at in answered]
    return latencies, lateness


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    sys.stdout.buffer.write(msgspec.json.encode(run(job)))


if __name__ == "__main__":
    main()
