"""A queue, as clients and brokers name it."""

from __future__ import annotations

import msgspec


class MessageQueue(msgspec.Struct, frozen=True, cache_hash=True, gc=False, rename="camel"):
    """Fields in the order Apache writes them."""

    broker_name: str
    queue_id: int
    topic: str
