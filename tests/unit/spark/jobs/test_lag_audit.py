"""Which queues the audit asks about for a group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apogeemq.blocking import Message, Producer
from apogeemq.model.topics import is_system_topic
from apogeemq.spark.connection import Connection
from apogeemq.spark.jobs.lag_audit import positions
from apogeemq.spark.source.selection import Selection
from tests.our_servers import our_servers

OWN = "%RETRY%billing", "%DLQ%billing"


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """With a topic, and what two groups have had to put aside."""
    with our_servers(tmp_path_factory.mktemp("servers")) as address, Producer(address, "audited") as producer:
        for topic in ("orders", *OWN, "%RETRY%packing"):
            producer.create_topic(topic, 1)
        producer.send(Message("orders", b"one"))
        yield Connection(name_server=address)


def topics_of(connection: Connection, pattern: str) -> set[str]:
    return {found[1] for found in positions(connection, Selection(pattern=pattern), ["billing"])}


def test_a_pattern_for_everything_is_neither_the_system_nor_other_groups(connection: Connection) -> None:
    found = topics_of(connection, ".*")
    assert {"orders", *OWN} <= found
    assert "%RETRY%packing" not in found
    assert not any(map(is_system_topic, found))


def test_a_group_is_asked_about_its_own_topics_whatever_the_pattern(connection: Connection) -> None:
    assert topics_of(connection, "orders") == {"orders", *OWN}
    assert topics_of(connection, "nothing") == set(OWN)


def test_a_position_says_what_waits(connection: Connection) -> None:
    (found,) = (one for one in positions(connection, Selection(pattern="orders"), ["billing"]) if one[1] == "orders")
    assert found[:7] == ("billing", "orders", "broker-a", 0, 0, 1, None)
    assert found[7] is not None
