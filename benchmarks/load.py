"""The closed-loop load generator, a process of its own: ``python -m benchmarks.load``.

Reads one job as JSON from standard input and writes one result as JSON to standard output.
All frames are encoded before the clock starts. Every answer of a job is equally long, so the
generator counts bytes and parses nothing; before and after, it checks answers properly.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Literal

import msgspec

from benchmarks import made_up, wire
from benchmarks.made_up import Change, Cluster
from benchmarks.process import cpu_seconds

_VARIANTS = 16
_CHUNK = 1 << 18


class Job(msgspec.Struct):
    """What to send, to whom, and for how long."""

    host: str
    port: int
    pid: int
    cluster: Cluster
    seconds: float
    kind: Literal["route", "register"] = "route"
    connections: int = 1
    in_flight: int = 1
    change: Change = "nothing"


class Result(msgspec.Struct):
    """What came of it; CPU seconds are the server's alone."""

    operations: int
    seconds: float
    server_cpu: float
    generator_cpu: float
    p50_us: float
    p99_us: float


class Window:
    """One connection that keeps a fixed number of requests in flight.

    `frames` go round; the bytes are joined once, with the first `in_flight` frames repeated at
    the end, so that any run of frames is one slice and one `send`.
    """

    def __init__(self, sock: socket.socket, frames: list[bytes], in_flight: int, size: int) -> None:
        self.sock = sock
        self._in_flight = in_flight
        self._answer_size = size
        self._count = len(frames)
        self._starts = [0]
        for frame in frames + frames[:in_flight]:
            self._starts.append(self._starts[-1] + len(frame))
        self._bytes = memoryview(b"".join(frames + frames[:in_flight]))
        self._next = 0
        self._partial = 0
        self._sent: deque[tuple[int, int]] = deque()
        self._buffer = bytearray(_CHUNK)
        self.waiting = 0
        self.answered = 0
        self.latencies: list[tuple[int, int]] = []

    def send(self, count: int) -> None:
        """Put `count` more requests on the wire."""
        first = self._next
        data = self._bytes[self._starts[first] : self._starts[first + count]]
        self._next = (first + count) % self._count
        self._sent.append((time.perf_counter_ns(), count))
        self.waiting += count
        self.sock.sendall(data)

    def start(self) -> None:
        self.send(self._in_flight)

    def receive(self) -> int:
        """Take what has come; return how many answers that completed."""
        size = self.sock.recv_into(self._buffer)
        if size == 0:
            raise ConnectionError("the server closed the connection under load")
        count, self._partial = divmod(self._partial + size, self._answer_size)
        if count:
            self._note(count)
        return count

    @property
    def last_sent(self) -> int:
        return (self._next - 1) % self._count

    def check_drained(self) -> None:
        """An answer of another length (an error, say) would leave a remainder here."""
        if self.waiting or self._partial:
            raise RuntimeError("answers were not equally long: some were errors")

    def _note(self, count: int) -> None:
        now = time.perf_counter_ns()
        self.waiting -= count
        self.answered += count
        while count:
            sent_at, waiting = self._sent[0]
            taken = min(count, waiting)
            self.latencies.append((now - sent_at, taken))
            count -= taken
            if taken == waiting:
                self._sent.popleft()
            else:
                self._sent[0] = (sent_at, waiting - taken)


def run(job: Job) -> Result:
    """Set up, check, load for `job.seconds`, drain, check again."""
    windows = _windows(job)
    own_before, cpu_before = time.process_time(), cpu_seconds(job.pid)
    started = time.perf_counter()
    drive(windows, started + job.seconds)
    elapsed = time.perf_counter() - started
    cpu, own = cpu_seconds(job.pid) - cpu_before, time.process_time() - own_before
    _check_after(job, windows)
    latencies = sorted(pair for window in windows for pair in window.latencies)
    operations = sum(window.answered for window in windows)
    return Result(operations, elapsed, cpu, own, percentile(latencies, 0.50), percentile(latencies, 0.99))


def percentile(latencies: list[tuple[int, int]], share: float) -> float:
    """Microseconds, from sorted (nanoseconds, how many) pairs."""
    wanted = share * sum(count for _, count in latencies)
    for nanoseconds, count in latencies:
        wanted -= count
        if wanted <= 0:
            return nanoseconds / 1_000
    raise ValueError("nothing was measured")


def drive(windows: Sequence[Window], deadline: float) -> None:
    """Keep every window full until the deadline, then take what is still due."""
    if len(windows) == 1:
        _drive_one(windows[0], deadline)
        return
    by_number = {window.sock.fileno(): window for window in windows}
    poll = select.epoll()
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    for window in windows:
        window.start()
    open_windows = len(windows)
    running = True
    while open_windows:
        for number, _ in poll.poll():
            window = by_number[number]
            count = window.receive()
            if count and running:
                window.send(count)
            elif count and not window.waiting:
                open_windows -= 1
        running = running and time.perf_counter() < deadline
    poll.close()


def _drive_one(window: Window, deadline: float) -> None:
    window.start()
    while time.perf_counter() < deadline:
        count = window.receive()
        if count:
            window.send(count)
    while window.waiting:
        window.receive()


def _windows(job: Job) -> list[Window]:
    make = _route_window if job.kind == "route" else _register_window
    windows = [make(job, number) for number in range(job.connections)]
    for window in windows:
        window.sock.settimeout(None)
    return windows


def _route_window(job: Job, number: int) -> Window:
    sock = wire.connect(job.host, job.port)
    count = max(job.cluster.topics, 2 * job.in_flight)
    frames = made_up.route_frames(job.cluster, count, first=number * 7)
    sizes = set()
    for frame in frames:
        answer = wire.ask(sock, frame)
        made_up.check_route(answer, job.cluster)
        sizes.add(answer.size)
    assert len(sizes) == 1, f"answers of different lengths: {sizes}"
    return Window(sock, frames, job.in_flight, sizes.pop())


def _register_window(job: Job, broker: int) -> Window:
    sock = wire.connect(job.host, job.port)
    frames = [
        made_up.register_frame(job.cluster, broker, variant=i, change=job.change, opaque=i) for i in range(_VARIANTS)
    ]
    return Window(sock, frames, 1, wire.ask(sock, frames[-1]).size)


def _check_after(job: Job, windows: list[Window]) -> None:
    for window in windows:
        window.check_drained()
    if job.kind == "route":
        return
    sock = wire.connect(job.host, job.port)
    answer = wire.ask(sock, made_up.route_frames(job.cluster, 1)[0])
    made_up.check_route(answer, job.cluster, queues=None)
    seen = {d["brokerName"]: d["readQueueNums"] for d in msgspec.json.decode(answer.body)["queueDatas"]}
    for broker, window in enumerate(windows):
        expected = made_up.queues_of(0, window.last_sent, job.change)
        assert seen[made_up.broker_name(broker)] == expected, "the last registration is not served"


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    result = run(job)
    sys.stdout.buffer.write(msgspec.json.encode(result))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
