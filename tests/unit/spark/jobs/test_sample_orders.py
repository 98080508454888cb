"""The sample orders are the same each time, and broken where they should be."""

from __future__ import annotations

import json
from decimal import Decimal

from apogeemq.spark.jobs.sample_orders import BROKEN_EVERY, PRICES, closing_bell, order

TIME_MS = 1_763_274_000_123


def is_good(body: bytes) -> bool:
    try:
        fields = json.loads(body)
    except ValueError:
        return False
    return bool(fields.get("product")) and fields["quantity"] > 0 and Decimal(fields["price"]) >= 0


def test_an_order_is_what_its_number_makes_it() -> None:
    first = order(7, 0, TIME_MS)
    assert first == order(7, 0, TIME_MS)
    assert first.order_id == "0007-00000000"
    fields = json.loads(first.body)
    assert fields["ordered_at"] == "2025-11-16T06:20:00.123+00:00"
    assert fields["price"] == PRICES[fields["product"]]
    assert fields["customer"] == first.customer


def test_one_in_a_hundred_is_broken_and_no_other() -> None:
    made = [order(1, number, TIME_MS) for number in range(2_000)]
    assert [each.is_broken for each in made] == [number % BROKEN_EVERY == BROKEN_EVERY - 1 for number in range(2_000)]
    assert [is_good(each.body) for each in made] == [not each.is_broken for each in made]
    assert len({each.order_id for each in made}) == 2_000
    assert {json.loads(each.body)["product"] for each in made if not each.is_broken} == set(PRICES)


def test_the_closing_bell_is_an_order_of_no_product() -> None:
    assert is_good(closing_bell(1, TIME_MS))
    assert json.loads(closing_bell(1, TIME_MS))["product"] not in PRICES
