"""What a benchmark finds: one row per case and metric, every round kept."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from benchmarks.contenders import SIDES, Side


class Target(NamedTuple):
    """What the ratio (or, when `absolute`, our own figure) should be."""

    at_least: float | None = None
    at_most: float | None = None
    absolute: bool = False

    def __str__(self) -> str:
        sign, bound = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        return f"{sign} {bound:.3g}{' (ours)' if self.absolute else '×'}"


class Row(msgspec.Struct, kw_only=True):
    """One metric of one case, as measured in every round."""

    case: str
    metric: str
    unit: str
    ours: list[float]
    apache: list[float]
    target: Target | None = None

    @property
    def median(self) -> tuple[float, float]:
        return statistics.median(self.ours), statistics.median(self.apache)

    @property
    def ratio(self) -> float:
        """Ours divided by Apache's, of the medians."""
        ours, apache = self.median
        return ours / apache

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and highest ratio of any one round."""
        ratios = [ours / apache for ours, apache in zip(self.ours, self.apache, strict=True)]
        return min(ratios), max(ratios)

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        value = self.median[0] if self.target.absolute else self.ratio
        at_least, at_most = self.target.at_least, self.target.at_most
        return (at_least is None or value >= at_least) and (at_most is None or value <= at_most)


def alternate(rounds: int, measure: Callable[[Side], Mapping[str, float]]) -> dict[str, dict[Side, list[float]]]:
    """Measure both sides in turn, each round the other side first; metric → side → one value per round."""
    found: dict[str, dict[Side, list[float]]] = {}
    for number in range(rounds):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            for metric, value in measure(side).items():
                found.setdefault(metric, {"ours": [], "apache": []})[side].append(value)
    return found


def rows(
    case: str,
    found: Mapping[str, Mapping[Side, Sequence[float]]],
    units: Mapping[str, str],
    targets: Mapping[str, Target] | None = None,
) -> list[Row]:
    return [
        Row(
            case=case,
            metric=metric,
            unit=units[metric],
            ours=list(values["ours"]),
            apache=list(values["apache"]),
            target=(targets or {}).get(metric),
        )
        for metric, values in found.items()
    ]
