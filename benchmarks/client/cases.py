"""Sends, batches and consuming, on either broker: our client beside each of the others."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import free_memory
from benchmarks.client.clients import Result
from benchmarks.client.contenders import (
    ALONE,
    BARE,
    BLOCKING,
    BODY_SIZE,
    CPP,
    FILLED_TOPIC,
    GRPC,
    JAVA,
    KAFKA,
    OURS,
    SEND_TOPIC,
    BrokerKind,
    Contenders,
)
from benchmarks.client.programs.commands import Job
from benchmarks.rows import Row, Target
from benchmarks.runner import Say
from benchmarks.settings import Settings

MANY_IN_FLIGHT = 10_000
_SKIP = 2_000
_RATE, _EFFICIENCY, _MEMORY = "messages per second", "messages per CPU-second", "memory"
_UNITS = {_RATE: "1/s", _EFFICIENCY: "1/s", _MEMORY: "MB"}
_WITHOUT_BATCHING = (CPP, GRPC)
_TITLES = {"apache": "Apache's broker", "ours": "our broker"}


def sends(contenders: Contenders, settings: Settings, say: Say, *, broker: BrokerKind, in_flight: int) -> Iterator[Row]:
    """Each message acknowledged before the next of its line is sent; `in_flight` such lines. With one of them our
    client without `await` is measured, too; clients that block are held against that.

    Where there are several, aiokafka puts those of a moment into one batch. `joined_sends` stands beside that; here
    aiokafka is for interest."""
    case = f"send, {in_flight} in flight, {_TITLES[broker]}"
    job = Job("send", SEND_TOPIC, size=BODY_SIZE, in_flight=in_flight)
    if in_flight == 1:
        also, for_interest = (BARE, BLOCKING), (BARE, CPP)
        yield from _compared(contenders, settings, say, broker, case, job, also=also, for_interest=for_interest)
    elif broker == "ours":
        yield from _compared(contenders, settings, say, broker, case, job)
    else:
        yield from _compared(contenders, settings, say, broker, case, job, also=(ALONE,), for_interest=(KAFKA, ALONE))


def joined_sends(contenders: Contenders, settings: Settings, say: Say, *, broker: BrokerKind) -> Iterator[Row]:
    """As `sends` of many in flight, but messages that come at the same moment share a request, as aiokafka's do."""
    case = f"send, 64 in flight, joined, {_TITLES[broker]}"
    job = Job("joined", SEND_TOPIC, size=BODY_SIZE, in_flight=64)
    yield from _compared(contenders, settings, say, broker, case, job, without=(JAVA, CPP, GRPC))


def batches(contenders: Contenders, settings: Settings, say: Say, *, broker: BrokerKind) -> Iterator[Row]:
    """Sends that wait for nothing, put together by the client. Clients that cannot do that are left out."""
    case = f"send, automatic batches, {_TITLES[broker]}"
    job = Job("batch", SEND_TOPIC, size=BODY_SIZE, in_flight=MANY_IN_FLIGHT)
    yield from _compared(contenders, settings, say, broker, case, job, without=_WITHOUT_BATCHING)


def consuming(contenders: Contenders, settings: Settings, say: Say, *, broker: BrokerKind) -> Iterator[Row]:
    """A new group reads a topic from its first message on, and acknowledges each."""
    case = f"consume, {_TITLES[broker]}"
    job = Job("consume", FILLED_TOPIC, size=BODY_SIZE, skip=_SKIP)
    yield from _compared(contenders, settings, say, broker, case, job)


def _compared(
    contenders: Contenders,
    settings: Settings,
    say: Say,
    broker: BrokerKind,
    case: str,
    job: Job,
    without: tuple[str, ...] = (),
    also: tuple[str, ...] = (),
    for_interest: tuple[str, ...] = (),
) -> Iterator[Row]:
    names = [name for name in contenders.names(broker) if name not in without] + list(also)
    found: dict[str, list[Result]] = {name: [] for name in names}
    for name in names:
        say(f"{case}: {name} warms up")
        is_cold = name == JAVA or contenders.is_new(broker, name)  # then the servers behind it are, too
        contenders.run(broker, name, job._replace(seconds=settings.warm_up_s if is_cold else 0.5))
    for number in range(settings.rounds):
        say(f"{case}: round {number + 1} of {settings.rounds}")
        free_memory.fetch()
        for name in names if number % 2 == 0 else names[::-1]:
            result = contenders.run(broker, name, job._replace(seconds=settings.seconds))
            if result is not None:
                found[name].append(result)
    ours, blocking = found.pop(OURS), found.pop(BLOCKING, None)
    for name, results in found.items():
        if len(results) == len(ours):
            yield from _rows(case, name, ours, results, {} if name in for_interest else _targets(name))
    for name in (JAVA, CPP, BARE) if blocking else ():
        if len(found[name]) == len(blocking or ()):
            title = case.replace(",", " without await,", 1)
            yield from _rows(title, name, blocking or [], found[name], {} if name == BARE else _targets(name))


def _rows(case: str, name: str, ours: list[Result], theirs: list[Result], targets: dict[str, Target]) -> Iterator[Row]:
    for metric, unit in _UNITS.items():
        yield Row(
            case=case,
            metric=f"beside {name}: {metric}",
            unit=unit,
            ours=[_figure(result, metric) for result in ours],
            apache=[_figure(result, metric) for result in theirs],
            target=targets.get(metric),
        )


def _targets(name: str) -> dict[str, Target]:
    """Half of what Java does with the CPU; three times what any other Python client of RocketMQ does; as much as the
    best-known asyncio client there is."""
    if name == JAVA:
        return {_EFFICIENCY: Target(at_least=0.5)}
    least = Target(at_least=3.0 if name in (CPP, GRPC) else 1.0)
    return {_RATE: least, _EFFICIENCY: least}


def _figure(result: Result, metric: str) -> float:
    return {
        _RATE: result.count / result.seconds,
        _EFFICIENCY: result.count / result.cpu_seconds,
        _MEMORY: result.memory_mb,
    }[metric]
