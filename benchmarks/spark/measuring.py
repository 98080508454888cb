"""How two are measured in turn, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from benchmarks.rows import Row, Target
from benchmarks.runner import Say
from benchmarks.settings import Settings
from benchmarks.spark.sides import Result

RATE, EFFICIENCY, BATCH_TIME = "rows per second", "rows per CPU-second", "time of a micro-batch"
QUERY_TIME, QUERY_CPU = "time of a query of a few rows", "CPU time of a query of a few rows"
UNITS = {RATE: "1/s", EFFICIENCY: "1/s", BATCH_TIME: "ms", QUERY_TIME: "s", QUERY_CPU: "s"}

_T = TypeVar("_T", bound=str)


def figures(rows: int, result: Result) -> dict[str, float]:
    return {RATE: rows / result.answer.seconds, EFFICIENCY: rows / result.cpu.all}


def nothing() -> None:
    """Most measurements need no preparation."""


def alternated(
    settings: Settings,
    say: Say,
    case: str,
    names: tuple[_T, _T],
    measure: Callable[[_T], Mapping[str, float]],
    *,
    prepare: Callable[[], None] = nothing,
) -> dict[str, tuple[list[float], list[float]]]:
    """Both in turn, each round the other one first; metric → the values of either. Every measurement is prepared."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for number in range(settings.rounds):
        say(f"{case}: round {number + 1} of {settings.rounds}")
        for name in names if number % 2 == 0 else names[::-1]:
            prepare()
            for metric, value in measure(name).items():
                found.setdefault(metric, ([], []))[names.index(name)].append(value)
    return found


def rows_of(
    case: str,
    other: str,
    targets: Mapping[str, Target],
    found: Mapping[str, tuple[Sequence[float], Sequence[float]]],
) -> Iterator[Row]:
    for metric, (first, second) in found.items():
        yield Row(
            case=case,
            metric=f"beside {other}: {metric}",
            unit=UNITS[metric],
            ours=list(first),
            apache=list(second),
            target=targets.get(metric),
        )
