"""A name server and brokers of ours in the test's own event loop, for clients over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from apogeemq.broker.state import BrokerState
from apogeemq.client.options import ClientOptions, ConsumerOptions
from apogeemq.model.queues import MessageQueue
from apogeemq.model.topics import TopicConfig
from apogeemq.nameserver.server import NameServer
from tests.unit.broker.handlers.members import Serving, serving
from tests.unit.name_servers import name_server

FROM_FIRST = ConsumerOptions(start_from="first")


class Cluster:
    def __init__(self, folder: Path, names: NameServer, address: str, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.name_server = names
        self.address = address
        self.brokers: dict[str, Serving] = {}
        self._stack = stack

    async def add_broker(self, name: str, **properties: str) -> AsyncExitStack:
        """Close what is given to stop it."""
        own = AsyncExitStack()
        await self._stack.enter_async_context(own)
        self.brokers[name] = await own.enter_async_context(
            serving(self.folder / name, namesrvAddr=self.address, **{"brokerName": name, **properties})
        )
        return own

    @property
    def state(self) -> BrokerState:
        return self.brokers["broker-a"].state

    @property
    def broker_address(self) -> str:
        return self.brokers["broker-a"].address

    async def make_topic(self, topic: str, queues: int = 4, broker: str = "broker-a", *, perm: int = 6) -> None:
        """Made, and known to the name server."""
        serving = self.brokers[broker]
        config = TopicConfig(read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_name=topic)
        serving.state.topics.put(config, serving.state.now_ms())
        pool_client = serving.member("waits")
        pool_client.address = self.address
        while (route := await pool_client.route(topic)) is None or broker not in {
            entry["brokerName"] for entry in route["queueDatas"]
        }:
            await asyncio.sleep(0.001)
        await pool_client.close()

    def committed(self, group: str, topic: str, broker: str = "broker-a") -> dict[int, int]:
        return dict(self.brokers[broker].state.offsets.table.get(f"{topic}@{group}", {}))

    def queue(self, topic: str, queue_id: int = 0, broker: str = "broker-a") -> MessageQueue:
        return MessageQueue(broker, queue_id, topic)


@asynccontextmanager
async def cluster(
    folder: Path, *brokers: str, names: Mapping[str, str] | None = None, **properties: str
) -> AsyncIterator[Cluster]:
    """With these brokers, or one called broker-a; `names` are properties of the name server, the others of brokers.
    At the end no task of a client may be left."""
    async with name_server(folder / "names", names) as (server, address), AsyncExitStack() as stack:
        made = Cluster(folder, server, address, stack)
        for name in brokers or ("broker-a",):
            await made.add_broker(name, **properties)
        before = asyncio.all_tasks()
        yield made
        await eventually(lambda: not (client_tasks() - before))


def client_tasks() -> set[asyncio.Task[Any]]:
    """Tasks that run code of the client."""
    return {task for task in asyncio.all_tasks() if "/apogeemq/client/" in _file_of(task)}


def _file_of(task: asyncio.Task[Any]) -> str:
    return str(getattr(getattr(task.get_coro(), "cr_code", None), "co_filename", ""))


async def eventually(condition: Callable[[], object]) -> None:
    """Let the loop turn until it is so; the test's own time limit is the only one."""
    while not condition():
        await asyncio.sleep(0.001)


def named(instance_name: str, **options: Any) -> ClientOptions:
    """A client of its own: other connections and another id than the next one's."""
    return ClientOptions(instance_name=instance_name, **options)
