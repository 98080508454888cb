"""Messages a consumer could not use: again later, or to the dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.model.groups import GroupConfig
from apogeemq.model.ids import offset_id
from apogeemq.model.properties import encode_properties
from apogeemq.model.topics import FLAG_UNIT_SUB, TopicConfig
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.record import Record
from apogeemq.protocol.remarks import FAQ_HINT
from apogeemq.protocol.versions import V3_4_9
from tests.unit.broker.handlers.members import Member, Serving, serving
from tests.unit.broker.handlers.traffic import ADDED, BORN_TIME, properties_of, send, stored
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import ask_as

SEND_BACK = RequestCode.CONSUMER_SEND_MSG_BACK
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
FAR = 2**60  # milliseconds; by then everything is due


async def sent(running: Serving, **more: str) -> tuple[Member, Record]:
    """A message that a consumer of G has."""
    member = running.member("c1")
    properties = {"UNIQ_KEY": "U", "TAGS": "A", "KEYS": "k"}
    await send(member, body=b"bad", h="7", i=encode_properties(properties), **more)
    return member, stored(running.state)[-1]


def back(record: Record, **more: str) -> dict[str, str]:
    return {
        "offset": str(record.physical_offset),
        "group": "G",
        "delayLevel": "0",
        "originMsgId": "whatever",
        "originTopic": "T",
        "unitMode": "false",
        "maxReconsumeTimes": "16",
        **more,
    }


@in_loop
async def test_a_message_comes_again_after_the_delay_of_its_first_retry(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member, record = await sent(running)
        answer = await member.ok(SEND_BACK, **back(record))
        assert answer.fields() == {}
        [waiting] = stored(running.state, SCHEDULE, 2)  # level 3
        expected = {
            "UNIQ_KEY": "U",
            "TAGS": "A",
            "KEYS": "k",
            **ADDED,
            "RETRY_TOPIC": "T",
            "ORIGIN_MESSAGE_ID": offset_id(record.store_host, record.physical_offset),
            "WAIT": "false",
            "DELAY": "3",
            "REAL_TOPIC": "%RETRY%G",
            "REAL_QID": "0",
        }
        assert properties_of(waiting) == expected
        assert (waiting.reconsume_times, waiting.flag, waiting.born_time) == (1, 7, BORN_TIME)
        assert waiting.born_host == record.born_host
        running.broker.delivery.tick(FAR)
        [retried] = stored(running.state, "%RETRY%G")
        assert properties_of(retried) == expected
        assert (retried.body, retried.reconsume_times) == (b"bad", 1)
        # The next time it waits longer, and still says where it came from.
        await member.ok(SEND_BACK, **back(retried))
        [second] = stored(running.state, SCHEDULE, 3)  # level 4
        assert second.reconsume_times == 2
        assert properties_of(second) == {**expected, "DELAY": "4"}


@pytest.mark.parametrize(("asked", "level"), [("1", 1), ("18", 18), ("99", 18)])
@in_loop
async def test_the_consumer_may_choose_the_delay(tmp_path: Path, asked: str, level: int) -> None:
    async with serving(tmp_path) as running:
        member, record = await sent(running)
        await member.ok(SEND_BACK, **back(record, delayLevel=asked))
        [waiting] = stored(running.state, SCHEDULE, level - 1)
        assert properties_of(waiting)["DELAY"] == str(level)


@in_loop
async def test_group_and_retry_topic_are_made_with_the_groups_queues(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member, record = await sent(running)
        await member.ok(SEND_BACK, **back(record, group="H", unitMode="true"))
        assert running.state.groups.get("H") is not None
        assert running.state.topics.get("%RETRY%H") == TopicConfig(
            topic_name="%RETRY%H", read_queue_nums=1, write_queue_nums=1, perm=6, topic_sys_flag=FLAG_UNIT_SUB
        )
        running.state.groups.put(GroupConfig(group_name="I", retry_queue_nums=3), 0)
        for _ in range(30):
            await member.ok(SEND_BACK, **back(record, group="I"))
        queues = {properties_of(waiting)["REAL_QID"] for waiting in stored(running.state, SCHEDULE, 2)[1:]}
        assert queues == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("tried", "header"), [("0", {"delayLevel": "-1"}), ("3", {"maxReconsumeTimes": "3"}), ("16", {})]
)
@in_loop
async def test_what_was_tried_often_enough_goes_to_the_dead_letters_at_once(
    tmp_path: Path, tried: str, header: dict[str, str]
) -> None:
    async with serving(tmp_path) as running:
        member, record = await sent(running, j=tried)
        await member.ok(SEND_BACK, **back(record, **header))
        [dead] = stored(running.state, "%DLQ%G")
        assert (dead.body, dead.reconsume_times) == (b"bad", int(tried) + 1)
        properties = properties_of(dead)
        assert (properties["DELAY"], properties["RETRY_TOPIC"]) == ("0", "T")
        assert "REAL_TOPIC" not in properties
        assert running.state.topics.get("%DLQ%G") == TopicConfig(
            topic_name="%DLQ%G", read_queue_nums=1, write_queue_nums=1, perm=6
        )


@in_loop
async def test_retries_end_in_the_dead_letters(tmp_path: Path) -> None:
    """A message nobody can use, tried as often as the group allows."""
    async with serving(tmp_path) as running:
        running.state.groups.put(GroupConfig(group_name="G", retry_max_times=3), 0)
        member, record = await sent(running)
        levels = []
        for _ in range(3):
            await member.ok(SEND_BACK, **back(record, maxReconsumeTimes="3"))
            running.broker.delivery.tick(FAR)
            record = stored(running.state, "%RETRY%G")[-1]
            levels.append(properties_of(record)["DELAY"])
        assert levels == ["3", "4", "5"]
        await member.ok(SEND_BACK, **back(record, maxReconsumeTimes="3"))
        running.broker.delivery.tick(FAR)
        assert [message.reconsume_times for message in stored(running.state, "%RETRY%G")] == [1, 2, 3]
        [dead] = stored(running.state, "%DLQ%G")
        assert (dead.body, dead.reconsume_times) == (b"bad", 4)


@in_loop
async def test_a_count_at_its_end_stays_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member, record = await sent(running, j=str(2**31 - 1))
        await member.ok(SEND_BACK, **back(record))
        [dead] = stored(running.state, "%DLQ%G")
        assert dead.reconsume_times == 2**31 - 1


@in_loop
async def test_old_consumers_have_no_say_in_how_often(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        _, record = await sent(running, j="3")
        fields = back(record, maxReconsumeTimes="2")
        for version, dead_count in ((V3_4_9 - 1, 0), (V3_4_9, 1)):
            assert (await ask_as(running.address, SEND_BACK, fields, version=version)).code == 0
            assert len(stored(running.state, "%DLQ%G")) == dead_count


@in_loop
async def test_a_group_that_wants_no_retries_gets_none(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        running.state.groups.put(GroupConfig(group_name="G", retry_queue_nums=0), 0)
        member, record = await sent(running)
        before = running.state.store.log.max_offset
        await member.ok(SEND_BACK, **back(record))
        assert running.state.store.log.max_offset == before


@pytest.mark.parametrize("offset", [1, -1, 2**63 - 1])
@in_loop
async def test_no_message_is_there(tmp_path: Path, offset: int) -> None:
    async with serving(tmp_path) as running:
        member, record = await sent(running)
        before = running.state.store.log.max_offset
        assert await member.refused(SEND_BACK, **back(record, offset=str(offset))) == (
            ResponseCode.SYSTEM_ERROR,
            f"look message by offset failed, {offset}",
        )
        assert running.state.store.log.max_offset == before


@in_loop
async def test_groups_that_cannot_be(tmp_path: Path) -> None:
    async with serving(tmp_path, autoCreateSubscriptionGroup="false") as running:
        member, record = await sent(running)
        assert await member.refused(SEND_BACK, **back(record)) == (
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group not exist, G {FAQ_HINT}",
        )
    async with serving(tmp_path) as running:
        code, _ = await running.member("c1").refused(SEND_BACK, **back(record, group="../x"))
        assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@in_loop
async def test_permissions(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member, record = await sent(running)
        running.state.topics.put(TopicConfig(topic_name="%RETRY%G", perm=4), 0)
        assert await member.refused(SEND_BACK, **back(record)) == (
            ResponseCode.NO_PERMISSION,
            "the topic[%RETRY%G] sending message is forbidden",
        )
        running.state.config.broker_permission = 4
        assert await member.refused(SEND_BACK, **back(record, group="H")) == (
            ResponseCode.NO_PERMISSION,
            "the broker[127.0.0.1] sending message is forbidden",
        )


@pytest.mark.parametrize("name", ["offset", "group", "delayLevel"])
@in_loop
async def test_what_must_be_said(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as running:
        member, record = await sent(running)
        fields = back(record)
        del fields[name]
        assert await member.refused(SEND_BACK, **fields) == (
            ResponseCode.SYSTEM_ERROR,
            f"the header field {name} is missing",
        )
        assert (await member.refused(SEND_BACK, **back(record, offset="x")))[0] == ResponseCode.SYSTEM_ERROR
