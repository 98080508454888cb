"""Queues dealt out by the broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.broker.handlers.asking import create_group, create_topic
from tests.unit.broker.handlers.members import Member, consumer, serving, subscription
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import Home


async def assigned(client: Member, client_id: str, **more: Any) -> list[int] | None:
    question = {
        "topic": "T",
        "consumerGroup": "G",
        "clientId": client_id,
        "strategyName": "AVG",
        "messageModel": "CLUSTERING",
        **more,
    }
    answer = await client.ok(RequestCode.QUERY_ASSIGNMENT, msgspec.json.encode(question))
    rows = msgspec.json.decode(answer.body).get("messageQueueAssignments")
    if rows is None:
        return None
    assert {row["mode"] for row in rows} <= {"PULL"}
    assert {row["messageQueue"]["brokerName"] for row in rows} <= {"broker-a"}
    return [row["messageQueue"]["queueId"] for row in rows]


@in_loop
async def test_members_share_the_queues(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client, queues=5)
        assert await assigned(client, "c1") is None  # nobody is online
        for name in ("c2", "c1"):
            await broker.member(name).heartbeat(consumer("G", subscription("T")))
        assert await assigned(client, "c1") == [0, 1, 2]
        assert await assigned(client, "c2") == [3, 4]
        assert await assigned(client, "c2", strategyName="AVG_BY_CIRCLE") == [1, 3]
        assert await assigned(client, "c1", messageModel="BROADCASTING") == [0, 1, 2, 3, 4]
        assert await assigned(client, "stranger") == []
        assert await assigned(client, "c1", strategyName="NONE") is None
        assert await assigned(client, "c1", topic="NONE") is None


@in_loop
async def test_name_servers_say_which_queues_there_are(tmp_path: Path) -> None:
    async with (
        Home(tmp_path / "names").serve() as names,
        serving(tmp_path, namesrvAddr=names.address) as broker,
    ):
        client = broker.member("admin")
        await create_topic(client, queues=2)
        await broker.member("c1").heartbeat(consumer("G", subscription("T")))
        while await names.client().route("T") is None:
            pass
        assert await assigned(client, "c1") == [0, 1]
        assert await assigned(client, "c1", topic="NONE") is None


@in_loop
async def test_modes(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        await create_group(client)
        mode = {"topic": "T", "consumerGroup": "G", "mode": "PULL", "popShareQueueNum": 0}
        await client.ok(RequestCode.SET_MESSAGE_REQUEST_MODE, msgspec.json.encode(mode))
        answer = await client.ok(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        assert msgspec.json.decode(answer.body) == {"messageRequestModeMap": {"T": {"G": mode}}}


@pytest.mark.parametrize(
    ("body", "code", "remark"),
    [
        ({"topic": "%RETRY%G"}, ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode"),
        ({"topic": "NONE"}, ResponseCode.TOPIC_NOT_EXIST, "topic[NONE] not exist"),
        ({"consumerGroup": "../x"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist"),
        ({"mode": "POP"}, ResponseCode.INVALID_PARAMETER, "mode=POP: this broker does not have it yet"),
        ({"mode": "push"}, ResponseCode.INVALID_PARAMETER, "mode=push: expected PULL"),
    ],
)
@in_loop
async def test_modes_that_cannot_be(tmp_path: Path, body: dict[str, str], code: int, remark: str) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        asked = msgspec.json.encode({"topic": "T", "consumerGroup": "G", "mode": "PULL", **body})
        assert await client.refused(RequestCode.SET_MESSAGE_REQUEST_MODE, asked) == (code, remark)
        answer = await client.ok(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        assert msgspec.json.decode(answer.body) == {"messageRequestModeMap": {}}


@pytest.mark.parametrize("code", [RequestCode.QUERY_ASSIGNMENT, RequestCode.SET_MESSAGE_REQUEST_MODE])
@in_loop
async def test_bodies_that_are_none(tmp_path: Path, code: int) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        for body in (b"", b"no json", b"{}", b"[]"):
            assert (await client.refused(code, body))[0] == ResponseCode.SYSTEM_ERROR
