"""The table of topics: made, changed, made on the way of a send, kept and read again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apogeemq.broker.tables.topics import TopicTable
from apogeemq.errors import ProtocolError
from apogeemq.model.topics import (
    AUTO_CREATE_TOPIC,
    FLAG_UNIT,
    MULTI_TAG,
    PERM_INHERIT,
    PERM_READ,
    PERM_READ_WRITE,
    TopicConfig,
)

# As a 4.9 broker writes it: tabs, and no attributes.
APACHE_FILE = b"""{
\t"dataVersion":{
\t\t"counter":7,
\t\t"timestamp":1700000000000
\t},
\t"topicConfigTable":{
\t\t"T":{
\t\t\t"order":true,
\t\t\t"perm":6,
\t\t\t"readQueueNums":4,
\t\t\t"topicFilterType":"SINGLE_TAG",
\t\t\t"topicName":"T",
\t\t\t"topicSysFlag":1,
\t\t\t"writeQueueNums":8
\t\t},
\t\t"%RETRY%G":{
\t\t\t"order":false,
\t\t\t"perm":6,
\t\t\t"readQueueNums":1,
\t\t\t"topicFilterType":"SINGLE_TAG",
\t\t\t"topicName":"%RETRY%G",
\t\t\t"topicSysFlag":0,
\t\t\t"writeQueueNums":1
\t\t}
\t}
}"""


@pytest.fixture
def table() -> TopicTable:
    """With a default topic of 8 queues."""
    made = TopicTable(max_topics=10)
    inherited = PERM_READ_WRITE | PERM_INHERIT
    made.put(TopicConfig(topic_name=AUTO_CREATE_TOPIC, read_queue_nums=8, write_queue_nums=8, perm=inherited), 0)
    return made


def create(table: TopicTable, topic: str = "T", default: str = AUTO_CREATE_TOPIC, queues: int = 4, **more: Any) -> Any:
    is_on = more.pop("is_auto_creation_on", True)
    return table.created_on_send(topic, default, queues, more.pop("flag", 0), 1, is_auto_creation_on=is_on)


# -- made on the way of a send -------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "given"), [(4, 4), (8, 8), (100, 8), (0, 0), (-3, 0)])
def test_a_new_topic_has_what_the_producer_asks_for_up_to_what_the_default_topic_has(
    table: TopicTable, asked: int, given: int
) -> None:
    made = create(table, queues=asked, flag=FLAG_UNIT)
    assert made == TopicConfig(
        topic_name="T", read_queue_nums=given, write_queue_nums=given, perm=PERM_READ_WRITE, topic_sys_flag=FLAG_UNIT
    )
    assert table.get("T") == made


def test_what_is_inherited(table: TopicTable) -> None:
    table.put(TopicConfig(topic_name="D", perm=PERM_READ | PERM_INHERIT, topic_filter_type=MULTI_TAG), 0)
    made = create(table, default="D", queues=99)
    assert (made.perm, made.topic_filter_type, made.read_queue_nums) == (PERM_READ, MULTI_TAG, 16)


def test_no_topic_comes_of_a_default_topic_that_is_unknown_or_does_not_allow_it(table: TopicTable) -> None:
    table.put(TopicConfig(topic_name="D", perm=PERM_READ_WRITE), 0)
    version = table.data_version
    assert create(table, default="D") is None
    assert create(table, default="none") is None
    assert create(table, default="") is None
    assert (table.get("T"), table.data_version) == (None, version)


def test_automatic_creation_can_be_off_and_on_again(table: TopicTable) -> None:
    table.put(TopicConfig(topic_name="D", perm=PERM_READ_WRITE | PERM_INHERIT), 0)
    assert create(table, "A", is_auto_creation_on=False) is None
    assert create(table, "B", default="D", is_auto_creation_on=False) is not None
    assert create(table, "C", is_auto_creation_on=True) is not None


def test_there_is_a_most_to_topics_made_by_being_used(table: TopicTable) -> None:
    made = [create(table, f"T{number}") is not None for number in range(12)]
    assert made == [True] * 9 + [False] * 3


# -- changing ------------------------------------------------------------------------------------------------


def test_every_change_is_a_new_version_and_is_told(table: TopicTable) -> None:
    told: list[list[str]] = []
    table.on_change = lambda changed: told.append([config.topic_name for config in changed])
    before = table.data_version.counter
    table.put(TopicConfig(topic_name="A"), 5)
    assert (table.data_version.counter, table.data_version.timestamp) == (before + 1, 5)
    table.put_all([TopicConfig(topic_name="B"), TopicConfig(topic_name="A", perm=4)], 6)
    assert table.delete("B", 7)
    assert not table.delete("B", 8)
    create(table, "C")
    assert told == [["A"], ["B", "A"], [], ["C"]]
    assert table.data_version.counter == before + 4
    assert table.topics["A"].perm == 4


def test_a_topic_that_must_be_there_is_made_once(table: TopicTable) -> None:
    made = table.ensure("%RETRY%G", 2, PERM_READ_WRITE, 0, 1)
    version = table.data_version
    assert table.ensure("%RETRY%G", 5, PERM_READ, 1, 2) is made
    assert (made.read_queue_nums, made.perm, table.data_version) == (2, PERM_READ_WRITE, version)


def test_name_servers_say_which_topics_are_ordered(table: TopicTable) -> None:
    table.put(TopicConfig(topic_name="A"), 0)
    table.put(TopicConfig(topic_name="B", order=True), 0)
    before = table.data_version.counter
    table.set_ordered(["A", "unknown"], 1)
    table.set_ordered(["A"], 2)
    assert (table.topics["A"].order, table.topics["B"].order) == (True, True)
    assert table.data_version.counter == before + 1


def test_system_topics_are_apaches_and_the_brokers_own(table: TopicTable) -> None:
    table.own_system_topics.add("broker-a")
    assert table.is_system("broker-a")
    assert table.is_system("TBW102")
    assert not table.is_system("T")
    assert {"broker-a", "TBW102"} <= table.system_topics


# -- keeping -------------------------------------------------------------------------------------------------


def test_what_apache_wrote_is_read() -> None:
    table = TopicTable()
    table.load(APACHE_FILE)
    assert table.topics["T"] == TopicConfig(
        topic_name="T", order=True, read_queue_nums=4, write_queue_nums=8, topic_sys_flag=1
    )
    assert set(table.topics) == {"T", "%RETRY%G"}
    assert (table.data_version.counter, table.data_version.timestamp) == (7, 1700000000000)


def test_what_is_written_is_read_again(table: TopicTable) -> None:
    table.put(TopicConfig(topic_name="T", attributes={"message.type": "NORMAL"}, order=True), 9)
    written = json.loads(table.content())
    assert written["topicConfigTable"]["T"]["attributes"] == {"message.type": "NORMAL"}
    assert written["topicConfigTable"]["T"]["topicName"] == "T"
    again = TopicTable()
    again.load(table.content())
    assert (again.topics, again.data_version) == (table.topics, table.data_version)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"topicConfigTable":{"T":1}}', b'{"topicConfigTable":', b"\0" * 100])
def test_what_is_no_table_is_said_and_changes_nothing(table: TopicTable, content: bytes) -> None:
    before = dict(table.topics)
    with pytest.raises(ProtocolError):
        table.load(content)
    assert table.topics == before
