"""What `apogee demo` shows: the revenue as it grows, and the account at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from apogeemq.spark.demo import Figures
    from apogeemq.spark.demo_account import Account

_LINE_EVERY_SECONDS: Final = 5.0  # where there is no terminal to draw on


class Face:
    """Draws on a terminal; elsewhere says a line now and then."""

    def __init__(self, console: Console, live: Live | None) -> None:
        self._console = console
        self._live = live
        self._said = ""
        self._said_at = 0.0

    def say(self, text: str) -> None:
        if self._live is not None:
            self._live.update(Spinner("dots", text))
        elif text != self._said:
            self._console.print(text, soft_wrap=True)
        self._said = text

    def show(self, figures: Figures) -> None:
        if self._live is not None:
            self._live.update(picture(figures))
        elif figures.activity != self._said or time.monotonic() - self._said_at > _LINE_EVERY_SECONDS:
            self._console.print(f"{figures.seconds:5.0f} s  {figures.activity}: {sentence(figures)}", soft_wrap=True)
            self._said, self._said_at = figures.activity, time.monotonic()


@contextmanager
def shown(console: Console) -> Iterator[Face]:
    if not console.is_terminal:
        yield Face(console, None)
        return
    with Live(console=console, refresh_per_second=8) as live:
        yield Face(console, live)


def sentence(figures: Figures) -> str:
    return (
        f"{figures.produced:,} orders produced, {figures.read:,} read by Spark, "
        f"{figures.counted:,} counted in {figures.windows:,} windows, {figures.dead:,} broken"
    )


def picture(figures: Figures) -> Group:
    head = Text(f"{figures.activity} · {figures.seconds:.0f} s · Ctrl-C ends it")
    return Group(Spinner("dots", head), Text(sentence(figures)), revenue_table(figures), topic_table(figures))


def revenue_table(figures: Figures) -> Table:
    table = Table(title="Revenue by product, from the topic the pipeline writes", title_justify="left")
    table.add_column("Product", min_width=12)
    for name in ("Orders", "Items", "Revenue", "Last window"):
        table.add_column(name, justify="right")
    for name, product in sorted(figures.products.items(), key=lambda item: -item[1].revenue):
        cells = (f"{product.orders:,}", f"{product.items:,}", f"{product.revenue:,.2f}", f"{product.last_revenue:,.2f}")
        table.add_row(name, *cells)
    if not figures.products:
        table.add_row("…", "", "", "", "")
    return table


def topic_table(figures: Figures) -> Table:
    table = Table(title="Topics", title_justify="left")
    table.add_column("Topic", min_width=12)
    table.add_column("Broker")
    table.add_column("Queues", justify="right")
    table.add_column("Messages", justify="right")
    for topic in figures.topics:
        table.add_row(topic.name, " ".join(topic.brokers), str(topic.queues), f"{topic.messages:,}")
    return table


def account_table(account: Account) -> Table:
    table = Table(title="Where the orders are", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("produced", f"{account.produced:,}")
    table.add_row("stored by the broker", f"{account.stored:,}")
    table.add_row("read by Spark", f"{account.read:,}")
    table.add_row("counted in the revenue topic", f"{account.in_topic:,}")
    table.add_row("counted in the Parquet files", f"{account.in_files:,}")
    table.add_row("broken, in the dead letter topic", f"{account.dead:,}")
    table.add_row("revenue", f"{account.revenue_in_topic:,.2f}")
    said = "every order is accounted for" if account.is_settled else "something is missing"
    table.add_row(Text(said, style="green" if account.is_settled else "red"), "")
    return table
