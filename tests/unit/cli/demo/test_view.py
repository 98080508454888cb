"""What the demonstration shows, as text."""

from __future__ import annotations

import io
from decimal import Decimal

import msgspec
from rich.console import Console, RenderableType

from apogeemq.cli.demo.view import account_table, picture, shown
from apogeemq.spark.demo import Figures
from apogeemq.spark.demo_account import Account
from apogeemq.spark.demo_orders import ProductRevenue, TopicFigures

FIGURES = Figures(
    activity="running",
    seconds=31.4,
    produced=6_200,
    read=6_100,
    counted=5_000,
    windows=12,
    products={
        "tea": ProductRevenue(1_000, 2_500, Decimal("7000.00"), "2026-11-16T00:00:10.000Z", Decimal("70.00")),
        "espresso": ProductRevenue(4_000, 9_000, Decimal("19800.00"), "2026-11-16T00:00:10.000Z", Decimal("198.00")),
    },
    topics=(TopicFigures("orders", ("broker-a",), 4, 6_200), TopicFigures("orders-dead", ("broker-a",), 1, 61)),
)
ACCOUNT = Account(
    produced=100,
    broken=1,
    stored=100,
    read=100,
    dead=1,
    in_topic=99,
    in_files=98,
    revenue_in_topic=Decimal("450.10"),
    revenue_in_files=Decimal("450.10"),
)


def text_of(shown_thing: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(shown_thing)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_products_with_most_revenue_come_first() -> None:
    text = text_of(picture(FIGURES))
    assert "6,200 orders produced, 6,100 read by Spark, 5,000 counted in 12 windows, 61 broken" in text
    assert text.index("espresso") < text.index("tea ")
    assert "19,800.00" in text
    assert "running · 31 s · Ctrl-C ends it" in text


def test_before_the_first_result_there_is_a_place_for_it() -> None:
    assert "…" in text_of(picture(msgspec.structs.replace(FIGURES, products={})))


def test_the_account_says_whether_it_is_settled() -> None:
    assert "something is missing" in text_of(account_table(ACCOUNT))
    settled = msgspec.structs.replace(ACCOUNT, in_files=99)
    assert "every order is accounted for" in text_of(account_table(settled))


def test_where_there_is_no_terminal_a_line_is_said_for_each_activity() -> None:
    console = Console(file=io.StringIO(), width=200)
    with shown(console) as face:
        face.say("starting a name server and a broker")
        face.show(FIGURES)
        face.show(FIGURES)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "starting a name server and a broker",
        "   31 s  running: 6,200 orders produced, 6,100 read by Spark, 5,000 counted in 12 windows, 61 broken",
    ]
