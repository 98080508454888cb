"""A name server and two brokers, ours or Apache's, as processes: what the connector is tested against.

Both kinds have the same face, so that a test that takes `any_world` is played in both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from apogeemq.blocking import ClientOptions, Message, MessageQueue, Producer, ProducerOptions, SendResult
from apogeemq.blocking.background import background_loop
from apogeemq.errors import ApogeeError, NoRoute
from apogeemq.protocol.command import Command
from apogeemq.transport.pool import ConnectionPool
from tests.peers import apache, ours
from tests.peers.process import free_port, wait_for

OURS = "apogee"
APACHES = "apache"
BROKERS = ("broker-a", "broker-b")
_REGISTERED_SECONDS = 90
_REQUEST_SECONDS = 20.0
_BATCH = 500

NameServer = ours.NameServer | apache.NameServer
Broker = ours.Broker | apache.Broker


class World:
    """Started on entry, gone on exit. What a test has killed, `heal` starts again."""

    _numbers = itertools.count(1)

    def __init__(self, kind: str, folder: Path, properties: Mapping[str, object] | None = None) -> None:
        self.kind = kind
        self.name_server, self.brokers = _servers(kind, folder, properties or {})
        self._producer: Producer | None = None

    def __enter__(self) -> Self:
        try:
            self.heal()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._producer is not None:
            self._producer.stop()
        for server in (*self.brokers, self.name_server):
            server.kill()

    @property
    def address(self) -> str:
        """Of the name server: the option `nameServer`."""
        return self.name_server.address

    @property
    def options(self) -> dict[str, str]:
        return {"nameServer": self.address}

    @property
    def producer(self) -> Producer:
        """For whatever has no shorter way here."""
        if self._producer is None:
            options = ProducerOptions(send_timeout_seconds=_REQUEST_SECONDS)
            client = ClientOptions(
                instance_name=self.name("world"), request_timeout_seconds=_REQUEST_SECONDS, connect_timeout_seconds=10
            )
            self._producer = Producer(self.address, self.name("world"), options=options, client=client)
            self._producer.start()
        return self._producer

    def name(self, word: str) -> str:
        """Of a topic or group that no other test has."""
        return f"Spark-{word}-{next(self._numbers)}"

    # -- topics and messages ---------------------------------------------------------------------------------

    def topic(self, word: str = "topic", queues: int = 2) -> str:
        """A new topic with so many queues at each of the two brokers."""
        topic = self.name(word)
        self.create_topic(topic, queues)
        return topic

    def create_topic(self, topic: str, queues: int = 2) -> None:
        """Also for one that exists: its number of queues is changed. Returns when the name server knows."""
        self.producer.create_topic(topic, queues)
        expected = queues * sum(broker.is_running() for broker in self.brokers)
        wait_for(lambda: len(self.queues(topic)) == expected, f"{topic} has {expected} queues")

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """By broker and number; none when there is no route."""
        try:
            found = self.producer.subscribe_queues(topic)
        except NoRoute:
            return ()
        return tuple(sorted(found, key=lambda queue: (queue.broker_name, queue.queue_id)))

    def send(self, *messages: Message) -> list[SendResult]:
        """One after the other; all that a message can have."""
        sent = [self.producer.send(message) for message in messages]
        self._await(sent, [[message] for message in messages])
        return sent

    def fill(
        self, topic: str, bodies: Iterable[bytes], *, tags: str = "", properties: Mapping[str, str] | None = None
    ) -> int:
        """Many messages, quickly, in batches that go round all queues. How many they were."""
        messages = (Message(topic, body, tags=tags, properties=properties or {}) for body in bodies)
        # A name server killed soon after a topic was made knows it again when its brokers have registered.
        known = wait_for(lambda: self.queues(topic), f"{topic} has queues", timeout_s=_REGISTERED_SECONDS)
        queues = itertools.cycle(known)
        batches = list(_batches(messages))
        self._await([self.producer.send_batch(batch, queue=next(queues)) for batch in batches], batches)
        return sum(map(len, batches))

    def put(self, queue: MessageQueue, messages: Sequence[Message]) -> SendResult:
        """A batch in a queue of your choice."""
        sent = self.producer.send_batch(messages, queue=queue)
        self._await([sent], [messages])
        return sent

    def _await(self, sent: Iterable[SendResult], batches: Iterable[Sequence[Message]]) -> None:
        """Apache's brokers put messages into their queues a moment after they answered."""
        pairs = zip(sent, batches, strict=True)
        ends = {result.queue: result.queue_offset + len(batch) for result, batch in pairs}
        wait_for(lambda: all(self.producer.max_offset(queue) >= end for queue, end in ends.items()), "queues are full")

    def max_offsets(self, topic: str) -> dict[MessageQueue, int]:
        return {queue: self.producer.max_offset(queue) for queue in self.queues(topic)}

    # -- servers ---------------------------------------------------------------------------------------------

    def ask_broker(self, number: int, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> Command:
        """A request of any kind to one of the brokers, and its answer, whatever that is."""
        return self.ask(self.brokers[number].address, code, fields, body)

    def ask(self, address: str, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> Command:
        """The same of any server."""

        async def ask() -> Command:
            pool = ConnectionPool()
            try:
                return await pool.request(address, code, dict(fields or {}), body, timeout_seconds=_REQUEST_SECONDS)
            finally:
                await pool.close()

        return background_loop().run(ask)

    def restart_broker(self, number: int) -> None:
        """Killed, and started again with the store it had."""
        self.brokers[number].kill()
        self.heal()

    def restart_name_server(self) -> None:
        self.name_server.kill()
        self.heal()

    def heal(self) -> None:
        """Everything runs, and the name server knows both brokers."""
        if not self.name_server.is_running():
            self.name_server.start()
        stopped = [broker for broker in self.brokers if not broker.is_running()]
        for broker in stopped:
            broker.launch()
        for broker in stopped:
            broker.wait_until_ready()
        wait_for(self._is_whole, "the name server knows both brokers", timeout_s=_REGISTERED_SECONDS)

    def _is_whole(self) -> bool:
        try:
            names = {queue.broker_name for queue in self.producer.publish_queues("TBW102")}
        except ApogeeError:
            return False
        return names == set(BROKERS)


def _batches(messages: Iterator[Message]) -> Iterator[Sequence[Message]]:
    while batch := tuple(itertools.islice(messages, _BATCH)):
        yield batch


def _servers(kind: str, folder: Path, properties: Mapping[str, object]) -> tuple[NameServer, tuple[Broker, ...]]:
    port = free_port()
    names_folder = folder / "names"
    if kind == OURS:
        name_server = ours.NameServer(work_dir=names_folder, port=port)
        return name_server, tuple(
            ours.Broker(name_server.address, work_dir=folder / name, name=name, properties=properties)
            for name in BROKERS
        )
    quick = apache.QUICK_START
    names = apache.NameServer(apache.V5, work_dir=names_folder, port=port, jvm_args=quick)
    wanted = {"enablePropertyFilter": "true", "timerWheelEnable": "true", **properties}
    return names, tuple(
        apache.Broker(apache.V5, names.address, work_dir=folder / name, name=name, properties=wanted, jvm_args=quick)
        for name in BROKERS
    )
