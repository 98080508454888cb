"""A name server of ours inside the test's own process, on a free port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from apogeemq.model.routes import DataVersion
from apogeemq.nameserver.config import resolve_settings
from apogeemq.nameserver.server import NameServer
from apogeemq.protocol.bodies.registration import Registration, TopicConfig
from apogeemq.transport.broker_registration import BrokerIdentity, BrokerRegistration
from apogeemq.transport.pool import ConnectionPool

FLAGS = {"bindAddress": "127.0.0.1", "listenPort": "0"}
PLAIN = {"tls.server.mode": "disabled"}


@asynccontextmanager
async def name_server(
    folder: Path, properties: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[NameServer, str]]:
    """The server and its address; its files are in `folder`."""
    settings, warnings = resolve_settings(
        PLAIN | dict(properties or {}), {**FLAGS, "dataDir": str(folder)}, home=folder
    )
    assert warnings == []
    server = NameServer(settings, {})
    host, port = await server.start()
    try:
        yield server, f"{host}:{port}"
    finally:
        await server.stop()


@asynccontextmanager
async def connections() -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool()
    try:
        yield pool
    finally:
        await pool.close()


def broker(name: str, broker_id: int = 0, *, cluster: str = "c") -> BrokerIdentity:
    number = f"{ord(name[-1])}.{broker_id}"
    return BrokerIdentity(cluster, name, broker_id, f"10.0.{number}:10911", f"10.0.{number}:10912")


def topics(*names: str, perm: int = 6, queues: int = 4) -> dict[str, TopicConfig]:
    return {name: TopicConfig(name, queues, queues, perm) for name in names}


async def register(
    pool: ConnectionPool, address: str, who: BrokerIdentity, table: dict[str, TopicConfig], version: int = 1
) -> BrokerRegistration:
    registration = BrokerRegistration(pool, address, who)
    await registration.register(Registration(DataVersion(counter=version, timestamp=1), table))
    return registration
