"""Our name server and brokers with a fault proxy before each, for clients that know only the proxies."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from apogeemq.client import ClientOptions, Consumer, ConsumerOptions, Producer, ProducerOptions
from apogeemq.client.broker_calls import records_of
from apogeemq.client.instance import ClientInstance, joined_instance
from apogeemq.model.groups import GroupConfig
from apogeemq.model.properties import UNIQUE_KEY, decode_properties
from apogeemq.testing.fault_proxy import FaultProxy, How
from tests.unit.client.cluster import Cluster, cluster

IS_SOAK = bool(os.environ.get("APOGEE_SOAK"))
HANG_SECONDS = 20.0
"""Whoever waits longer than this hangs: every time-out in these tests is much shorter."""

PATIENCE_SECONDS = 10.0

_names = itertools.count(1)


class Faulty:
    """`names` and `brokers` are the proxies; `real` is the cluster behind them."""

    def __init__(self, real: Cluster, names: FaultProxy, brokers: dict[str, FaultProxy]) -> None:
        self.real = real
        self.names = names
        self.brokers = brokers

    @property
    def broker(self) -> FaultProxy:
        return self.brokers["broker-a"]

    def options(self, **more: Any) -> ClientOptions:
        """Of a client that nobody else is; it speaks only when it is told to."""
        mapped = {self.real.brokers[name].address: proxy.address for name, proxy in self.brokers.items()}
        quiet = {"heartbeat_seconds": 3600.0, "route_poll_seconds": 3600.0, "watches_routes": False}
        return ClientOptions(**{"instance_name": f"faulty-{next(_names)}", "address_map": mapped, **quiet, **more})

    def producer(self, *, client: ClientOptions | None = None, **options: Any) -> Producer:
        """Patient, unless it is told otherwise: the machine may be busy."""
        chosen = ProducerOptions(**{"send_timeout_seconds": PATIENCE_SECONDS, **options})
        return Producer(self.names.address, group="P", options=chosen, client=client or self.options())

    def consumer(self, *, client: ClientOptions | None = None, ordered: bool = False, **options: Any) -> Consumer:
        return Consumer(
            self.names.address,
            group="G",
            topic="T",
            ordered=ordered,
            options=ConsumerOptions(**{"start_from": "first", **options}),
            client=client or self.options(),
        )

    def instance(self, client: ClientOptions) -> ClientInstance:
        """The one that a producer or consumer with these options uses."""
        return joined_instance(self.names.address, client)

    def stored(self, topic: str = "T") -> Counter[tuple[str, bytes]]:
        """Unique id and body of all that the brokers hold of a topic, with how often."""
        found: Counter[tuple[str, bytes]] = Counter()
        for serving in self.real.brokers.values():
            store = serving.state.store
            for name, queue_id in tuple(store.queues):
                offset = 0
                while name == topic and (got := store.get(topic, queue_id, offset, 1000, 1 << 24)).records:
                    for record in records_of(bytes(got.records)):
                        found[decode_properties(record.properties.decode())[UNIQUE_KEY], record.body] += 1
                    offset = got.next_offset
        return found


@asynccontextmanager
async def faulty(folder: Path, *brokers: str, queues: int = 1) -> AsyncIterator[Faulty]:
    """With a topic T of so many queues on each broker, and a group G.

    At the end no task and no connection of a client may be left.
    """
    names_of_brokers = brokers or ("broker-a",)
    async with cluster(folder, *names_of_brokers) as real, AsyncExitStack() as stack:
        names = await stack.enter_async_context(FaultProxy(real.address))
        proxies = {}
        for name in names_of_brokers:
            proxies[name] = await stack.enter_async_context(FaultProxy(real.brokers[name].address))
            await real.make_topic("T", queues, name)
            state = real.brokers[name].state
            state.groups.put(GroupConfig(group_name="G"), state.now_ms())
        made = Faulty(real, names, proxies)
        yield made
        await soon(lambda: not any(proxy.open_count for proxy in (names, *proxies.values())))


async def soon(condition: Callable[[], object]) -> None:
    """It becomes so, or somebody hangs."""
    async with asyncio.timeout(HANG_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


def endings(count: int) -> list[tuple[int, How]]:
    """Every number of bytes from none to `count` after which a connection may be cut, with how: in turn, or both."""
    if IS_SOAK:
        return [(number, how) for number in range(count + 1) for how in How]
    return [(number, (How.RESET, How.CLOSED)[number % 2]) for number in range(count + 1)]


def some(positions: Sequence[tuple[int, How]], most: int) -> Sequence[tuple[int, How]]:
    """So many of them, spread evenly and with the first and the last; all of them in a long run."""
    if IS_SOAK or len(positions) <= most:
        return positions
    step = (len(positions) - 1) / (most - 1)
    return [positions[round(number * step)] for number in range(most)]
