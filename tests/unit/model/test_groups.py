"""Names of consumer groups."""

from __future__ import annotations

import msgspec
import pytest

from apogeemq.model.groups import MAX_GROUP_LENGTH, GroupConfig, group_problem, is_system_group


@pytest.mark.parametrize("name", ["G", "NS%G", "a-b_c|d", "g" * MAX_GROUP_LENGTH])
def test_names_that_are_allowed(name: str) -> None:
    assert group_problem(name) is None


@pytest.mark.parametrize("name", [None, "", "  "])
def test_blank_names(name: str | None) -> None:
    assert group_problem(name) == "The specified group is blank."


@pytest.mark.parametrize("name", ["../x", "G\n", "a@b", "G\0", "é", "\ud800"])
def test_names_with_other_characters(name: str) -> None:
    assert group_problem(name) == (
        f"The specified group: {name}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    )


def test_names_that_are_too_long() -> None:
    name = "g" * (MAX_GROUP_LENGTH + 1)
    assert group_problem(name) == f"The specified group: {name}, is longer than group max length: 120"


def test_system_groups() -> None:
    assert is_system_group("TOOLS_CONSUMER")
    assert is_system_group("CID_RMQ_SYS_ANY")
    assert not is_system_group("G")


def test_a_group_is_written_with_apaches_names_and_read_without_most_of_them() -> None:
    assert msgspec.json.decode(msgspec.json.encode(GroupConfig(group_name="G"))) == {
        "attributes": {},
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupName": "G",
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }
    assert msgspec.json.decode(b'{"groupName":"G","unheardOf":1}', type=GroupConfig) == GroupConfig(group_name="G")
