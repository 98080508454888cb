"""A name server and a broker, with Apache's Java clients and `mqadmin` at hand: where the client tests are played.

The servers are ours. With APOGEE_SERVERS=apache they are Apache's: what a test expects is then checked itself.
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.peers import apache, ours
from tests.peers.java_client import ClientShell
from tests.peers.netns import NetNamespace
from tests.peers.process import free_port, wait_for

BROKER = "broker-a"
CLUSTER = "DefaultCluster"
SERVERS_ARE_APACHES = os.environ.get("APOGEE_SERVERS") == "apache"
RECEIVE_TIMEOUT_S = 60.0

DELAYS_S = (1, 5, *(1,) * 16)
"""The first two delay levels as they are by default; the others short, because retries use them."""

Queue = tuple[str, str, int]
"""Topic, broker name, queue id."""


def queue(topic: str, queue_id: int = 0) -> Queue:
    return (topic, BROKER, queue_id)


@dataclass(frozen=True)
class Tools:
    """The two warm JVMs, which serve every cluster of the run."""

    clients: ClientShell
    mqadmin: apache.AdminShell
    netns: NetNamespace | None


@dataclass
class Cluster:
    tools: Tools
    name_server: ours.NameServer | apache.NameServer
    broker: ours.Broker | apache.Broker
    _routed: set[str] = field(default_factory=set)

    def ask(self, command: str, *, timeout_s: float = 60.0) -> str:
        """What `mqadmin` prints."""
        return self.tools.mqadmin.run(*shlex.split(command), "-n", self.name_server.address, timeout_s=timeout_s)

    def create_topic(self, topic: str, queues: int = 4, options: str = "") -> None:
        answer = self.ask(f"updateTopic -c {CLUSTER} -t {topic} -r {queues} -w {queues} {options}")
        assert "success" in answer, answer
        self.wait_for_route(topic)

    def create_group(self, group: str, options: str = "") -> None:
        answer = self.ask(f"updateSubGroup -c {CLUSTER} -g {group} {options}")
        assert "success" in answer, answer

    def wait_for_route(self, topic: str) -> None:
        if topic not in self._routed:
            wait_for(lambda: "queueDatas" in self.ask(f"topicRoute -t {topic}"), f"{topic} has a route", timeout_s=90)
            self._routed.add(topic)

    def wait_until_registered(self) -> None:
        """One of Apache's that comes back is now and then known only ten seconds later, when it registers again."""
        self._routed.clear()
        self.wait_for_route(BROKER)

    def restart_broker(self, *, kill: bool = False) -> None:
        self.broker.kill() if kill else self.broker.stop()
        self.broker.start()
        self.wait_until_registered()


@dataclass
class Client:
    """One producer or consumer in the JVM."""

    shell: ClientShell
    name: str

    def call(self, do: str, **args: object) -> Any:
        return self.shell.call(do, name=self.name, **args)

    def send(self, topic: str, *messages: Mapping[str, object] | str, how: str = "sync", **args: object) -> Any:
        """One result for each message (one in all for a batch). A message that is only a text is only a body."""
        forms = [{"body": message} if isinstance(message, str) else message for message in messages]
        return self.call("send", topic=topic, messages=forms, how=how, **args)

    def received(self, count: int, **args: Any) -> list[dict[str, Any]]:
        return received(count, self, **args)[0]

    def assigned(self, topic: str) -> list[int]:
        """The ids of the queues of `topic` that are its own."""
        return [queue_id for name, _, queue_id in self.call("assigned") if name == topic]

    def stop(self) -> None:
        self.shell.stop_clients([self.name])

    def leave(self) -> None:
        """Stop, but what it was given can still be asked for."""
        self.shell.call("stop", names=[self.name], keepsInboxes=True)


