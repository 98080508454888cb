"""Plain numbers rendered as Prometheus text when somebody asks; nothing is counted here and nothing is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Sample(msgspec.Struct, frozen=True):
    value: float
    labels: Mapping[str, str] = {}


class Family(msgspec.Struct, frozen=True):
    """All samples of one name. A counter's name is given without the `_total` it is shown with."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: list[Sample]


class HistogramFamily(msgspec.Struct, frozen=True):
    """How often something took how long: `counts` has one class more than there are upper bounds."""

    name: str
    help: str
    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


def render(families: Iterable[Family | HistogramFamily]) -> tuple[str, bytes]:
    """Content type and text, the process's own figures (memory, descriptors, CPU time) included."""
    from prometheus_client import CollectorRegistry, ProcessCollector  # 10 MB, for servers that are scraped
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(_Collector(list(families)))
    return CONTENT_TYPE_LATEST, generate_latest(registry)


class _Collector:
    """What prometheus_client asks for the families of one scrape."""

    def __init__(self, families: list[Family | HistogramFamily]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        shapes: dict[str, Any] = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
        for family in self._families:
            if isinstance(family, HistogramFamily):
                yield _histogram(family)
                continue
            names = list(family.samples[0].labels) if family.samples else []
            metric: Metric = shapes[family.kind](family.name, family.help, labels=names)
            for sample in family.samples:
                metric.add_metric([sample.labels[name] for name in names], sample.value)  # type: ignore[attr-defined]
            yield metric


def _histogram(family: HistogramFamily) -> Metric:
    from prometheus_client.core import HistogramMetricFamily
    from prometheus_client.utils import floatToGoString

    bounds = [*map(floatToGoString, family.bounds), "+Inf"]
    buckets = list(zip(bounds, accumulate(family.counts), strict=True))
    return HistogramMetricFamily(family.name, family.help, buckets=buckets, sum_value=family.total)
