"""Orders: revenue to the cent, each window once, and what is no order among the dead letters with the reason."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from apogeemq.spark.jobs.send_samples import COUNT, EVERY_MS, FIRST_MS, sample_orders, send_orders
from tests.spark.messages import messages_of
from tests.spark.ready import run_ready
from tests.spark.worlds import World

pytestmark = pytest.mark.timeout(300)

WINDOW_MS = 60_000


def expected_revenue() -> dict[tuple[int, str], tuple[int, int, Decimal]]:
    """By window and product: orders, items, revenue; computed without Spark. Not of the last order, which ends them."""
    found: dict[tuple[int, str], tuple[int, int, Decimal]] = {}
    for number, order in enumerate(sample_orders()[:COUNT]):
        if order.is_broken:
            continue
        fields = json.loads(order.body)
        placed_ms = FIRST_MS + number * EVERY_MS
        key = placed_ms - placed_ms % WINDOW_MS, fields["product"]
        orders, items, revenue = found.get(key, (0, 0, Decimal()))
        amount = fields["quantity"] * Decimal(fields["price"])
        found[key] = orders + 1, items + fields["quantity"], revenue + amount
    return found


def revenue_in_files(spark: SparkSession, path: Path) -> dict[tuple[int, str], tuple[int, int, Decimal]]:
    rows = spark.read.parquet(str(path)).selectExpr("unix_millis(window_start) AS start", "*").collect()
    found = {(row["start"], row["product"]): (row["orders"], row["items"], row["revenue"]) for row in rows}
    assert len(found) == len(rows), "a window was written twice"
    return found


def revenue_in_topic(world: World, topic: str) -> dict[tuple[int, str], tuple[int, int, Decimal]]:
    bodies = [json.loads(message.body, parse_float=Decimal) for message in messages_of(world, topic)]
    found = {
        (_ms(body["window_start"]), body["product"]): (body["orders"], body["items"], body["revenue"])
        for body in bodies
    }
    assert len(found) == len(bodies), "a window was sent twice"
    return found


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)


def parameters(world: World, tmp_path: Path) -> dict[str, str]:
    """Those of the guide: windows and lateness are the pipeline's own."""
    return {
        "name_server": world.address,
        "topic": world.topic("orders"),
        "revenue_topic": world.topic("revenue", queues=1),
        "dead_topic": world.topic("dead", queues=1),
        "out": str(tmp_path / "out"),
    }


def test_every_order_is_counted_once(spark: SparkSession, any_world: World, tmp_path: Path) -> None:
    given = parameters(any_world, tmp_path)
    send_orders(any_world.address, given["topic"])
    status = run_ready(spark, "orders", tmp_path / "state", **given)

    expected = expected_revenue()
    assert revenue_in_files(spark, tmp_path / "out") == expected
    assert revenue_in_topic(any_world, given["revenue_topic"]) == expected
    assert {query.name: query.rows for query in status.queries} == {"orders": COUNT + 1, "revenue-append": COUNT + 1}

    broken = [order for order in sample_orders() if order.is_broken]
    dead = messages_of(any_world, given["dead_topic"])
    assert Counter(message.body for message in dead) == Counter(order.body for order in broken)
    assert status.dead_letters == len(broken) == 2
    for message in dead:
        assert message.properties["DLQ_REASON"]
        assert message.properties["DLQ_ORIGIN_TOPIC"] == given["topic"]


def test_a_second_run_goes_on_where_the_first_ended(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """Windows that were open at the end of the first are written by the second, with the orders of both."""
    given = {**parameters(world, tmp_path), "lateness": "5 seconds"}
    orders = [order.body for order in sample_orders()]
    half = COUNT // 2 + 3  # in the middle of a window, the sixth
    world.fill(given["topic"], orders[:half])
    run_ready(spark, "orders", tmp_path / "state", **given)
    first = revenue_in_files(spark, tmp_path / "out")
    assert {start for start, _ in first} == {FIRST_MS + number * WINDOW_MS for number in range(5)}
    world.fill(given["topic"], orders[half:])
    run_ready(spark, "orders", tmp_path / "state", **given)
    found = revenue_in_files(spark, tmp_path / "out")
    assert first.items() <= found.items()
    assert found == revenue_in_topic(world, given["revenue_topic"]) == expected_revenue()