def received(
    count: int, *consumers: Client, deliveries: bool = False, timeout_s: float = RECEIVE_TIMEOUT_S
) -> list[list[dict[str, Any]]]:
    """What each consumer has been given, once there are `count` different bodies (or deliveries) in all.

    Fails when they do not come in time.
    """
    names = [consumer.name for consumer in consumers]
    inboxes = consumers[0].shell.call(
        "received", names=names, count=count, deliveries=deliveries, timeoutMs=int(timeout_s * 1_000)
    )
    every = [inboxes[name] for name in names]
    distinct = [message for inbox in every for message in inbox]
    got = len(distinct) if deliveries else len(set(bodies(distinct)))
    assert got >= count, f"{got} of {count} messages came: {sorted(bodies(distinct))}"
    return every


def bodies(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    return [message["body"] for message in messages]


@dataclass
class Clients:
    """Starts clients for one test."""

    cluster: Cluster
    suffix: str = ""
    started: list[Client] = field(default_factory=list)
    _numbers = itertools.count(1)

    def _start(
        self, kind: str, group: str, settings: Mapping[str, object] | None, args: Mapping[str, object]
    ) -> Client:
        client = Client(self.cluster.tools.clients, f"{kind}{self.suffix or f'-{next(self._numbers)}'}")
        self.started.append(client)
        client.call(kind, group=group, namesrv=self.cluster.name_server.address, settings=settings or {}, **args)
        return client

    def producer(self, group: str = "producers", **settings: object) -> Client:
        return self._start("producer", group, settings, {})

    def push(
        self, group: str, topics: Mapping[str, str], settings: Mapping[str, object] | None = None, **args: object
    ) -> Client:
        """Reads from the first message on, unless told otherwise."""
        settings = {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", **(settings or {})}
        self._wait_for_routes(topics, settings)
        return self._start("push", group, settings, {"topics": topics, **args})

    def lite(
        self,
        group: str,
        topics: Mapping[str, str] | None = None,
        assign: Sequence[Queue] = (),
        settings: Mapping[str, object] | None = None,
    ) -> Client:
        settings = {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", **(settings or {})}
        args: dict[str, object] = {"topics": topics} if topics else {"assign": assign}
        self._wait_for_routes(topics or (), settings)
        return self._start("lite", group, settings, args)

    def _wait_for_routes(self, topics: Iterable[str], settings: Mapping[str, object]) -> None:
        """A consumer that starts before the broker has told the name server of its topic takes long to notice it."""
        for topic in topics:
            self.cluster.wait_for_route(f"{settings['namespace']}%{topic}" if "namespace" in settings else topic)

    def pull(self, group: str, **settings: object) -> Client:
        return self._start("pull", group, settings, {})

    def stop_all(self) -> None:
        self.cluster.tools.clients.stop_clients([client.name for client in self.started])


class Servers:
    """A name server and a broker, of ours or Apache's; started on entry, gone on exit."""

    def __init__(
        self,
        folder: Path,
        netns: NetNamespace | None,
        properties: Mapping[str, object],
        *,
        are_apaches: bool,
        version: str = apache.V5,
    ) -> None:
        settings = {
            "messageDelayLevel": " ".join(f"{delay}s" for delay in DELAYS_S),
            "mappedFileSizeCommitLog": 64 << 20,
            **properties,
        }
        port = netns.free_port() if netns else free_port()
        self.name_server: ours.NameServer | apache.NameServer
        self.broker: ours.Broker | apache.Broker
        place, broker_place = folder / "namesrv", folder / "broker"
        if are_apaches:
            flags = apache.QUICK_START
            self.name_server = apache.NameServer(version, work_dir=place, port=port, netns=netns, jvm_args=flags)
            self.broker = apache.Broker(
                version,
                self.name_server.address,
                work_dir=broker_place,
                netns=netns,
                properties=settings,
                jvm_args=flags,
            )
        else:
            self.name_server = ours.NameServer(work_dir=place, port=port, netns=netns)
            self.broker = ours.Broker(self.name_server.address, work_dir=broker_place, netns=netns, properties=settings)

    def __enter__(self) -> Self:
        self.name_server.start()
        try:
            self.broker.start()
        except BaseException:
            self.name_server.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.kill()
        self.name_server.kill()
