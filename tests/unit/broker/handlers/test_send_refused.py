"""Sends that are refused, and store nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.model.properties import encode_properties
from apogeemq.model.topics import TopicConfig
from apogeemq.protocol.codes import ResponseCode
from tests.unit.broker.handlers.members import serving
from tests.unit.broker.handlers.traffic import (
    ADDED,
    ask_batch,
    ask_send,
    batch,
    refused_send,
    send,
    stored,
)
from tests.unit.event_loop import in_loop

ILLEGAL = ResponseCode.MESSAGE_ILLEGAL
INVALID = ResponseCode.INVALID_PARAMETER


ONE = batch(b"one")


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        ("", "The specified topic is blank."),
        (" ", "The specified topic is blank."),
        (
            "../../etc",
            "The specified topic: ../../etc, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ("t" * 128, f"The specified topic: {'t' * 128}, is longer than topic max length: 127"),
    ],
)
@in_loop
async def test_names_no_topic_can_have(tmp_path: Path, topic: str, remark: str) -> None:
    async with serving(tmp_path) as running:
        known = set(running.state.topics.topics)
        assert await refused_send(running.member("p1"), topic) == (INVALID, remark)
        assert set(running.state.topics.topics) == known


@pytest.mark.parametrize(
    "topic",
    [
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    ],
)
@in_loop
async def test_topics_only_the_broker_writes_to(tmp_path: Path, topic: str) -> None:
    async with serving(tmp_path) as running:
        forbidden = (ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
        assert await refused_send(running.member("p1"), topic) == forbidden
        answer = await ask_batch(running.member("p1"), ONE, topic)
        assert (answer.code, answer.remark) == forbidden
        assert running.state.store.log.max_offset == 0


@in_loop
async def test_queues_that_are_not_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = running.member("p1")
        await send(member)
        [channel] = running.server.channels
        for queue_id in (4, 2**31 - 1):
            assert await refused_send(member, e=str(queue_id)) == (
                INVALID,
                f"request queueId[{queue_id}] is illegal, TopicConfig [topicName=T, readQueueNums=4, "
                "writeQueueNums=4, perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={}] "
                f"Producer: {channel.peer}",
            )
        assert len(running.state.store.queues) == 1


@in_loop
async def test_sizes(tmp_path: Path) -> None:
    async with serving(tmp_path, maxMessageSize="1000", mappedFileSizeCommitLog="262144") as running:
        member = running.member("p1")
        too_large = (
            ILLEGAL,
            "the message is illegal, maybe msg body or properties length not matched. "
            "msg body length limit 1000B, msg properties length limit 32KB.",
        )
        await send(member, body=bytes(1000))
        assert await refused_send(member, body=bytes(1001)) == too_large
        added = len(encode_properties(ADDED))
        room = 32_767 - added - len(encode_properties({"UNIQ_KEY": "U", "p": ""}))
        for character in ("x", "€"):  # bytes count, not characters
            value = character * (room // len(character.encode()))
            await send(member, i=encode_properties({"UNIQ_KEY": "U", "p": value}))
            more = {"UNIQ_KEY": "U", "p": value + character}
            assert await refused_send(member, i=encode_properties(more)) == too_large
        delayed = {"UNIQ_KEY": "U", "DELAY": "1", "p": "x" * (room - len("DELAY") - 3)}
        assert await refused_send(member, i=encode_properties(delayed)) == too_large  # no room to say where it belongs
        assert len(stored(running.state)) == 3


@in_loop
async def test_a_message_without_a_body(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        code, _ = await refused_send(running.member("p1"), body=b"")
        assert code == ResponseCode.SYSTEM_ERROR
        assert running.state.store.log.max_offset == 0


@pytest.mark.parametrize(
    "properties",
    [
        {"TRAN_MSG": "true"},
        {"TIMER_DELIVER_MS": "1700000000000"},
        {"TIMER_DELAY_MS": "5"},
        {"TIMER_DELAY_SEC": "5", "DELAY": "0"},
    ],
)
@in_loop
async def test_half_and_timed_messages_are_refused_rather_than_delivered_at_once(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    async with serving(tmp_path) as running:
        code, _ = await refused_send(running.member("p1"), i=encode_properties(properties))
        assert code in (ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR)
        assert running.state.store.log.max_offset == 0


@in_loop
async def test_a_broker_that_is_not_written_to(tmp_path: Path) -> None:
    async with serving(tmp_path, brokerPermission="4") as running:
        member = running.member("p1")
        running.state.topics.put(TopicConfig(topic_name="O", order=True), 0)
        await send(member)  # routes say what the broker allows; who comes all the same is served, as by Apache
        assert await refused_send(member, "O") == (
            ResponseCode.NO_PERMISSION,
            "the broker[127.0.0.1] sending message is forbidden",
        )


@in_loop
async def test_sends_before_the_time_they_are_taken_from(tmp_path: Path) -> None:
    async with serving(tmp_path, startAcceptSendRequestTimeStamp=str(2**62)) as running:
        code, remark = await refused_send(running.member("p1"))
        assert code == ResponseCode.SYSTEM_ERROR
        assert remark is not None
        assert running.state.store.log.max_offset == 0


@pytest.mark.parametrize("value", ["", " 1", "x", "2147483648", "-2147483649"])
@in_loop
async def test_numbers_java_would_not_read(tmp_path: Path, value: str) -> None:
    async with serving(tmp_path) as running:
        member = running.member("p1")
        answer = await ask_send(member, e=value)
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR,
            f"the header field e cannot be {value!r}",
        )
        await send(member, e="+1")
        assert len(stored(running.state, queue_id=1)) == 1
