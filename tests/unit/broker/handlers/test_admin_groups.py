"""Consumer groups made, changed, shown and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.broker.handlers.asking import commit, committed, create_group, create_topic
from tests.unit.broker.handlers.members import Member, serving
from tests.unit.event_loop import in_loop

CREATE = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP


async def config_of(client: Member, group: str) -> dict[str, Any]:
    config: dict[str, Any] = msgspec.json.decode(
        (await client.ok(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group=group)).body
    )
    return config


@in_loop
async def test_group_is_made_with_defaults_and_on_the_disk_when_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await client.ok(CREATE, b'{"groupName":"G","retryMaxTimes":3,"consumeEnable":null,"future":1}')
        config = await config_of(client, "G")
        assert (config["groupName"], config["retryMaxTimes"], config["consumeEnable"]) == ("G", 3, True)
        kept = msgspec.json.decode((tmp_path / "store/config/subscriptionGroup.json").read_bytes())
        assert kept["subscriptionGroupTable"]["G"] == config
        await client.ok(CREATE, b'{"groupName":"G","consumeEnable":false}')
        config = await config_of(client, "G")
        assert (config["retryMaxTimes"], config["consumeEnable"]) == (16, False)


@pytest.mark.parametrize(
    ("body", "code", "remark"),
    [
        (b"{}", 29, "The specified group is blank."),
        (
            b'{"groupName":"../x"}',
            29,
            "The specified group: ../x, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        (
            b'{"groupName":"' + b"g" * 121 + b'"}',
            29,
            f"The specified group: {'g' * 121}, is longer than group max length: 120",
        ),
        (b'{"groupName":"G","retryQueueNums":-1}', 29, "retryQueueNums=-1: expected 0 to 1024"),
        (b'{"groupName":"G","attributes":{"+x":"1"}}', 1, "unsupported key: x"),
        (b'{"groupName":"G","retryMaxTimes":3000000000}', 1, "body: "),
        (b'{"groupName":"G","groupRetryPolicy":{"x":"' + b"y" * 5000 + b'"}}', 1, "body: a retry policy is longer"),
        (b"no json", 1, "body: "),
    ],
)
@in_loop
async def test_bad_group_is_refused_and_nothing_changes(tmp_path: Path, body: bytes, code: int, remark: str) -> None:
    async with serving(tmp_path) as broker:
        before = dict(broker.state.groups.groups)
        said, words = await broker.member("admin").refused(CREATE, body)
        assert said == code
        assert (words or "").startswith(remark)
        assert broker.state.groups.groups == before


@in_loop
async def test_nothing_said_is_nothing_done(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        before = dict(broker.state.groups.groups)
        await broker.member("admin").ok(CREATE)
        assert broker.state.groups.groups == before


@in_loop
async def test_list_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
        await client.ok(code, b'{"groupConfigList":[{"groupName":"A"},{"groupName":"B","retryMaxTimes":1}]}')
        assert broker.state.groups.groups["B"].retry_max_times == 1
        answer = await client.ask(code, b'{"groupConfigList":[{"groupName":"C"},{"groupName":""}]}')
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "C" not in broker.state.groups.groups


@in_loop
async def test_groups_have_a_limit(tmp_path: Path) -> None:
    async with serving(tmp_path, maxGroups="9") as broker:
        client = broker.member("admin")
        await create_group(client, "G1")
        code, remark = await client.refused(CREATE, b'{"groupName":"G2"}')
        assert (code, remark) == (ResponseCode.SYSTEM_ERROR, "this broker keeps at most 9 groups")


@in_loop
async def test_all_groups_at_once_or_by_pages(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        answer = await client.ok(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        assert answer.fields()["totalGroupNum"] == "8"
        assert set(msgspec.json.decode(answer.body)["subscriptionGroupTable"]) == set(broker.state.groups.groups)
        answer = await client.ok(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groupSeq="0", maxGroupNum="3")
        page = msgspec.json.decode(answer.body)["subscriptionGroupTable"]
        assert list(page) == sorted(broker.state.groups.groups)[:3]


@in_loop
async def test_unknown_group_is_made_by_being_asked_for_where_that_is_allowed(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        assert (await config_of(client, "NEW"))["groupName"] == "NEW"
        answer = await client.refused(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="../x")
        assert answer == (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        broker.state.groups.is_auto_creation_on = False
        answer = await client.refused(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="OTHER")
        assert answer == (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")


@pytest.mark.parametrize("flag", ["cleanOffset", "removeOffset"])
@in_loop
async def test_deleted_group_keeps_its_offsets_unless_they_are_to_go(tmp_path: Path, flag: str) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        await create_group(client)
        await commit(client, 5)
        await client.ok(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="G")
        assert "G" not in broker.state.groups.groups
        assert await committed(client) == 5
        await client.ok(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="G", **{flag: "true"})
        assert broker.state.offsets.table == {}


@in_loop
async def test_group_is_kept_from_a_topic_and_let_in_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_group(client)
        code = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN

        async def is_readable(**fields: str) -> bool:
            answer = msgspec.json.decode((await client.ok(code, group="G", topic="T", **fields)).body)
            assert (answer["group"], answer["topic"]) == ("G", "T")
            return bool(answer["readable"])

        assert await is_readable()
        assert not await is_readable(readable="false")
        assert broker.state.groups.forbidden == {"G": {"T": 4}}
        assert not await is_readable()
        assert await is_readable(readable="true")
        assert broker.state.groups.forbidden == {}


@pytest.mark.parametrize(
    ("group", "topic", "code"),
    [("NONE", "T", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST), ("G", "../x", ResponseCode.INVALID_PARAMETER)],
)
@in_loop
async def test_what_cannot_be_forbidden(tmp_path: Path, group: str, topic: str, code: int) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_group(client)
        answer = await client.ask(
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, group=group, topic=topic, readable="false"
        )
        assert answer.code == code
        assert broker.state.groups.forbidden == {}
