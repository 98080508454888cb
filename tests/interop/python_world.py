"""Where our own client is tested: Apache's servers or ours, with Apache's Java client and `mqadmin` beside it.

Everything is in one network namespace, which the test enters; see `played`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pytest

from apogeemq.client import (
    ClientOptions,
    ConsumedMessage,
    Consumer,
    ConsumerOptions,
    LitePullConsumer,
    LitePullOptions,
    Message,
    MessageQueue,
    Producer,
    ProducerOptions,
    PullConsumer,
    PullOptions,
    SendResult,
)
from tests.interop.java_cluster import BROKER, Client, Clients, Cluster, Servers, Tools
from tests.peers import apache

APACHES = "apache"
APACHES_4 = "apache-4.9"
OURS = "apogee"
TEST_SECONDS = 120.0

_NEVER_BY_ITSELF_SECONDS = 600.0
_PAUSE_SECONDS = 0.02

P = ParamSpec("P")
T = TypeVar("T")


class World:
    """A name server and a broker. Java's clients are those of one test."""

    _numbers = itertools.count(1)

    def __init__(self, kind: str, cluster: Cluster) -> None:
        self.kind = kind
        self.cluster = cluster
        self.java = Clients(cluster)
        self._one_at_a_time = asyncio.Lock()

    def play(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Run it where the servers are."""
        self.java.started.clear()
        self._one_at_a_time = asyncio.Lock()
        netns = self.cluster.tools.netns
        with netns.joined() if netns is not None else contextlib.nullcontext():
            asyncio.run(_in_time(scenario))

    @property
    def address(self) -> str:
        return self.cluster.name_server.address

    def name(self, word: str) -> str:
        """Of a topic or group that no other test has."""
        return f"Py-{word}-{next(self._numbers)}"

    # -- Java ------------------------------------------------------------------------------------------------

    async def do(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What blocks, beside the loop: calls of Java's clients, of `mqadmin`, of the servers."""
        async with self._one_at_a_time:  # the shells have one conversation at a time
            return await asyncio.to_thread(call, *args, **kwargs)

    async def ask(self, command: str) -> str:
        return await self.do(self.cluster.ask, command)

    async def make_topic(self, word: str, queues: int = 4, options: str = "") -> str:
        topic = self.name(word)
        await self.do(self.cluster.create_topic, topic, queues, options)
        return topic

    async def java_producer(self, **settings: object) -> Client:
        return await self.do(self.java.producer, self.name("java-producers"), **settings)

    async def java_reader(self, group: str, topic: str, tags: str = "*", **args: Any) -> Client:
        return await self.do(self.java.push, group, {topic: tags}, **args)

    async def java_sees(self, topic: str, count: int) -> list[dict[str, Any]]:
        """What a group of Java's that is new finds in a topic, as it lies there."""
        reader = await self.java_reader(self.name("java-readers"), topic)
        found = await self.do(reader.received, count)
        return sorted(found, key=lambda message: (message["queue"], message["offset"]))

    # -- our client ------------------------------------------------------------------------------------------

    def producer(self, group: str = "", **options: Any) -> Producer:
        client = ClientOptions(instance_name=self.name("producer"), **options.pop("client", {}))
        group = group or self.name("producers")
        return Producer(self.address, group, options=ProducerOptions(send_timeout_seconds=20, **options), client=client)

    def consumer(self, group: str, topic: str, *, tags: str = "*", ordered: bool = False, **options: Any) -> Consumer:
        """Shares queues out when a broker says so, not because time has passed; reads from the first message on."""
        given = {"instance_name": self.name("consumer"), **options.pop("client", {})}
        settings = {"start_from": "first", "rebalance_seconds": _NEVER_BY_ITSELF_SECONDS, **options}
        return Consumer(
            self.address,
            group,
            topic,
            tags=tags,
            ordered=ordered,
            options=ConsumerOptions(**settings),
            client=ClientOptions(**given),
        )

    def lite(self, group: str, topic: str = "", *, tags: str = "*", **options: Any) -> LitePullConsumer:
        settings = {"start_from": "first", "rebalance_seconds": _NEVER_BY_ITSELF_SECONDS, **options}
        client = ClientOptions(instance_name=self.name("lite"))
        return LitePullConsumer(
            self.address, group, topic, tags=tags, options=LitePullOptions(**settings), client=client
        )

    def puller(self, group: str = "", **options: Any) -> PullConsumer:
        client = ClientOptions(instance_name=self.name("puller"))
        group = group or self.name("pullers")
        return PullConsumer(self.address, group, options=PullOptions(**options), client=client)

    def queue(self, topic: str, queue_id: int = 0) -> MessageQueue:
        return MessageQueue(BROKER, queue_id, topic)

    async def settled(self, topic: str, group: str, *java: Client) -> None:
        """The broker knows that everything has been dealt with: whoever joins now is given nothing old."""

        async def is_so() -> bool:
            for member in java:
                await self.do(member.call, "persist")
            ends = [(await observer.committed(queue), await observer.max_offset(queue)) for queue in queues]
            return all(committed == end for committed, end in ends)

        async with self.puller(group, joins_group=False) as observer:
            queues = await observer.fetch_queues(topic)
            await until(is_so, f"nothing is left for {group}")

    # -- the broker ------------------------------------------------------------------------------------------

    async def restart_broker(self) -> None:
        """Killed, and started again; meanwhile the loop turns."""
        broker = self.cluster.broker
        await self.do(broker.kill)
        broker.launch()  # in this thread, which outlives it: the process dies with its thread
        await self.do(broker.wait_until_ready)
        await self.do(self.cluster.wait_until_registered)


class Worlds:
    def __init__(self, tools: Tools, make_folder: Callable[[str], Path], stack: contextlib.ExitStack) -> None:
        self._tools = tools
        self._make_folder = make_folder
        self._stack = stack
        self._started: dict[str, World] = {}

    def get(self, kind: str) -> World:
        if kind not in self._started:
            version = apache.V4 if kind == APACHES_4 else apache.V5
            servers = Servers(self._make_folder(kind), self._tools.netns, {}, are_apaches=kind != OURS, version=version)
            self._stack.enter_context(servers)
            cluster = Cluster(self._tools, servers.name_server, servers.broker)
            cluster.wait_for_route(BROKER)
            self._started[kind] = World(kind, cluster)
        return self._started[kind]


also_with_4_9 = pytest.mark.parametrize("world", [APACHES, APACHES_4, OURS], indirect=True)
"""For tests that Apache's servers of the line before are asked to pass too."""


def played(test: Callable[Concatenate[World, P], Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """An `async def` test, run where the servers of its `world` are."""

    @functools.wraps(test)
    def run(world: World, *args: P.args, **kwargs: P.kwargs) -> None:
        world.play(test(world, *args, **kwargs))

    return run


async def _in_time(scenario: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(TEST_SECONDS):
        await scenario


async def until(condition: Callable[[], bool | Awaitable[bool]], what: str, timeout_seconds: float = 60.0) -> None:
    """Poll until it is so; AssertionError naming `what` when it does not become so."""
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    while True:
        answer = condition()
        if await answer if isinstance(answer, Awaitable) else answer:
            return
        assert asyncio.get_running_loop().time() < deadline, f"{what}: still not so after {timeout_seconds:g} s"
        await asyncio.sleep(_PAUSE_SECONDS)


async def queued(producer: Producer, *sent: SendResult) -> None:
    """Apache's brokers put messages into their queues a moment after they answered."""
    for result in sent:

        async def is_there(result: SendResult = result) -> bool:
            return await producer.max_offset(result.queue) > result.queue_offset

        await until(is_there, f"{result.queue} has the message {result.queue_offset}")


# -- what comes to our consumers -----------------------------------------------------------------------------


class Inbox:
    """Runs a consumer's handler in the background; keeps what came, in order."""

    def __init__(self, consumer: Consumer, hold_seconds: float = 0.0) -> None:
        self.consumer = consumer
        self.messages: list[ConsumedMessage] = []
        self.times: list[tuple[ConsumedMessage, int, int]] = []  # when a message was begun with, and ended
        self.refuses: Callable[[ConsumedMessage], bool] = lambda message: False
        self._hold_seconds = hold_seconds
        consumer.on_message(self._take)

    async def _take(self, message: ConsumedMessage) -> None:
        self.messages.append(message)
        begun = time.monotonic_ns()
        if self._hold_seconds:
            await asyncio.sleep(self._hold_seconds)
        self.times.append((message, begun, time.monotonic_ns()))
        if self.refuses(message):
            raise Refused

    @property
    def bodies(self) -> list[str]:
        return [message.body.decode() for message in self.messages]

    def assigned(self, topic: str) -> list[int]:
        membership = self.consumer._membership
        assert membership is not None
        return sorted(queue.queue_id for queue in membership.readers if queue.topic == topic)

    async def has(self, count: int) -> list[ConsumedMessage]:
        """So many different bodies have come."""
        await until(lambda: len(set(self.bodies)) >= count, f"{count} messages")
        return self.messages


class Refused(Exception):
    """A program that cannot deal with a message."""


@contextlib.asynccontextmanager
async def reading(consumer: Consumer, *, hold_seconds: float = 0.0, concurrency: int = 20) -> AsyncIterator[Inbox]:
    inbox = Inbox(consumer, hold_seconds)
    async with consumer:
        running = asyncio.ensure_future(consumer.run(concurrency=concurrency))
        try:
            yield inbox
        finally:
            await consumer.stop()
            await running


def texts(count: int, word: str = "message") -> list[str]:
    return [f"{word} {number}" for number in range(count)]


def messages(topic: str, bodies: Sequence[str], **more: Any) -> list[Message]:
    return [Message(topic, body.encode(), **more) for body in bodies]
