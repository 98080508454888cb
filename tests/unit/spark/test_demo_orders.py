"""Both ends of the demonstration's pipeline, with servers of ours and without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from apogeemq.blocking import Message, Producer
from apogeemq.errors import RequestTimedOut
from apogeemq.spark.demo_orders import RevenueReader
from tests.our_servers import our_servers

TOPIC = "revenue"
WINDOWS = 100  # more than a broker gives at once


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with our_servers(tmp_path_factory.mktemp("servers")) as address, Producer(address, "windows") as producer:
        producer.create_topic(TOPIC, 1)
        for number in range(WINDOWS):
            row = {"product": "tea", "orders": 2, "items": 3, "revenue": 8.4, "window_end": f"{number:04d}"}
            producer.send(Message(TOPIC, json.dumps(row).encode()))
        yield address


@pytest.fixture
def reader(name_server: str) -> Iterator[RevenueReader]:
    found = RevenueReader(name_server, TOPIC)
    found.start()
    yield found
    found.close()


def test_a_pull_that_fails_counts_nothing_twice(reader: RevenueReader, monkeypatch: pytest.MonkeyPatch) -> None:
    pull, answered = reader._consumer.pull, 0

    def second_fails(*question: Any) -> Any:
        nonlocal answered
        if answered == 1:
            raise RequestTimedOut("no answer")
        answered += 1
        return pull(*question)

    with monkeypatch.context() as patch:
        patch.setattr(reader._consumer, "pull", second_fails)
        with pytest.raises(RequestTimedOut):
            reader.read_new()
    assert 0 < reader.windows < WINDOWS
    reader.read_new()
    assert (reader.windows, reader.orders) == (WINDOWS, 2 * WINDOWS)
    assert reader.products["tea"].revenue == WINDOWS * Decimal("8.4")
    reader.read_new()
    assert reader.windows == WINDOWS


def test_a_topic_is_counted(reader: RevenueReader) -> None:
    found = reader.topic(TOPIC)
    assert (found.name, found.brokers, found.queues, found.messages) == (TOPIC, ("broker-a",), 1, WINDOWS)
