"""Offsets of groups, moved and copied by administrators."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.broker.handlers.asking import (
    commit,
    committed,
    create_group,
    create_topic,
    pull_fields,
    send,
    told,
)
from tests.unit.broker.handlers.members import Member, consumer, serving, subscription
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import eventually

RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
TO_THE_START = {"topic": "T", "group": "G", "timestamp": "0", "isForce": "true"}


async def prepared(client: Member) -> None:
    """Topic T with three messages in its first queue; G has consumed two."""
    await create_topic(client)
    await create_group(client)
    for _ in range(3):
        await send(client)
    await commit(client, 2)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {("T", 0): 0, ("T", 1): 0}),
        ({"timestamp": "-1"}, {("T", 0): 3, ("T", 1): 0}),
        ({"timestamp": "99999999999999"}, {("T", 0): 3, ("T", 1): 0}),
        ({"queueId": "0", "offset": "1"}, {("T", 0): 1}),
        ({"queueId": "0", "offset": "3"}, {("T", 0): 3}),
        ({"queueId": "0", "offset": "-1"}, {("T", 0): 0}),
        ({"queueId": "0"}, {("T", 0): 0}),
    ],
)
@in_loop
async def test_reset_is_kept_and_told_to_the_next_pull(
    tmp_path: Path, fields: dict[str, str], expected: dict[tuple[str, int], int]
) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await prepared(client)
        answer = told(await client.ok(RESET, **{**TO_THE_START, **fields}))
        assert answer == {"offsetTable": expected}
        target = expected["T", 0]
        assert await committed(client) == target
        late = await client.ok(
            RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="G", topic="T", queueId="0", commitOffset="2"
        )
        assert late.remark == "Offset has been previously reset"
        moved = await client.ask(RequestCode.PULL_MESSAGE, **pull_fields(offset=2))
        assert (moved.code, moved.fields()["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, str(target))
        await commit(client, 2)
        assert await committed(client) == 2


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"topic": "NONE"}, 17, "Topic NONE does not exist"),
        ({"group": "NONE"}, 26, "Group NONE does not exist"),
        ({"queueId": "0", "offset": "99"}, 1, "Target offset 99 not in consume queue range [0-3]"),
        ({"queueId": "0", "offset": "-2"}, 1, "Target offset -2 not in consume queue range [0-3]"),
        ({"queueId": "9"}, 29, "queueId[9] is illegal, topic:[T] topicConfig.readQueueNums:[2]"),
        ({"timestamp": "soon"}, 1, "the header field timestamp cannot be 'soon'"),
    ],
)
@in_loop
async def test_bad_reset_changes_nothing(tmp_path: Path, fields: dict[str, str], code: int, remark: str) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await prepared(client)
        assert await client.refused(RESET, **{**TO_THE_START, **fields}) == (code, remark)
        assert broker.state.offsets.table == {"T@G": {0: 2}}
        assert broker.state.offsets.resets == {}


@in_loop
async def test_reset_wakes_a_pull_that_waits(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await prepared(client)
        waiting = asyncio.ensure_future(
            client.ask(RequestCode.PULL_MESSAGE, **pull_fields(offset=3, sysFlag="6", suspendTimeoutMillis="15000"))
        )
        await eventually(lambda: broker.broker.held.count == 1)
        await client.ok(RESET, **TO_THE_START)
        answer = await waiting
        assert (answer.code, answer.fields()["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")


@in_loop
async def test_reset_at_clients_tells_every_member(tmp_path: Path) -> None:
    async with serving(tmp_path, useServerSideResetOffset="false") as broker:
        client = broker.member("admin")
        await prepared(client)
        refused = await client.refused(RESET, **TO_THE_START)
        assert refused == (ResponseCode.SYSTEM_ERROR, "THe consumer group <G> not exist")  # no offset of queue 1
        await commit(client, 0, queue=1)
        code, remark = await client.refused(RESET, **TO_THE_START)
        assert code == ResponseCode.CONSUMER_NOT_ONLINE
        assert remark == "Consumer not online, so can not reset offset, Group: G Topic: T Timestamp: 0"
        members = [broker.member(name) for name in ("c1", "c2")]
        for member in members:
            await member.heartbeat(consumer("G", subscription("T")))
        answer = told(await client.ok(RESET, **TO_THE_START))
        assert answer == {"offsetTable": {("T", 0): 0, ("T", 1): 0}}
        for member in members:
            await eventually(
                lambda member=member: any(c.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET for c in member.told)
            )
            notice = next(c for c in member.told if c.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
            assert told(notice) == answer
        assert await committed(client) == 2  # consumers commit themselves


@in_loop
async def test_reset_at_clients_without_force_only_goes_back(tmp_path: Path) -> None:
    async with serving(tmp_path, useServerSideResetOffset="false") as broker:
        client = broker.member("admin")
        await prepared(client)
        await commit(client, 0, queue=1)
        await broker.member("c1").heartbeat(consumer("G", subscription("T")))
        fields = {**TO_THE_START, "timestamp": "-1"}
        assert told(await client.ok(RESET, **fields))["offsetTable"]["T", 0] == 3
        assert told(await client.ok(RESET, **{**fields, "isForce": "false"}))["offsetTable"]["T", 0] == 2
        answer = await client.refused(RESET, **{**fields, "topic": "NONE"})
        assert answer[0] == ResponseCode.TOPIC_NOT_EXIST


@in_loop
async def test_clone_lets_a_group_begin_where_another_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await prepared(client)
        await create_topic(client, "O")
        await commit(client, 7, topic="O")
        clone = RequestCode.CLONE_GROUP_OFFSET
        await client.ok(clone, srcGroup="G", destGroup="A", topic="T")
        assert [await committed(client, "A", topic) for topic in ("T", "O")] == [2, -1]
        await client.ok(clone, srcGroup="G", destGroup="B")
        assert [await committed(client, "B", topic) for topic in ("T", "O")] == [2, 7]
        await broker.member("c1").heartbeat(consumer("G", subscription("O")))
        await client.ok(clone, srcGroup="G", destGroup="C")
        assert [await committed(client, "C", topic) for topic in ("T", "O")] == [-1, 7]
        await client.ok(clone, srcGroup="G", destGroup="D", offline="true")
        assert [await committed(client, "D", topic) for topic in ("T", "O")] == [2, 7]
        assert (await client.refused(clone, srcGroup="G", destGroup="../x"))[0] == ResponseCode.INVALID_PARAMETER
        assert (await client.refused(clone, srcGroup="G"))[0] == ResponseCode.SYSTEM_ERROR


@in_loop
async def test_correction_passes_over_filtered_groups_and_forgets_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await prepared(client)
        for group, offset in (("A", 1), ("B", 3)):
            await create_group(client, group)
            await commit(client, offset, group)
        code = RequestCode.QUERY_CORRECTION_OFFSET
        least = told(await client.ok(code, topic="T", compareGroup="B"))
        assert least == {"correctionOffsets": {0: 1}}
        filtered = told(await client.ok(code, topic="T", compareGroup="B", filterGroups="A"))
        assert filtered == {"correctionOffsets": {0: 2}}
        behind = told(await client.ok(code, topic="T", compareGroup="A", filterGroups="A"))
        assert behind == {"correctionOffsets": {0: 2**63 - 1}}
        assert await committed(client, "A") == 1
        assert told(await client.ok(code, topic="NONE", compareGroup="A")) == {"correctionOffsets": {}}


@in_loop
async def test_all_offsets(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await prepared(client)
        answer = told(await client.ok(RequestCode.GET_ALL_CONSUMER_OFFSET))
        assert answer["offsetTable"] == {"T@G": {0: 2}}
        assert answer["groupTopicMap"] == {"G": ["T"]}
        delays = told(await client.ok(RequestCode.GET_ALL_DELAY_OFFSET))
        assert delays["offsetTable"] == {}
