"""Messages by key, by unique key and by where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.model.properties import encode_properties
from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.broker.handlers.members import Member, Serving, serving
from tests.unit.broker.handlers.traffic import bodies, send, stored
from tests.unit.event_loop import in_loop

QUERY, VIEW = RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID
ALWAYS = {"beginTimestamp": "0", "endTimestamp": str(2**62)}


async def filled(running: Serving) -> Member:
    """Five messages with the key k; number n also has the key kn and the unique key Un."""
    member = running.member("c1")
    for number in range(5):
        properties = {"UNIQ_KEY": f"U{number}", "KEYS": f"k k{number}"}
        await send(member, body=b"%d" % number, i=encode_properties(properties))
    return member


async def found(member: Member, key: str, most: int = 32, **more: str) -> list[bytes]:
    return bodies(await member.ok(QUERY, **{**ALWAYS, "topic": "T", "key": key, "maxNum": str(most), **more}))


@in_loop
async def test_by_key_oldest_first_and_of_too_many_the_newest(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        assert await found(member, "k") == [b"0", b"1", b"2", b"3", b"4"]
        assert await found(member, "k", 2) == [b"3", b"4"]
        assert await found(member, "k3") == [b"3"]
        assert await found(member, "U3") == [b"3"]
        assert await found(member, "U3", 0, _UNIQUE_KEY_QUERY="true") == [b"3"]


@in_loop
async def test_how_far_the_index_is_comes_with_the_answer(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        last = stored(running.state)[-1]
        answer = await member.ok(QUERY, **ALWAYS, topic="T", key="k1", maxNum="9")
        assert answer.fields() == {
            "indexLastUpdatePhyoffset": str(last.physical_offset),
            "indexLastUpdateTimestamp": str(last.store_time),
        }


@pytest.mark.parametrize(
    "fields", [{"key": "none"}, {"topic": "U"}, {"beginTimestamp": str(2**61)}, {"endTimestamp": "1"}, {"key": ""}]
)
@in_loop
async def test_nothing_is_found(tmp_path: Path, fields: dict[str, str]) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        answer = await member.ask(QUERY, **{**ALWAYS, "topic": "T", "key": "k", "maxNum": "9", **fields})
        assert (answer.code, answer.remark) == (
            ResponseCode.QUERY_NOT_FOUND,
            "can not find message, maybe time range not correct",
        )
        assert answer.fields() == {"indexLastUpdatePhyoffset": "0", "indexLastUpdateTimestamp": "0"}


@in_loop
async def test_questions_that_say_nothing_sensible(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        code, _ = await member.refused(QUERY, **ALWAYS, topic="T", key="k", maxNum="-1")
        assert code == ResponseCode.SYSTEM_ERROR
        code, _ = await member.refused(QUERY, **ALWAYS, topic="T", key="k")
        assert code == ResponseCode.SYSTEM_ERROR
        code, _ = await member.refused(QUERY, **ALWAYS, maxNum="9")
        assert code == ResponseCode.QUERY_NOT_FOUND


@in_loop
async def test_an_answer_is_limited_whatever_was_asked_for(tmp_path: Path) -> None:
    async with serving(tmp_path, maxMsgsNumBatch="3") as running:
        member = await filled(running)
        assert await found(member, "k", 2**31 - 1) == [b"2", b"3", b"4"]


@in_loop
async def test_keys_are_found_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        await filled(running)
    async with serving(tmp_path) as running:
        assert await found(running.member("c1"), "k3") == [b"3"]


@in_loop
async def test_by_where_it_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        for record in stored(running.state):
            answer = await member.ok(VIEW, offset=str(record.physical_offset), topic="whatever")
            assert bodies(answer) == [record.body]
            assert answer.fields() == {}


@pytest.mark.parametrize("offset", [1, -1, 2**63 - 1, -(2**63), 60_000])
@in_loop
async def test_where_nothing_is(tmp_path: Path, offset: int) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        assert await member.refused(VIEW, offset=str(offset)) == (
            ResponseCode.SYSTEM_ERROR,
            f"can not find message by the offset, {offset}",
        )
