"""Offsets of groups and of queues, by number and by time; kept over a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.broker.handlers.members import Member, Serving, serving
from tests.unit.broker.handlers.traffic import pull, send, stored
from tests.unit.event_loop import in_loop

QUERY, UPDATE = RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET
SEARCH = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
BOOT_FIRST = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
OF_T = {"topic": "T", "queueId": "0"}
OF_G = {**OF_T, "consumerGroup": "G"}


async def filled(running: Serving) -> Member:
    """Three messages in queue 0 of T, stored at different times; and the group G."""
    member = running.member("c1")
    for number in range(3):
        await send(member, body=b"%d" % number)
        running.state.store.last_store_time += 1000
    await pull(member)
    return member


# -- of groups -----------------------------------------------------------------------------------------------


@in_loop
async def test_a_commit_is_found_again_and_survives_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        answer = await member.ok(UPDATE, **OF_G, commitOffset="2")
        assert answer.fields() == {}
        assert (await member.ok(QUERY, **OF_G)).fields() == {"offset": "2"}
    async with serving(tmp_path) as running:
        assert (await running.member("c1").ok(QUERY, **OF_G)).fields() == {"offset": "2"}
        assert running.state.groups.get("G") is not None


@in_loop
async def test_a_group_never_seen_begins_at_the_first_message_if_that_is_still_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        assert (await member.ok(QUERY, **OF_G)).fields() == {"offset": "0"}
        nowhere = {**OF_G, "queueId": "1"}, {**OF_G, "topic": "NONE"}, {**OF_G, "queueId": "-1"}
        for fields in nowhere:
            assert await member.refused(QUERY, **fields) == (ResponseCode.QUERY_NOT_FOUND, BOOT_FIRST)
        assert await member.refused(QUERY, **OF_G, setZeroIfNotFound="false") == (
            ResponseCode.QUERY_NOT_FOUND,
            "Not found, do not set to zero, maybe this group boot first",
        )
        running.state.store.queues["T", 0].min_offset = 1
        assert await member.refused(QUERY, **OF_G) == (ResponseCode.QUERY_NOT_FOUND, BOOT_FIRST)


@in_loop
async def test_commits_go_anywhere_from_the_beginning_on(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        for offset in (3, 1, 99, 2**63 - 1, 0):
            await member.ok(UPDATE, **OF_G, commitOffset=str(offset))
            assert (await member.ok(QUERY, **OF_G)).fields() == {"offset": str(offset)}


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({**OF_G, "consumerGroup": "none"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "Group none not exist!"),
        (OF_T, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "Group null not exist!"),
        ({**OF_G, "topic": "NONE"}, ResponseCode.TOPIC_NOT_EXIST, "Topic NONE not exist!"),
        ({**OF_G, "topic": "../x"}, ResponseCode.TOPIC_NOT_EXIST, "Topic ../x not exist!"),
        ({**OF_G, "queueId": "x"}, ResponseCode.INVALID_PARAMETER, "QueueId is null, topic is T"),
        ({**OF_G, "commitOffset": "x"}, ResponseCode.INVALID_PARAMETER, "Offset is null, topic is T"),
        ({**OF_G, "commitOffset": str(2**63)}, ResponseCode.INVALID_PARAMETER, "Offset is null, topic is T"),
    ],
)
@in_loop
async def test_commits_that_say_nothing_sensible(
    tmp_path: Path, fields: dict[str, str], code: int, remark: str
) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        assert await member.refused(UPDATE, **{"commitOffset": "1", **fields}) == (code, remark)
        assert running.state.offsets.table == {}


@in_loop
async def test_while_a_reset_waits_for_its_pull_commits_are_passed_over(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        running.state.offsets.reset("G", "T", 0, 1)
        answer = await member.ok(UPDATE, **OF_G, commitOffset="3")
        assert answer.remark == "Offset has been previously reset"
        assert (await member.ok(QUERY, **OF_G)).fields() == {"offset": "1"}
        assert (await pull(member, 3)).code == ResponseCode.PULL_OFFSET_MOVED
        await member.ok(UPDATE, **OF_G, commitOffset="3")
        assert (await member.ok(QUERY, **OF_G)).fields() == {"offset": "3"}


# -- of queues -----------------------------------------------------------------------------------------------


@in_loop
async def test_where_a_queue_begins_and_ends(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        assert (await member.ok(RequestCode.GET_MAX_OFFSET, **OF_T)).fields() == {"offset": "3"}
        assert (await member.ok(RequestCode.GET_MIN_OFFSET, **OF_T)).fields() == {"offset": "0"}
        running.state.store.queues["T", 0].min_offset = 2
        assert (await member.ok(RequestCode.GET_MIN_OFFSET, **OF_T)).fields() == {"offset": "2"}


@in_loop
async def test_messages_by_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        times = [record.store_time for record in stored(running.state)]
        assert (await member.ok(RequestCode.GET_EARLIEST_MSG_STORETIME, **OF_T)).fields() == {
            "timestamp": str(times[0])
        }

        async def found(moment: int, **more: str) -> str:
            return (await member.ok(SEARCH, **OF_T, timestamp=str(moment), **more)).fields()["offset"]

        assert [await found(moment) for moment in (0, times[0], times[1], times[1] + 1, times[2] + 1)] == list("00123")
        for lower in ("LOWER", "lower", "nonsense", ""):
            assert await found(times[1] + 1, boundaryType=lower) == "2"
        for upper in ("UPPER", "upper"):
            moments = (0, times[0], times[1] + 1, times[2] + 1)
            assert [await found(moment, boundaryType=upper) for moment in moments] == list("0012")


@pytest.mark.parametrize(
    "fields", [{"topic": "NONE"}, {"topic": "../x"}, {"topic": ""}, {"queueId": "7"}, {"queueId": "-1"}]
)
@in_loop
async def test_queues_that_are_not_there_are_empty(tmp_path: Path, fields: dict[str, str]) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        asked = {**OF_T, **fields}
        before = set(running.state.store.queues)
        assert (await member.ok(RequestCode.GET_MAX_OFFSET, **asked)).fields() == {"offset": "0"}
        assert (await member.ok(RequestCode.GET_MIN_OFFSET, **asked)).fields() == {"offset": "0"}
        assert (await member.ok(RequestCode.GET_EARLIEST_MSG_STORETIME, **asked)).fields() == {"timestamp": "-1"}
        assert (await member.ok(SEARCH, **asked, timestamp="1")).fields() == {"offset": "0"}
        assert set(running.state.store.queues) == before


@pytest.mark.parametrize(
    "code",
    [RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET, RequestCode.GET_EARLIEST_MSG_STORETIME, SEARCH, QUERY],
)
@in_loop
async def test_what_must_be_said(tmp_path: Path, code: int) -> None:
    async with serving(tmp_path) as running:
        member = running.member("c1")
        whole = {**OF_G, "timestamp": "1"}
        for wrong in ({"queueId": "x"}, {"queueId": ""}, {"queueId": str(2**31)}):
            refused, remark = await member.refused(code, **{**whole, **wrong})
            assert refused == ResponseCode.SYSTEM_ERROR
            assert remark == f"the header field queueId cannot be {wrong['queueId']!r}"
        refused, remark = await member.refused(code, queueId="0", timestamp="1", consumerGroup="G")
        assert (refused, remark) == (ResponseCode.SYSTEM_ERROR, "the header field topic is missing")
