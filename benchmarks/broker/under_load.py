"""Sends and pulls: messages per CPU-second, throughput, latency."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from benchmarks.broker import asking, drain_load, frames, latency_load, send_load
from benchmarks.broker.contenders import Contenders, Flush, Server, address, drain, fixed_rate, send
from benchmarks.broker.frames import PULL_COUNT, QUEUES
from benchmarks.contenders import SIDES, Side
from benchmarks.load import Result
from benchmarks.rows import Row, Target, alternate, rows
from benchmarks.runner import Say
from benchmarks.settings import Settings
from benchmarks.under_load import warm_up

PER_CPU_SECOND = "messages per CPU-second"
TOPIC_COUNTS = (1, 100, 1_000)
RATES = (1_000, 5_000)
TWICE = {PER_CPU_SECOND: Target(at_least=2)}

_UNITS = {
    PER_CPU_SECOND: "1/CPU-s",
    "throughput": "1/s",
    "p50": "µs",
    "p99": "µs",
    "p99.9": "µs",
    "acknowledged p50": "µs",
    "acknowledged p99": "µs",
    "CPU": "ms/s",
}
_SENT = (PER_CPU_SECOND, "throughput", "p50", "p99")  # what a load of sends finds


class Shape(NamedTuple):
    connections: int
    in_flight: int
    batch: int = 1
    keyed: bool = False

    def __str__(self) -> str:
        batches = f", batches of {self.batch}" if self.batch > 1 else ""
        return f"{self.connections}×{self.in_flight}{batches}{', with keys' if self.keyed else ''}"


SHAPES = (Shape(16, 1), Shape(16, 16), Shape(16, 1, 32))
KEYED = Shape(16, 16, keyed=True)


def sends(contenders: Contenders, settings: Settings, say: Say, *, size: int, flush: Flush) -> Iterator[Row]:
    """Closed loop over one topic of eight queues, at every shape."""
    label = f"send {_size(size)}, {'sync' if flush == 'SYNC_FLUSH' else 'async'} flush"
    with contenders.both(flush=flush) as servers:
        for side, server in servers.items():
            asking.create_topics(address(server), 1)
            say(f"{label}: warming up {side}")
            warm_up(partial(_send, server, size, SHAPES[1], settings), settings, PER_CPU_SECOND)

        def one_round(side: Side, shape: Shape) -> dict[str, float]:
            return _send(servers[side], size, shape, settings)

        for shape in (*SHAPES, KEYED):
            case = f"{label}, {shape}"
            say(case)
            for side in SIDES:
                one_round(side, shape)  # this shape's own warm-up
            found = alternate(settings.rounds, partial(one_round, shape=shape))
            yield from rows(case, found, _UNITS, TWICE)


def topics(contenders: Contenders, settings: Settings, say: Say) -> Iterator[Row]:
    """The same sends spread over more and more topics, eight queues each. What counts is that the cost stays: few and
    many are loaded one right after the other, in every round."""
    shape = SHAPES[1]
    with contenders.both() as servers:

        def one_round(side: Side) -> dict[str, float]:
            return {
                _of_topics(count, metric): value
                for count in TOPIC_COUNTS
                for metric, value in _send(servers[side], 128, shape, settings, count).items()
            }

        for side, server in servers.items():
            say(f"send to {TOPIC_COUNTS[-1]:,} topics: warming up {side}")
            asking.create_topics(address(server), TOPIC_COUNTS[-1])
            for count in reversed(TOPIC_COUNTS):  # the load over all waits until their first messages are in queues
                warm_up(partial(_send, server, 128, shape, settings, count), settings, PER_CPU_SECOND)
        say(f"send to {', '.join(f'{count:,}' for count in TOPIC_COUNTS)} topics")
        found = alternate(settings.rounds, one_round)
    for count in TOPIC_COUNTS:
        case = f"send 128 B, async flush, {shape}, over {count:,} topic{'s' * (count > 1)}"
        yield from rows(case, {metric: found[_of_topics(count, metric)] for metric in _SENT}, _UNITS)
    few, many = (found[_of_topics(count, PER_CPU_SECOND)] for count in (TOPIC_COUNTS[0], TOPIC_COUNTS[-1]))
    growth = {side: [one / more for one, more in zip(few[side], many[side], strict=True)] for side in SIDES}
    case = f"cost of a message with {TOPIC_COUNTS[-1]:,} topics, in costs with one"
    yield from rows(case, {"cost": growth}, {"cost": "×"}, {"cost": Target(None, 1.25, True)})


def _of_topics(count: int, metric: str) -> str:
    return f"{metric} over {count}"


def drains(contenders: Contenders, settings: Settings, say: Say, *, size: int) -> Iterator[Row]:
    """Eight full queues, read from the first message to the last, 32 a pull."""
    wanted = 100_000 if settings.quick else 1_000_000
    pulls = -(-wanted // (PULL_COUNT * QUEUES))
    per_queue = pulls * PULL_COUNT
    case = f"pull {_size(size)}, {wanted:,} messages, {PULL_COUNT} a pull, {QUEUES} queues"
    with contenders.both() as servers:
        for side, server in servers.items():
            say(f"{case}: filling {side}")
            asking.fill(address(server), frames.topic_name(0), per_queue=per_queue, size=size)
            say(f"{case}: warming up {side}")
            warm_up(partial(_drain, server, per_queue, size), settings, PER_CPU_SECOND)
        say(case)
        found = alternate(settings.rounds, lambda side: _drain(servers[side], per_queue, size))
        yield from rows(case, found, _UNITS, TWICE)


def latency(contenders: Contenders, settings: Settings, say: Say) -> Iterator[Row]:
    """Open loop from producer to consumer: the same arrivals for both."""
    with contenders.both() as servers:
        for side, server in servers.items():
            asking.create_topics(address(server), 1)
            say(f"latency: warming up {side}")
            warm_up(partial(_send, server, 128, SHAPES[0], settings), settings, PER_CPU_SECOND)

        def one_round(side: Side, rate: float) -> dict[str, float]:
            return _latency(servers[side], settings, rate)

        for rate in RATES:
            case = f"producer to consumer at {rate:,}/s, 128 B, async flush"
            say(case)
            for side in SIDES:
                one_round(side, rate)
            found = alternate(settings.rounds, partial(one_round, rate=rate))
            yield from rows(case, found, _UNITS, {"p99": Target(at_most=1)})


def _size(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size // 1024} KiB"


def _send(server: Server, size: int, shape: Shape, settings: Settings, topic_count: int = 1) -> dict[str, float]:
    host, port = address(server)
    job = send_load.Job(
        host,
        port,
        server.pid,
        settings.seconds,
        size,
        connections=shape.connections,
        in_flight=shape.in_flight,
        batch=shape.batch,
        topics=topic_count,
        keyed=shape.keyed,
    )
    return _figures(send(job))


def _drain(server: Server, per_queue: int, size: int) -> dict[str, float]:
    host, port = address(server)
    return _figures(drain(drain_load.Job(host, port, server.pid, frames.topic_name(0), per_queue, size)))


def _figures(result: Result) -> dict[str, float]:
    return {
        PER_CPU_SECOND: result.operations / result.server_cpu,
        "throughput": result.operations / result.seconds,
        "p50": result.p50_us,
        "p99": result.p99_us,
    }


def _latency(server: Server, settings: Settings, rate: float) -> dict[str, float]:
    host, port = address(server)
    job = latency_load.Job(host, port, server.pid, frames.topic_name(0), 2 * settings.seconds, rate)
    result = fixed_rate(job)
    return {
        "p50": result.p50_us,
        "p99": result.p99_us,
        "p99.9": result.p999_us,
        "acknowledged p50": result.acknowledged_p50_us,
        "acknowledged p99": result.acknowledged_p99_us,
        "CPU": 1_000 * result.server_cpu / result.seconds,
    }
