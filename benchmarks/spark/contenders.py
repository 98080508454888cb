"""Brokers, topics and Sparks of both sides: started and filled once, used in every round."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from benchmarks import wire
from benchmarks.broker import asking
from benchmarks.broker.contenders import PROPERTIES
from benchmarks.client.servers import Kafka
from benchmarks.spark import sides
from benchmarks.spark.jobs import Action, CreateKafkaTopic, Job, Read, Stream, Write
from benchmarks.spark.sides import Result, Side, Spark
from tests.peers import ours

QUEUES = 8
PULL_MESSAGES = 4_096
PULL_BYTES = 1 << 20
USUAL_PULL_MESSAGES = 32
USUAL_PULL_BYTES = 256 << 10

_CREATE_TOPIC, _UPDATE_CONFIG = 17, 25
_FILLED_AT_ONCE = 32  # by asking.fill


class Topic(NamedTuple):
    """`rows` messages with bodies of `size` bytes, evenly over the queues; or half as many to half as many again."""

    name: str
    size: int
    rows: int
    queues: int = QUEUES
    is_varied: bool = False

    @classmethod
    def of(cls, size: int, rows: int, queues: int = QUEUES, *, is_varied: bool = False) -> Topic:
        step = queues * _FILLED_AT_ONCE
        rows = -(-rows // step) * step
        return cls(f"bench-{size}-{rows}-{queues}" + "-varied" * is_varied, size, rows, queues, is_varied)


class Contenders:
    """Everything is started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._sparks: dict[Side, Spark] = {}
        self._name_server = ours.NameServer(work_dir=folder / "namesrv", args=("--log-level", "warning"))
        self._broker: ours.Broker | None = None
        self._kafka: Kafka | None = None
        self._filled: set[tuple[Side, str]] = set()
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # -- jobs ------------------------------------------------------------------------------------------------

    def run(self, side: Side, job: Job) -> Result:
        return self.spark(side).run(job)

    def read(self, side: Side, topic: Topic, action: Action, **options: str) -> Job:
        return Read(format=self._format(side), options=self._read_options(side, topic, options), action=action)

    def stream(self, side: Side, topic: Topic, action: Action, **options: str) -> Job:
        return Stream(
            format=self._format(side),
            options=self._read_options(side, topic, options),
            checkpoint=str(self._folder / f"checkpoint-{next(self._numbers)}"),
            action=action,
        )

    def write(self, side: Side, topic: Topic, rows: int, **options: str) -> Job:
        """Bodies of the topic's size, no two the same; made by copying, because to pad a text takes Spark longer than
        to send it."""
        column = {"ours": "body", "kafka": "value"}[side]
        most = topic.size * 3 // 2 if topic.is_varied else topic.size
        size = f"CAST({topic.size // 2} + id * 7919 % {topic.size + 1} AS INT)" if topic.is_varied else topic.size
        text = f"concat(CAST(id AS STRING), repeat('b', {most}))"
        body = f"substring(CAST({text} AS BINARY), 1, {size}) AS {column}"
        return Write(
            format=self._format(side),
            options={**self._where(side), "topic": topic.name, **options},
            columns=[body],
            rows=rows,
        )

    def _format(self, side: Side) -> str:
        return {"ours": "rocketmq", "kafka": "kafka"}[side]

    def _where(self, side: Side) -> dict[str, str]:
        if side == "kafka":
            return {"kafka.bootstrap.servers": self.kafka.address}
        return {"nameServer": self.name_server.address}

    def _read_options(self, side: Side, topic: Topic, options: dict[str, str]) -> dict[str, str]:
        return {**self._where(side), "subscribe": topic.name, "startingOffsets": "earliest", **options}

    # -- topics ----------------------------------------------------------------------------------------------

    def fill(self, side: Side, topic: Topic) -> None:
        """Once; later calls find it filled. Both sides must find every message."""
        if (side, topic.name) in self._filled:
            return
        self.create(side, topic)
        if side == "ours":
            _fill(self.broker, topic)
        else:
            job = self.write("kafka", topic, topic.rows, **{"kafka.linger.ms": "20"})
            assert isinstance(job, Write)
            job.columns.append(f"CAST(id % {topic.queues} AS INT) AS partition")
            self.run("kafka", job)
        self.check_count(side, topic)
        self._filled.add((side, topic.name))

    def check_count(self, side: Side, topic: Topic) -> None:
        """Refuse to measure a side that loses messages, or invents some."""
        found = self.run(side, self.read(side, topic, "count")).answer.rows
        if found != topic.rows:
            raise RuntimeError(f"{side}: {topic.name} has {found} rows, expected {topic.rows}")

    def create(self, side: Side, topic: Topic) -> None:
        if side == "kafka":
            job = CreateKafkaTopic(server=self.kafka.address, topic=topic.name, partitions=topic.queues)
            self.run("kafka", job)
        else:
            _create(self.broker, topic)

    def cold_store(self, topic: Topic) -> Path:
        """The folder of a broker that had this topic alone, and has been shut down."""
        folder = self._folder / f"cold-{topic.name}"
        if not folder.exists():
            broker = self._make_broker(folder, "broker-cold")
            with broker:
                _create(broker, topic)
                _fill(broker, topic)
                broker.stop()
        return folder / "store"

    @contextlib.contextmanager
    def usual_pulls(self) -> Iterator[None]:
        """Our broker as it comes: 32 messages a pull."""
        self._limit_pulls(USUAL_PULL_MESSAGES, USUAL_PULL_BYTES)
        try:
            yield
        finally:
            self._limit_pulls(PULL_MESSAGES, PULL_BYTES)

    def _limit_pulls(self, messages: int, size: int) -> None:
        text = "".join(f"{key}={value}\n" for key, value in pull_limits(messages, size).items())
        _ask(self.broker, _UPDATE_CONFIG, {}, text.encode())

    # -- processes -------------------------------------------------------------------------------------------

    def spark(self, side: Side) -> Spark:
        if side not in self._sparks:
            make = {"ours": sides.ours, "kafka": sides.kafka}[side]
            self._sparks[side] = self._stack.enter_context(make(self._folder / f"spark-{side}"))
        return self._sparks[side]

    def spark_seconds(self) -> float:
        """CPU time of both JVMs and their workers, also when they have ended."""
        return sum(spark.cpu().all for spark in self._sparks.values())

    @property
    def name_server(self) -> ours.NameServer:
        if not self._name_server.is_running():
            self._stack.enter_context(self._name_server)
        return self._name_server

    @property
    def broker(self) -> ours.Broker:
        if self._broker is None:
            self._broker = self._stack.enter_context(self._make_broker(self._folder / "broker", "broker-a"))
        return self._broker

    def _make_broker(self, folder: Path, name: str) -> ours.Broker:
        return ours.Broker(
            self.name_server.address,
            work_dir=folder,
            name=name,
            properties={**PROPERTIES, **pull_limits(PULL_MESSAGES, PULL_BYTES)},
            args=("--log-level", "warning"),
        )

    @property
    def kafka(self) -> Kafka:
        if self._kafka is None:
            self._kafka = self._stack.enter_context(Kafka(work_dir=self._folder / "kafka"))
        return self._kafka


def pull_limits(messages: int, size: int) -> dict[str, object]:
    return {"maxTransferCountOnMessageInMemory": messages, "maxTransferBytesOnMessageInMemory": size}


def _create(broker: ours.Broker, topic: Topic) -> None:
    fields = {
        "topic": topic.name,
        "defaultTopic": "TBW102",
        "readQueueNums": str(topic.queues),
        "writeQueueNums": str(topic.queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    _ask(broker, _CREATE_TOPIC, fields)


def _fill(broker: ours.Broker, topic: Topic) -> None:
    asking.fill(
        ("127.0.0.1", broker.port),
        topic.name,
        per_queue=topic.rows // topic.queues,
        size=topic.size,
        queues=topic.queues,
        keyed=True,
        varied=topic.is_varied,
    )


def _ask(broker: ours.Broker, code: int, fields: dict[str, str], body: bytes = b"") -> None:
    with contextlib.closing(wire.connect("127.0.0.1", broker.port)) as sock:
        wire.ask(sock, wire.encode(code, fields, opaque=wire.FIRST_OPAQUE, body=body))
