"""Pulls: what is found, what the answer says of the queue, and waiting for messages to come."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from apogeemq.model.groups import GroupConfig
from apogeemq.model.topics import TopicConfig
from apogeemq.protocol.codec import encode_request
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import BINARY, Command
from apogeemq.protocol.remarks import FAQ_HINT
from apogeemq.transport import flow
from tests.unit.broker.handlers.members import Member, Serving, consumer, serving, subscription
from tests.unit.broker.handlers.traffic import (
    COMMITS,
    HOLDS,
    ask_batch,
    batch,
    bodies,
    offsets,
    pull,
    records,
    send,
    send_tagged,
)
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import eventually

NOT_FOUND = ResponseCode.PULL_NOT_FOUND
MOVED = ResponseCode.PULL_OFFSET_MOVED
AGAIN = ResponseCode.PULL_RETRY_IMMEDIATELY


def seen(answer: Command) -> tuple[int, str | None, tuple[int, int, int]]:
    return answer.code, answer.remark, offsets(answer)


async def filled(running: Serving, count: int = 3) -> Member:
    """A member, and so many messages in queue 0 of T: 0, 1, 2 …"""
    member = running.member("c1")
    for number in range(count):
        await send(member, body=b"%d" % number)
    return member


# -- what is found -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [0, BINARY])
@in_loop
async def test_messages_and_all_that_is_said_of_their_queue(tmp_path: Path, codec: int) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        topic, group = running.state.topics.topics["T"], GroupConfig(group_name="G", group_sys_flag=5)
        topic.topic_sys_flag = 3
        running.state.groups.put(group, 0)
        answer = await pull(member, 1, codec=codec)
        assert (answer.code, answer.remark, answer.codec) == (0, "FOUND", codec)
        assert answer.fields() == {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": "3",
            "minOffset": "0",
            "maxOffset": "3",
            "topicSysFlag": "3",
            "groupSysFlag": "5",
        }
        assert bodies(answer) == [b"1", b"2"]
        assert [record.queue_offset for record in records(answer)] == [1, 2]


@in_loop
async def test_lite_pulls_are_pulls_unless_they_are_off(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        fields = {"consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "2"}
        answer = await member.ok(RequestCode.LITE_PULL_MESSAGE, sysFlag="4", **fields)
        assert bodies(answer) == [b"0", b"1"]
        running.state.config.lite_pull_message_enable = False
        assert await member.refused(RequestCode.LITE_PULL_MESSAGE, sysFlag="4", **fields) == (
            ResponseCode.NO_PERMISSION,
            "the broker[127.0.0.1] for lite pull consumer is forbidden",
        )


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"maxMsgNums": "2"}, 2),
        ({"maxMsgNums": "0"}, 1),
        ({"maxMsgNums": "-5"}, 1),
        ({"maxMsgNums": "2147483647"}, 32),
        ({"maxMsgBytes": "1"}, 1),
        ({"maxMsgBytes": "-1"}, 32),
    ],
)
@in_loop
async def test_how_much_is_brought(tmp_path: Path, fields: dict[str, Any], count: int) -> None:
    async with serving(tmp_path) as running:
        member = running.member("c1")
        await send(member)
        await ask_batch(member, batch(*(b"%d" % number for number in range(40))))
        answer = await pull(member, **fields)
        assert len(bodies(answer)) == count
        assert offsets(answer) == (count, 0, 41)


@in_loop
async def test_bytes_are_limited_but_one_message_always_comes(tmp_path: Path) -> None:
    async with serving(tmp_path, maxTransferBytesOnMessageInMemory="3000") as running:
        member = running.member("c1")
        for _ in range(4):
            await send(member, body=bytes(1000))
        await send(member, body=bytes(5000))
        assert len(bodies(await pull(member))) == 2
        assert len(bodies(await pull(member, 3))) == 1
        assert len(bodies(await pull(member, 4))) == 1


@in_loop
async def test_offsets_that_are_not_in_the_queue(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        assert seen(await pull(member, 3)) == (NOT_FOUND, "OFFSET_OVERFLOW_ONE", (3, 0, 3))
        assert seen(await pull(member, 4)) == (MOVED, "OFFSET_OVERFLOW_BADLY", (3, 0, 3))
        assert seen(await pull(member, 2**63 - 1)) == (MOVED, "OFFSET_OVERFLOW_BADLY", (3, 0, 3))
        assert seen(await pull(member, -1)) == (MOVED, "OFFSET_TOO_SMALL", (0, 0, 3))
        running.state.store.queues["T", 0].min_offset = 2  # as after the expiry of older messages
        assert seen(await pull(member, 1)) == (MOVED, "OFFSET_TOO_SMALL", (2, 2, 3))


@in_loop
async def test_empty_queues(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        for offset, code in ((0, NOT_FOUND), (5, MOVED), (-1, MOVED)):
            answer = await pull(member, offset, queue_id=1)
            assert (answer.code, offsets(answer)) == (code, (0, 0, 0))
        assert ("T", 1) not in running.state.store.queues  # looking makes no queue


# -- tags ----------------------------------------------------------------------------------------------------


@in_loop
async def test_tags_are_filtered_by_their_hash(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = running.member("c1")
        for tag in ("A", "B", "C", "A", "Aa", "BB"):
            await send_tagged(member, tag, tag.encode())
        await send(member, body=b"untagged")

        async def found(expression: str, offset: int = 0) -> list[bytes]:
            return bodies(await pull(member, offset, subscription=expression))

        assert await found("A") == [b"A", b"A"]
        assert await found("A || C ") == [b"A", b"C", b"A"]
        assert await found("Aa") == [b"Aa", b"BB"]  # one hash: the consumer looks at the tags themselves
        for every in ("*", ""):
            assert len(await found(every)) == 7
        assert offsets(await pull(member, subscription="B")) == (7, 0, 7)
        one_by_one, offset = [], 0
        while offset < 7:
            answer = await pull(member, offset, subscription="A", maxMsgNums="1")
            one_by_one += bodies(answer) if answer.code != AGAIN else []
            offset = offsets(answer)[0]
        assert one_by_one == [b"A", b"A"]


@in_loop
async def test_where_nothing_matches_the_consumer_goes_on_behind_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        answer = await pull(member, 1, flags=HOLDS, subscription="none")
        assert seen(answer) == (AGAIN, "NO_MATCHED_MESSAGE", (3, 0, 3))


@in_loop
async def test_expressions_that_cannot_be_served(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        sql = await pull(member, subscription="a > 1", expressionType="SQL92")
        assert (sql.code, sql.remark) == (
            ResponseCode.SYSTEM_ERROR,
            "The broker does not support consumer to filter message by SQL92",
        )
        nothing = await pull(member, subscription="||")
        assert (nothing.code, nothing.remark) == (
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            "parse the consumer's subscription failed",
        )


@in_loop
async def test_what_the_heartbeats_said_counts_when_the_pull_does_not_say(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = running.member("c1")
        await send_tagged(member, "A", b"A")
        await send_tagged(member, "B", b"B")
        no_group = await pull(member, flags=0)
        assert (no_group.code, no_group.remark) == (
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"the consumer's group info not exist{FAQ_HINT}",
        )
        await member.heartbeat(consumer("G", subscription("T", "B", 7, tagsSet=["B"], codeSet=[66])))
        assert bodies(await pull(member, flags=0, subVersion="7")) == [b"B"]
        newer = await pull(member, flags=0, subVersion="8")
        assert (newer.code, newer.remark) == (
            ResponseCode.SUBSCRIPTION_NOT_LATEST,
            "the consumer's subscription not latest",
        )
        await send(member, "U")
        other_topic = await pull(member, topic="U", flags=0)
        assert (other_topic.code, other_topic.remark) == (
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"the consumer's subscription not exist{FAQ_HINT}",
        )


# -- refusals ------------------------------------------------------------------------------------------------


async def refusal(member: Member, **more: Any) -> tuple[int, str | None, dict[str, str]]:
    answer = await pull(member, **more)
    return answer.code, answer.remark, answer.fields()


@in_loop
async def test_topics_and_queues_that_are_not_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        for topic in ("NONE", "../x", ""):
            assert await refusal(member, topic=topic) == (
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{topic}] not exist, apply first please! {FAQ_HINT}",
                {},
            )
        [channel] = running.server.channels
        for queue_id in (4, -1):
            assert await refusal(member, queue_id=queue_id) == (
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{queue_id}] is illegal, topic:[T] topicConfig.readQueueNums:[4] consumer:[/{channel.peer}]",
                {},
            )


@in_loop
async def test_who_may_not_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member, state = await filled(running), running.state
        state.topics.put(TopicConfig(topic_name="W", perm=2), 0)
        assert await refusal(member, topic="W") == (
            ResponseCode.NO_PERMISSION,
            "the topic[W] pulling message is forbidden",
            {"forbiddenType": "3"},
        )
        state.groups.put(GroupConfig(group_name="OFF", consume_enable=False), 0)
        assert await refusal(member, consumerGroup="OFF") == (
            ResponseCode.NO_PERMISSION,
            "subscription group no permission, OFF",
            {"forbiddenType": "2"},
        )
        state.groups.put(GroupConfig(group_name="NB", consume_broadcast_enable=False), 0)
        await member.heartbeat(consumer("NB", messageModel="BROADCASTING"), consumer("FB"))
        assert await refusal(member, consumerGroup="NB", flags=0) == (
            ResponseCode.NO_PERMISSION,
            "the consumer group[NB] can not consume by broadcast way",
            {"forbiddenType": "4"},
        )
        state.groups.forbid("FB", "T", 4, 0)
        assert await refusal(member, consumerGroup="FB", flags=0) == (
            ResponseCode.NO_PERMISSION,
            "the consumer group[FB] is forbidden for topic[T]",
            {"forbiddenType": "5"},
        )
        state.config.broker_permission = 2
        assert await refusal(member) == (
            ResponseCode.NO_PERMISSION,
            "the broker[127.0.0.1] pulling message is forbidden",
            {"forbiddenType": "1"},
        )


@pytest.mark.parametrize("group", ["", "../x", "g" * 121])
@in_loop
async def test_groups_that_cannot_be(tmp_path: Path, group: str) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        code, remark, _ = await refusal(member, consumerGroup=group)
        assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert remark == f"subscription group [{group}] does not exist, {FAQ_HINT}"


@in_loop
async def test_groups_made_by_people_only(tmp_path: Path) -> None:
    async with serving(tmp_path, autoCreateSubscriptionGroup="false") as running:
        code, _, _ = await refusal(await filled(running))
        assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert running.state.groups.get("G") is None


@pytest.mark.parametrize("name", ["consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag"])
@in_loop
async def test_what_a_pull_must_say(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        least = {"consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "9"}
        assert len(bodies(await member.ok(RequestCode.PULL_MESSAGE, sysFlag="4", **least))) == 3
        rest = {other: value for other, value in {**least, "sysFlag": "4"}.items() if other != name}
        assert await member.refused(RequestCode.PULL_MESSAGE, **rest) == (
            ResponseCode.SYSTEM_ERROR,
            f"the header field {name} is missing",
        )


# -- commits and resets --------------------------------------------------------------------------------------


@in_loop
async def test_a_pull_commits_when_it_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        await pull(member, 1, commitOffset="1")
        assert running.state.offsets.query("G", "T", 0) == -1
        await pull(member, 2, flags=COMMITS, commitOffset="1")
        assert running.state.offsets.query("G", "T", 0) == 1
        assert running.state.offsets.pull_offset("G", "T", 0) == 3
        refused = await pull(member, 2, queue_id=9, flags=COMMITS, commitOffset="7")
        assert refused.code == ResponseCode.INVALID_PARAMETER
        assert running.state.offsets.query("G", "T", 9) == -1


@in_loop
async def test_a_reset_offset_is_told_once_and_survives_the_commit_of_the_pull_that_hears_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        running.state.offsets.commit("G", "T", 0, 3)
        running.state.offsets.reset("G", "T", 0, 1)
        answer = await pull(member, 3, flags=HOLDS | COMMITS, commitOffset="3")
        assert seen(answer) == (MOVED, "OFFSET_RESET", (1, 0, 3))
        assert running.state.offsets.query("G", "T", 0) == 1
        assert bodies(await pull(member, 1)) == [b"1", b"2"]


# -- waiting -------------------------------------------------------------------------------------------------


async def held(running: Serving, count: int = 1) -> None:
    await eventually(lambda: running.broker.held.count == count)


@in_loop
async def test_a_held_pull_is_woken_by_a_message_it_wants(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member, other = await filled(running), running.member("p1")
        asked = asyncio.ensure_future(pull(member, 3, flags=HOLDS, subscription="A"))
        await held(running)
        await send_tagged(other, "B", b"B")
        await send_tagged(other, "A", b"elsewhere", queue_id=1)
        assert not asked.done()
        assert running.broker.held.count == 1
        await send_tagged(other, "A", b"A")
        answer = await asked
        assert (bodies(answer), offsets(answer)) == ([b"A"], (5, 0, 5))
        assert running.broker.held.count == 0


@in_loop
async def test_a_batch_wakes_too(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member, other = await filled(running), running.member("p1")
        asked = asyncio.ensure_future(pull(member, 3, flags=HOLDS))
        await held(running)
        await ask_batch(other, batch(b"one", b"two"))
        assert bodies(await asked) == [b"one", b"two"]


@in_loop
async def test_a_pull_at_an_empty_queue_waits_for_its_first_message(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member, other = await filled(running), running.member("p1")
        asked = asyncio.ensure_future(pull(member, 0, queue_id=2, flags=HOLDS))
        await held(running)
        await send(other, body=b"first", e="2")
        assert bodies(await asked) == [b"first"]


@pytest.mark.parametrize("milliseconds", ["1", "0", "-5"])
@in_loop
async def test_a_held_pull_is_answered_when_its_time_is_over(tmp_path: Path, milliseconds: str) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        answer = await pull(member, 3, flags=HOLDS, suspendTimeoutMillis=milliseconds)
        assert seen(answer) == (NOT_FOUND, "OFFSET_OVERFLOW_ONE", (3, 0, 3))
        await held(running, 0)


@in_loop
async def test_without_long_polling_pulls_wait_a_short_time(tmp_path: Path) -> None:
    async with serving(tmp_path, longPollingEnable="false", shortPollingTimeMills="1") as running:
        member = await filled(running)
        assert (await pull(member, 3, flags=HOLDS, suspendTimeoutMillis="3600000")).code == NOT_FOUND


@pytest.mark.parametrize("offset", [4, -1])
@in_loop
async def test_nobody_waits_at_an_offset_that_is_wrong(tmp_path: Path, offset: int) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        assert (await pull(member, offset, flags=HOLDS)).code == MOVED


@in_loop
async def test_many_pulls_wait_at_one_queue_over_one_connection(tmp_path: Path) -> None:
    count = flow.Limits().max_held_per_channel + 500
    async with serving(tmp_path) as running:
        member, other = await filled(running), running.member("p1")
        asked = [asyncio.ensure_future(pull(member, 3, flags=HOLDS)) for _ in range(count)]
        await held(running, count)
        await send(other, body=b"all")
        assert all(bodies(answer) == [b"all"] for answer in await asyncio.gather(*asked))
        assert running.broker.held.count == 0


@in_loop
async def test_more_pulls_than_can_be_held_are_answered_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path, maxHeldPulls="1") as running:
        member, other = await filled(running), running.member("p1")
        asked = asyncio.ensure_future(pull(member, 3, flags=HOLDS))
        await held(running)
        assert (await pull(member, 3, flags=HOLDS)).code == NOT_FOUND
        await send(other)
        assert (await asked).code == 0


@in_loop
async def test_a_client_that_goes_takes_its_pulls_along(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        await filled(running)
        gone = running.member("c2")
        host, _, port = running.address.rpartition(":")
        fields = {"consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "3", "maxMsgNums": "9"}
        _, writer = await asyncio.open_connection(host, int(port))
        more = {"sysFlag": str(HOLDS), "suspendTimeoutMillis": "60000"}
        writer.write(encode_request(RequestCode.PULL_MESSAGE, 1, {**fields, **more}))
        await held(running)
        writer.close()
        await held(running, 0)
        assert running.state.store.waiting == {}
        await send(gone)


@in_loop
async def test_what_happened_meanwhile_is_seen_by_those_who_wait(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        asked = asyncio.ensure_future(pull(member, 3, flags=HOLDS))
        await held(running)
        running.state.offsets.reset("G", "T", 0, 1)
        running.state.wake_pulls("T")
        assert seen(await asked) == (MOVED, "OFFSET_RESET", (1, 0, 3))


@in_loop
async def test_a_stopping_broker_answers_those_who_wait(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = await filled(running)
        answers: list[int] = []

        async def poll() -> None:
            """As consumers do: ask again as soon as there is an answer."""
            while True:
                answers.append((await pull(member, 3, flags=HOLDS)).code)

        polling = asyncio.ensure_future(poll())
        await held(running)
        await running.broker.stop()
        assert answers
        assert set(answers) == {NOT_FOUND}
        assert running.broker.held.count == 0
        await asyncio.gather(polling, return_exceptions=True)
