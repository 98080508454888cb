"""The table of consumer groups."""

from __future__ import annotations

import json

import pytest

from apogeemq.broker.tables.groups import GroupTable
from apogeemq.errors import ProtocolError
from apogeemq.model.groups import SYSTEM_GROUPS, GroupConfig

APACHE_FILE = b"""{
\t"dataVersion":{
\t\t"counter":3,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000000
\t},
\t"forbiddenTable":{"G":{"T":4}},
\t"subscriptionGroupTable":{
\t\t"G":{
\t\t\t"attributes":{},
\t\t\t"brokerId":0,
\t\t\t"consumeBroadcastEnable":false,
\t\t\t"consumeEnable":true,
\t\t\t"consumeFromMinEnable":true,
\t\t\t"consumeMessageOrderly":false,
\t\t\t"groupName":"G",
\t\t\t"groupRetryPolicy":{"type":"CUSTOMIZED"},
\t\t\t"notifyConsumerIdsChangedEnable":true,
\t\t\t"retryMaxTimes":3,
\t\t\t"retryQueueNums":2,
\t\t\t"whichBrokerWhenConsumeSlowly":1
\t\t}
\t}
}"""


def test_a_group_is_made_by_being_used() -> None:
    table = GroupTable()
    told: list[int] = []
    table.on_change = lambda: told.append(table.data_version.counter)
    assert table.find("G", 5) == GroupConfig(group_name="G")
    assert table.find("G", 6) is table.get("G")
    assert told == [1]
    assert table.data_version.timestamp == 5


@pytest.mark.parametrize("name", ["", "../x", "a@b", "g" * 121])
def test_a_name_no_group_can_have_makes_none(name: str) -> None:
    table = GroupTable()
    assert table.find(name, 1) is None
    assert set(table.groups) == set(SYSTEM_GROUPS)


def test_groups_made_by_people_only() -> None:
    table = GroupTable(is_auto_creation_on=False)
    assert table.find("G", 1) is None
    table.put(GroupConfig(group_name="G"), 2)
    assert table.find("G", 3) is not None


def test_there_is_a_most_to_groups_made_by_being_used() -> None:
    table = GroupTable(max_groups=len(SYSTEM_GROUPS) + 2)
    assert [table.find(f"G{number}", 1) is not None for number in range(4)] == [True, True, False, False]
    assert table.find("G0", 1) is not None


def test_a_deleted_group_takes_what_it_was_forbidden_with_it() -> None:
    table = GroupTable()
    table.find("G", 1)
    table.forbid("G", "T", 4, 2)
    assert table.forbidden == {"G": {"T": 4}}
    assert table.delete("G", 3)
    assert not table.delete("G", 4)
    assert table.forbidden == {}
    assert table.data_version.counter == 3


def test_what_was_forbidden_can_be_allowed_again() -> None:
    table = GroupTable()
    table.forbid("G", "T", 4, 1)
    table.forbid("G", "U", 4, 1)
    table.forbid("G", "T", 0, 2)
    assert table.forbidden == {"G": {"U": 4}}
    table.forbid("G", "U", 0, 3)
    table.forbid("none", "T", 0, 4)
    assert table.forbidden == {}


def test_what_apache_wrote_is_read() -> None:
    table = GroupTable()
    table.load(APACHE_FILE)
    assert table.get("G") == GroupConfig(
        group_name="G", consume_broadcast_enable=False, retry_max_times=3, retry_queue_nums=2
    )
    assert table.forbidden == {"G": {"T": 4}}
    assert table.data_version.counter == 3
    assert set(SYSTEM_GROUPS) < set(table.groups)


def test_what_is_written_is_read_again() -> None:
    table = GroupTable()
    table.put(GroupConfig(group_name="G", retry_max_times=1), 7)
    table.forbid("G", "T", 4, 8)
    assert set(json.loads(table.content())) == {"dataVersion", "forbiddenTable", "subscriptionGroupTable"}
    again = GroupTable()
    again.load(table.content())
    assert (again.groups, again.forbidden, again.data_version) == (table.groups, table.forbidden, table.data_version)


@pytest.mark.parametrize("content", [b"", b"{", b'{"subscriptionGroupTable":[]}'])
def test_what_is_no_table_is_said(content: bytes) -> None:
    with pytest.raises(ProtocolError):
        GroupTable().load(content)
