"""A registration service, its name servers, and what the test says the broker's topics are."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from apogeemq.admin.nameserver import NameServerAdmin
from apogeemq.broker.config import BrokerConfig
from apogeemq.broker.outward import Outward
from apogeemq.broker.registration import Registration
from apogeemq.model.routes import DataVersion, QueueSettings
from apogeemq.model.topics import TopicConfig
from apogeemq.nameserver.config import resolve_settings
from apogeemq.nameserver.server import NameServer
from apogeemq.transport.broker_registration import BrokerIdentity

IDENTITY = BrokerIdentity("c", "broker-a", 0, "10.0.0.1:10911", "10.0.0.1:10912")


def topic(name: str, queues: int = 4, perm: int = 6) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)


class Registered:
    """The service with a table of topics; seconds pass when the test says so."""

    def __init__(
        self, config: BrokerConfig, names: tuple[str, ...] = ("T1", "T2"), environment: Mapping[str, str] | None = None
    ) -> None:
        self.config = config
        self.topics = {name: topic(name) for name in names}
        self.version = DataVersion(1, 0, 1)
        self.order_topics: list[Mapping[str, str]] = []
        self.now_ms = 1_000
        self.outward = Outward(lambda: self.config, {}, environment or {})
        self.service = Registration(
            self.outward,
            IDENTITY,
            lambda: (self.topics, self.version),
            lambda: self.config,
            self.order_topics.append,
            lambda: self.now_ms,
        )

    def change(self, *changed: TopicConfig) -> None:
        self.topics |= {config.topic_name: config for config in changed}
        self.version = DataVersion(self.version.counter + 1, 0, self.version.timestamp + 1)
        self.service.topics_changed(list(changed))

    async def seconds(self, count: int) -> None:
        for _ in range(count):
            await self.outward.tick()
            self.service.tick()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.002)

    async def until_registered(self) -> None:
        await self.until(lambda: all(state.is_registered for state in self.service.states))

    async def until_said(self, count: int) -> None:
        """Until so many things were said to name servers, and taken."""
        await self.until(lambda: sum(state.success_count for state in self.service.states) >= count)


@asynccontextmanager
async def registered(
    config: BrokerConfig, names: tuple[str, ...] = ("T1", "T2"), environment: Mapping[str, str] | None = None
) -> AsyncIterator[Registered]:
    it = Registered(config, names, environment)
    try:
        await it.service.start()
        yield it
    finally:
        await it.service.stop()
        await it.outward.close()


async def queues_at(it: Registered, address: str, name: str) -> QueueSettings | None:
    """What a name server says this broker offers for a topic."""
    route = (await NameServerAdmin(it.outward.pool, address).routes([name]))[name]
    return route.queues.get(IDENTITY.name) if route is not None else None


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@asynccontextmanager
async def name_server_at(address: str, folder: Path) -> AsyncIterator[NameServer]:
    """One that begins to listen, on this address, when the test wants it to."""
    host, _, port = address.rpartition(":")
    properties = {"bindAddress": host, "listenPort": port, "dataDir": str(folder), "tls.server.mode": "disabled"}
    server = NameServer(resolve_settings(properties, {}, home=folder)[0], {})
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
