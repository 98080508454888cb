"""Orders of a coffee bar that does not exist: the input of the orders pipeline in demonstration and tests. Pure.

The same seed and number always give the same order. One in a hundred is broken, in one of a few ways, as orders of the
world are.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from random import Random
from typing import Final, NamedTuple

PRICES: Final = {
    "espresso": "2.20",
    "cappuccino": "3.40",
    "flat white": "3.60",
    "tea": "2.80",
    "croissant": "2.50",
    "cheesecake": "4.90",
}
_POPULARITY: Final = (30, 25, 15, 10, 12, 8)
_LARGEST_QUANTITY: Final = 4
_CUSTOMERS: Final = 200
BROKEN_EVERY: Final = 100


class Order(NamedTuple):
    """A message to be: what its producer needs to know."""

    order_id: str
    customer: str
    body: bytes
    is_broken: bool


def order(seed: int, number: int, time_ms: int) -> Order:
    """The order of that number, from 0, placed at that time."""
    random = Random(f"{seed}:{number}")
    product = random.choices(tuple(PRICES), _POPULARITY)[0]
    fields: dict[str, object] = {
        "order_id": f"{seed:04d}-{number:08d}",
        "customer": f"customer-{random.randrange(_CUSTOMERS):03d}",
        "product": product,
        "quantity": random.randint(1, _LARGEST_QUANTITY),
        "price": PRICES[product],
        "ordered_at": datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds"),
    }
    is_broken = number % BROKEN_EVERY == BROKEN_EVERY - 1
    body = _broken(fields, random) if is_broken else _json(fields)
    return Order(str(fields["order_id"]), str(fields["customer"]), body, is_broken)


def closing_bell(seed: int, time_ms: int) -> bytes:
    """Not an order of anybody's: a body whose time ends every window before it."""
    fields = {
        "order_id": f"{seed:04d}-closing",
        "customer": "nobody",
        "product": "closing bell",
        "quantity": 1,
        "price": "0.00",
        "ordered_at": datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds"),
    }
    return _json(fields)


def _broken(fields: dict[str, object], random: Random) -> bytes:
    way = random.randrange(4)
    if way == 0:
        return _json(fields)[:-10]  # cut off
    if way == 1:
        return _json({name: value for name, value in fields.items() if name != "product"})
    if way == 2:
        return _json({**fields, "quantity": 0})
    return _json({**fields, "price": "-1.00"})


def _json(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
