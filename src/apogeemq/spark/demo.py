"""The demonstration: servers, somebody who orders, the pipeline `orders` on a Spark of this machine, and an account of
every order at the end. `apogee demo` shows it.

Servers and pipeline are processes of their own; everything they keep is in one folder.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from apogeemq.embedded.local_cluster import LocalCluster
from apogeemq.errors import ApogeeError
from apogeemq.spark.demo_account import Account
from apogeemq.spark.demo_orders import OrderProducer, ProductRevenue, RevenueReader, TopicFigures
from apogeemq.spark.demo_pipeline import OrdersPipeline

ORDERS: Final = "orders"
REVENUE: Final = "revenue"
DEAD: Final = "orders-dead"
_QUEUES: Final = {ORDERS: 4, REVENUE: 2, DEAD: 1}

_WINDOW: Final = "5 seconds"
_LATENESS: Final = "10 seconds"
_SEED: Final = 1
_SETTLE_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.25


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to see at a moment."""

    activity: str
    seconds: float
    produced: int
    read: int
    counted: int
    windows: int
    products: dict[str, ProductRevenue]
    topics: tuple[TopicFigures, ...]

    def stored(self, topic: str) -> int:
        return next((found.messages for found in self.topics if found.name == topic), 0)

    @property
    def dead(self) -> int:
        return self.stored(DEAD)


class Demonstration:
    """`with Demonstration(folder) as demo`, then `demo.figures()` again and again, and `demo.finish()` at the end."""

    def __init__(self, folder: Path, *, orders_per_second: float = 200.0) -> None:
        self._files = folder / "revenue"
        self._orders_per_second = orders_per_second
        self._parts = contextlib.ExitStack()
        self._cluster = LocalCluster(folder)
        self._pipeline = OrdersPipeline(folder / "pipelines")
        self._topics = {name: TopicFigures(name, (), 0, 0) for name in _QUEUES}
        self._began = time.monotonic()
        self._ending = ""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as parts:
            name_server = parts.enter_context(self._cluster).name_server
            self._reader = RevenueReader(name_server, REVENUE)
            parts.callback(self._reader.close)
            self._reader.start()
            self._orders = OrderProducer(name_server, ORDERS, self._orders_per_second, _SEED)
            parts.callback(self._orders.close)
            self._orders.start(_QUEUES)
            parts.callback(self._pipeline.end)
            self._pipeline.start(
                {
                    "name_server": name_server,
                    "topic": ORDERS,
                    "revenue_topic": REVENUE,
                    "dead_topic": DEAD,
                    "out": str(self._files),
                    "window": _WINDOW,
                    "lateness": _LATENESS,
                }
            )
            self._parts = parts.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.close()

    # -- looking ---------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether the pipeline has begun and not ended."""
        return self._pipeline.is_running

    @property
    def has_failed(self) -> bool:
        return not self._pipeline.is_alive or bool(self._orders.failures)

    @property
    def said(self) -> str:
        """By the pipeline and by Spark, for whoever wants to know why something failed."""
        return self._pipeline.said()

    def figures(self) -> Figures:
        self._ask()
        return Figures(
            activity=self._activity(),
            seconds=time.monotonic() - self._began,
            produced=self._orders.produced,
            read=self._read(),
            counted=self._reader.orders,
            windows=self._reader.windows,
            products=dict(self._reader.products),
            topics=tuple(self._topics.values()),
        )

    def _ask(self) -> None:
        """The servers. A question that is not answered leaves what is known; the next look asks again."""
        questions: list[Callable[[], object]] = [self._reader.read_new]
        questions += [partial(self._look_at, name) for name in _QUEUES]
        for ask in questions:
            with contextlib.suppress(ApogeeError):
                ask()

    def _look_at(self, topic: str) -> None:
        self._topics[topic] = self._reader.topic(topic)

    def _activity(self) -> str:
        if self._ending:
            return self._ending
        if self._pipeline.is_running:
            return "running" if self._read() else "reading the first orders"
        return "starting Spark, which takes some 20 seconds"

    def _read(self) -> int:
        """Orders that every query of the pipeline has read."""
        status = self._pipeline.status()
        queries = status.queries if status is not None else []
        return max(0, min((query.rows for query in queries), default=0) - self._orders.bells)

    # -- ending ----------------------------------------------------------------------------------------------

    def finish(self, on_look: Callable[[Figures], None] = lambda figures: None) -> Account:
        """Let the last window end and everything stop; gives the account. `on_look` sees how it goes."""
        self._ending = "ending the last windows"
        self._orders.stop()
        self._orders.ring()
        deadline = time.monotonic() + _SETTLE_SECONDS
        while self._pipeline.is_alive and time.monotonic() < deadline:
            figures = self.figures()
            on_look(figures)
            if figures.counted + figures.dead >= figures.produced <= figures.read:
                break
            time.sleep(_LOOK_SECONDS)
        self._ending = "stopping the pipeline"
        self._pipeline.ask_to_stop()
        while self._pipeline.is_alive and time.monotonic() < deadline:
            on_look(self.figures())
            time.sleep(_LOOK_SECONDS)
        return self._account(self.figures())

    def _account(self, figures: Figures) -> Account:
        failure = self._pipeline.failure
        in_files, revenue_in_files = _counted_in_files(self._files)
        return Account(
            produced=figures.produced,
            broken=self._orders.broken,
            stored=figures.stored(ORDERS) - self._orders.bells,
            read=figures.read,
            dead=figures.dead,
            in_topic=figures.counted,
            in_files=in_files,
            revenue_in_topic=sum((product.revenue for product in figures.products.values()), Decimal()),
            revenue_in_files=revenue_in_files,
            failures=(*self._orders.failures, *([f"the pipeline failed: {failure}"] if failure else [])),
        )


def _counted_in_files(folder: Path) -> tuple[int, Decimal]:
    """Orders and revenue, read without Spark: the files are right for any reader."""
    from pyarrow import parquet

    orders, revenue = 0, Decimal()
    for path in folder.glob("*.parquet") if folder.exists() else ():
        table = parquet.read_table(path, columns=["orders", "revenue"])
        orders += sum(table["orders"].to_pylist())
        revenue += sum(table["revenue"].to_pylist(), Decimal())
    return orders, revenue
