"""Which clients there are on which broker, started once and kept warm; and one job for any of them."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, Self

from benchmarks import wire
from benchmarks.broker import asking
from benchmarks.client import clients, servers
from benchmarks.client.clients import Client, Result
from benchmarks.client.programs.commands import Job
from benchmarks.client.servers import QUEUES
from tests.peers.apache import PeersUnavailable
from tests.peers.process import PeerError, wait_for

BrokerKind = Literal["apache", "ours"]
BROKERS: tuple[BrokerKind, BrokerKind] = ("apache", "ours")

OURS, JAVA, CPP, GRPC, KAFKA = "ours", "Java", "rocketmq (C++)", "rocketmq-python-client", "aiokafka"
ALONE = "aiokafka, one message a batch"
BARE = "ready-encoded frames, no client"
BLOCKING = "ours, without await"
PYTHON_ROCKETMQ = (CPP, GRPC)
SEND_TOPIC, FILLED_TOPIC = "bench-send", "bench-filled"
BODY_SIZE = 128

_CREATE_TOPIC, _CREATE_GROUP, _UPDATE_OFFSET, _GET_ROUTE = 17, 200, 15, 105
_BATCH = 32
_ATTEMPTS = 2  # at one job


class Contenders:
    """Clients that cannot run here are left out; `missing` says why, and who had to be started again."""

    def __init__(self, folder: Path, *, per_queue: int) -> None:
        self._folder = folder
        self._per_queue = per_queue // _BATCH * _BATCH
        self._stack = contextlib.ExitStack()
        self._groups = itertools.count(1)
        self._addresses: dict[BrokerKind, tuple[str, int]] = {}
        self._made: dict[BrokerKind, dict[str, Client | None]] = {"apache": {}, "ours": {}}
        self.missing: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def filled(self) -> int:
        return self._per_queue * QUEUES

    def names(self, broker: BrokerKind) -> tuple[str, ...]:
        """Kafka's client has a broker of its own kind, and is measured beside Apache's."""
        return (OURS, JAVA, CPP, GRPC, KAFKA) if broker == "apache" else (OURS, JAVA, CPP)

    def is_new(self, broker: BrokerKind, name: str) -> bool:
        """Whether it has done nothing yet."""
        return name not in self._made[broker]

    def client(self, broker: BrokerKind, name: str) -> Client | None:
        made = self._made[broker]
        if name not in made:
            try:
                made[name] = self._stack.enter_context(self._make(broker, name))
            except (PeersUnavailable, PeerError, AssertionError) as problem:
                made[name] = None
                self.missing[name] = str(problem).strip().splitlines()[-1]
        return made[name]

    def run(self, broker: BrokerKind, name: str, job: Job) -> Result | None:
        """None when this client cannot do it; the reason is in `missing`."""
        if name == ALONE:
            name, job = KAFKA, job._replace(do="alone")
        client = self.client(broker, name)
        if client is None:
            return None
        for _ in range(_ATTEMPTS):
            if job.do == "consume":
                job = job._replace(group=self._new_group(broker, name), max_count=self.filled)
            try:
                return client.run(job)
            except (PeerError, AssertionError, OSError) as problem:
                client.kill()
                self.missing[name] = f"{job.do}: {str(problem).strip().splitlines()[-1][:300]}"
        self._made[broker][name] = None
        return None

    # -- servers ---------------------------------------------------------------------------------------------

    def _make(self, broker: BrokerKind, name: str) -> Client:
        folder = self._folder / f"{broker}-{name.replace(' ', '-')}-client"
        if name == KAFKA:
            kafka = self._stack.enter_context(servers.Kafka(work_dir=self._folder / "kafka"))
            client = clients.foreign("aiokafka", "kafka", kafka.address, folder)
            client.start()
            client.run(Job("fill", FILLED_TOPIC, size=BODY_SIZE, max_count=self.filled))
            client.kill()
            return clients.foreign("aiokafka", "kafka", kafka.address, folder)
        name_server, port = self._cluster(broker)
        if name == GRPC:
            proxy = self._stack.enter_context(servers.Proxy(name_server, work_dir=self._folder / "proxy"))
            return clients.foreign("rocketmq-python-client", "rocketmq_grpc", proxy.address, folder)
        make: dict[str, Callable[[], Client]] = {
            OURS: lambda: clients.ours(name_server, folder),
            JAVA: lambda: clients.java(name_server, folder),
            CPP: lambda: clients.foreign("rocketmq", "rocketmq_cpp", name_server, folder),
            BLOCKING: lambda: clients.ours_blocking(name_server, folder),
            BARE: lambda: clients.bare(f"127.0.0.1:{port}", folder),
        }
        return make[name]()

    def _cluster(self, broker: BrokerKind) -> tuple[str, int]:
        if broker not in self._addresses:
            start = servers.apache_cluster if broker == "apache" else servers.our_cluster
            name_server, port = self._stack.enter_context(start(self._folder / broker))
            self._addresses[broker] = name_server, port
            for topic in (SEND_TOPIC, FILLED_TOPIC):
                _ask(port, _CREATE_TOPIC, _topic_fields(topic))
            for topic in (SEND_TOPIC, FILLED_TOPIC):
                wait_for(partial(_has_route, name_server, topic), f"a route of {topic}")
            asking.fill(("127.0.0.1", port), FILLED_TOPIC, per_queue=self._per_queue, size=BODY_SIZE)
        return self._addresses[broker]

    def _new_group(self, broker: BrokerKind, name: str) -> str:
        """A group that will read the filled topic from its first message on, whatever its client's manners."""
        group = f"bench-group-{next(self._groups)}"
        if name != KAFKA:
            _, port = self._cluster(broker)
            _ask(port, _CREATE_GROUP, {}, json.dumps({"groupName": group, "consumeEnable": True}).encode())
            for queue in range(QUEUES):
                place = {"consumerGroup": group, "topic": FILLED_TOPIC, "queueId": str(queue), "commitOffset": "0"}
                _ask(port, _UPDATE_OFFSET, place)
        return group


def _topic_fields(topic: str) -> dict[str, str]:
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(QUEUES),
        "writeQueueNums": str(QUEUES),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": "+message.type=NORMAL",
    }


def _ask(port: int, code: int, fields: dict[str, str], body: bytes = b"") -> None:
    with contextlib.closing(wire.connect("127.0.0.1", port)) as sock:
        wire.ask(sock, wire.encode(code, fields, opaque=wire.FIRST_OPAQUE, body=body))


def _has_route(name_server: str, topic: str) -> bool:
    """Apache's broker answers a new topic before the name server knows of it; when that did not hear the first
    word, only the next registration tells it."""
    host, port = name_server.split(":")
    with contextlib.closing(wire.connect(host, int(port))) as sock:
        sock.sendall(wire.encode(_GET_ROUTE, {"topic": topic}, opaque=wire.FIRST_OPAQUE))
        return bool(wire.receive(sock).header["code"] == 0)
