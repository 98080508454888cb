"""An account is settled when every order is where it should be, and says what is not."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from apogeemq.spark.demo_account import Account

SETTLED = Account(
    produced=1000,
    broken=10,
    stored=1000,
    read=1000,
    dead=10,
    in_topic=990,
    in_files=990,
    revenue_in_topic=Decimal("12.30"),
    revenue_in_files=Decimal("12.3"),
)


def test_all_orders_are_there() -> None:
    assert SETTLED.is_settled
    assert list(SETTLED.problems()) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"stored": 999}, "1000 orders were produced and 999 are stored"),
        ({"read": 1001}, "1000 orders were produced and 1001 were read by Spark"),
        ({"broken": 11}, "11 orders were broken and 10 are dead letters"),
        ({"in_topic": 991}, "991 orders are in the revenue topic and 10 are dead letters, of 1000"),
        ({"in_files": 0}, "0 orders are in the Parquet files and 10 are dead letters, of 1000"),
        ({"revenue_in_files": Decimal(12)}, "the revenue is 12.30 in the topic and 12 in the files"),
        ({"failures": ("no broker",)}, "no broker"),
    ],
)
def test_what_does_not_fit_is_said(change: dict[str, object], problem: str) -> None:
    changed = msgspec.structs.replace(SETTLED, **change)
    assert not changed.is_settled
    assert list(changed.problems()) == [problem]


def test_nothing_is_not_everything() -> None:
    nothing = Account(
        produced=0,
        broken=0,
        stored=0,
        read=0,
        dead=0,
        in_topic=0,
        in_files=0,
        revenue_in_topic=Decimal(),
        revenue_in_files=Decimal(),
    )
    assert list(nothing.problems()) == ["no order was produced"]
