"""A broker is killed while its messages are read, and started again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apogeemq.blocking import Message, Producer
from apogeemq.errors import ConnectFailed, NoRoute
from apogeemq.model.queues import MessageQueue
from apogeemq.spark.connection import Connection
from apogeemq.spark.reading import chunks
from apogeemq.spark.reading.partition_reader import read_ranges
from apogeemq.spark.source.message_filter import MessageFilter
from apogeemq.spark.source.ranges import range_of
from apogeemq.spark.source.schema import arrow_schema, spark_schema
from tests.peers.ours import Broker, NameServer

MESSAGES = 20_000  # far more than are read ahead
BATCH = 500


@pytest.fixture
def names(tmp_path: Path) -> Iterator[NameServer]:
    with NameServer(work_dir=tmp_path / "names") as server:
        yield server


@pytest.fixture
def broker(names: NameServer, tmp_path: Path) -> Iterator[Broker]:
    with Broker(names.address, work_dir=tmp_path / "broker") as server:
        yield server


@pytest.fixture
def queue(names: NameServer, broker: Broker) -> MessageQueue:
    """With so many messages."""
    with Producer(names.address, group="P") as producer:
        producer.create_topic("T", 1)
        queue = MessageQueue(broker.broker_name, 0, "T")
        for first in range(0, MESSAGES, BATCH):
            bodies = (b"%d" % number for number in range(first, first + BATCH))
            producer.send_batch([Message("T", body) for body in bodies], queue=queue)
    return queue


def test_every_message_is_read_once(
    names: NameServer, broker: Broker, queue: MessageQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "ROWS", 500)
    connection = Connection(name_server=names.address, retries=100, retry_delay_ms=50)
    batches = read_ranges(
        connection,
        "G",
        [range_of(queue, 0, MESSAGES)],
        arrow_schema(spark_schema(("queue_offset", "body"))),
        MessageFilter(),
    )
    rows = []
    for number, batch in enumerate(batches):
        rows += batch.to_pylist()
        if number in (1, 5):
            broker.kill()
            broker.start()
    assert rows == [{"queue_offset": number, "body": b"%d" % number} for number in range(MESSAGES)]


def test_a_broker_that_does_not_come_back_is_an_error(
    names: NameServer, broker: Broker, queue: MessageQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "ROWS", 500)
    connection = Connection(name_server=names.address, retries=2, retry_delay_ms=50, connect_timeout_ms=500)
    batches = read_ranges(
        connection, "H", [range_of(queue, 0, MESSAGES)], arrow_schema(spark_schema(("queue_offset",))), MessageFilter()
    )
    next(batches)
    broker.kill()
    with pytest.raises((ConnectFailed, NoRoute)):
        list(batches)
