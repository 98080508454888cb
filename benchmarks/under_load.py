"""Route queries and registrations: throughput, operations per CPU-second, latency."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from benchmarks import load, open_loop
from benchmarks.contenders import SIDES, Contenders, Server, Side, address, closed_loop, fixed_rate
from benchmarks.made_up import Brokers, Change, Cluster
from benchmarks.rows import Row, Target, alternate, rows
from benchmarks.settings import Settings
from benchmarks.wakefulness import halting

SHAPES = ((1, 1), (16, 1), (16, 32))
REGISTRATION = Cluster(8, 2_000)
CHANGES: dict[Change, str] = {
    "nothing": "unchanged",
    "one topic": "changed (one topic)",
    "all topics": "changed (all topics)",
}

_UNITS = {
    "operations per CPU-second": "1/CPU-s",
    "throughput": "1/s",
    "p50": "µs",
    "p99": "µs",
    "p99.9": "µs",
    "CPU": "ms/s",
}
_WARM_ENOUGH = 1.05
PER_CPU_SECOND = "operations per CPU-second"

Say = Callable[[str], None]


def route_queries(contenders: Contenders, settings: Settings, say: Say, cluster: Cluster) -> Iterator[Row]:
    """Closed loop over one cluster, at every shape."""
    with _served(contenders, cluster) as (servers, brokers):

        def one_round(side: Side, connections: int, in_flight: int) -> dict[str, float]:
            brokers[side].register()
            job = _job(servers[side], cluster, settings.seconds)
            job.connections, job.in_flight = connections, in_flight
            return _closed_loop(job)

        for side in SIDES:
            say(f"route query {cluster}: warming up {side}")
            warm_up(partial(one_round, side, 16, 32), settings)
        for connections, in_flight in SHAPES:
            case = f"route query {cluster}, {connections}×{in_flight}"
            say(case)
            for side in SIDES:
                one_round(side, connections, in_flight)  # this shape's own warm-up
            found = alternate(settings.rounds, partial(one_round, connections=connections, in_flight=in_flight))
            yield from rows(case, found, _UNITS, {PER_CPU_SECOND: Target(at_least=4)})
        with halting() as is_set:
            if is_set:
                case = f"route query {cluster}, 1×1, cores that halt at once"
                say(case)
                yield from rows(
                    case, alternate(settings.rounds, partial(one_round, connections=1, in_flight=1)), _UNITS
                )


def latency(contenders: Contenders, settings: Settings, say: Say, cluster: Cluster) -> Iterator[Row]:
    """Open loop: the same arrivals for both, at half of what the slower one can do at 16×1."""
    with _served(contenders, cluster) as (servers, brokers):
        capacity = {}
        for side in SIDES:
            say(f"latency {cluster}: warming up {side}, finding its capacity")
            job = _job(servers[side], cluster, settings.seconds)
            job.connections = 16
            warm_up(partial(_closed_loop, job), settings)
            capacity[side] = _closed_loop(job)["throughput"]
        rate = min(capacity.values()) / 2
        case = f"route query {cluster}, open loop at {rate:,.0f}/s over 16 connections"
        say(case)

        def one_round(side: Side) -> dict[str, float]:
            brokers[side].register()
            host, port = address(servers[side])
            job = open_loop.Job(host, port, servers[side].pid, cluster, settings.seconds, rate)
            result = fixed_rate(job)
            return {
                "p50": result.p50_us,
                "p99": result.p99_us,
                "p99.9": result.p999_us,
                "CPU": 1_000 * result.server_cpu / result.seconds,
            }

        yield from rows(case, alternate(settings.rounds, one_round), _UNITS, {"p99": Target(at_most=1)})


def registrations(contenders: Contenders, settings: Settings, say: Say) -> Iterator[Row]:
    """Each broker has its own connection and one registration in flight, back to back."""
    with contenders.both() as servers:

        def one_round(side: Side, change: Change) -> dict[str, float]:
            job = _job(servers[side], REGISTRATION, settings.seconds)
            job.kind, job.connections, job.change = "register", REGISTRATION.brokers, change
            return _closed_loop(job)

        for side in SIDES:
            say(f"registration {REGISTRATION}: warming up {side}")
            warm_up(partial(one_round, side, "one topic"), settings)
        for change, label in CHANGES.items():
            case = f"registration {REGISTRATION}, {label}"
            say(case)
            for side in SIDES:
                one_round(side, change)
            found = alternate(settings.rounds, partial(one_round, change=change))
            # That all topics change is the worst case, not one of a broker's life: it has no target.
            yield from rows(
                case, found, _UNITS, {PER_CPU_SECOND: Target(at_least=2)} if change != "all topics" else None
            )


@contextmanager
def _served(contenders: Contenders, cluster: Cluster) -> Iterator[tuple[dict[Side, Server], dict[Side, Brokers]]]:
    """Both servers with the cluster's brokers registered at each."""
    with contenders.both() as servers, ExitStack() as connected:
        yield (
            servers,
            {side: connected.enter_context(Brokers(cluster, address(server))) for side, server in servers.items()},
        )


def _job(server: Server, cluster: Cluster, seconds: float) -> load.Job:
    host, port = address(server)
    return load.Job(host=host, port=port, pid=server.pid, cluster=cluster, seconds=seconds)


def _closed_loop(job: load.Job) -> dict[str, float]:
    result = closed_loop(job)
    return {
        "operations per CPU-second": result.operations / result.server_cpu,
        "throughput": result.operations / result.seconds,
        "p50": result.p50_us,
        "p99": result.p99_us,
    }


def warm_up(one_round: Callable[[], dict[str, float]], settings: Settings, metric: str = PER_CPU_SECOND) -> None:
    """Load for a while, and on until two rounds running are no better than the best: a JIT compiler needs its time."""
    began = time.monotonic()
    best, stale = 0.0, 0
    while (elapsed := time.monotonic() - began) < settings.warm_up_s or stale < 2:
        if elapsed > 4 * settings.warm_up_s:
            return
        reached = one_round()[metric]
        stale = stale + 1 if reached < best * _WARM_ENOUGH else 0
        best = max(best, reached)
