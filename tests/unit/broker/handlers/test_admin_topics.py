"""Topics made, changed, shown and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.broker.handlers.asking import commit, create_group, create_topic, send, told, topic_fields
from tests.unit.broker.handlers.members import Member, serving
from tests.unit.disk import file_size_limit
from tests.unit.event_loop import in_loop


async def config_of(client: Member, topic: str) -> dict[str, Any] | None:
    answer = await client.ask(RequestCode.GET_TOPIC_CONFIG, topic=topic)
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        assert answer.remark == f"No topic in this broker. topic: {topic}"
        return None
    config: dict[str, Any] = msgspec.json.decode(answer.body)
    return config


@in_loop
async def test_topic_is_made_as_asked_and_on_the_disk_when_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client, "T", perm="4", order="true", topicSysFlag="1", writeQueueNums="3")
        expected = {
            "attributes": {},
            "order": True,
            "perm": 4,
            "readQueueNums": 2,
            "topicFilterType": "SINGLE_TAG",
            "topicName": "T",
            "topicSysFlag": 1,
            "writeQueueNums": 3,
        }
        assert await config_of(client, "T") == expected
        kept = msgspec.json.decode((tmp_path / "store/config/topics.json").read_bytes())
        assert kept["topicConfigTable"]["T"] == expected


@in_loop
async def test_change_that_changes_nothing_makes_no_new_version(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        version = broker.state.topics.data_version
        await create_topic(client)
        assert broker.state.topics.data_version == version
        await create_topic(client, queues=3)
        assert broker.state.topics.data_version.counter == version.counter + 1


@in_loop
async def test_attributes_are_set_changed_and_taken_away(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client, attributes="+message.type=NORMAL,+reserve.time=5")
        await create_topic(client, attributes="+message.type=FIFO,-reserve.time")
        await create_topic(client, queues=5)
        assert broker.state.topics.topics["T"].attributes == {"message.type": "FIFO"}


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"topic": ""}, 29, "The specified topic is blank."),
        ({"topic": "  "}, 29, "The specified topic is blank."),
        (
            {"topic": "../x"},
            29,
            "The specified topic: ../x, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ({"topic": "t" * 128}, 29, f"The specified topic: {'t' * 128}, is longer than topic max length: 127"),
        ({"topic": "TBW102"}, 29, "The topic[TBW102] is conflict with system topic."),
        ({"topic": "broker-a"}, 29, "The topic[broker-a] is conflict with system topic."),
        ({"topic": "rmq_sys_mine"}, 29, "The topic[rmq_sys_mine] is conflict with system topic."),
        ({"readQueueNums": "-1"}, 29, "readQueueNums=-1: expected 0 to 16384"),
        ({"writeQueueNums": "16385"}, 29, "writeQueueNums=16385: expected 0 to 16384"),
        ({"perm": "8"}, 29, "perm=8: expected 0 to 7"),
        ({"perm": "x"}, 1, "the header field perm cannot be 'x'"),
        ({"topicFilterType": "NONE"}, 1, "topicFilterType = [NONE] value invalid"),
        ({"attributes": "+no.such=1"}, 1, "unsupported key: no.such"),
        ({"attributes": "message.type=FIFO"}, 1, "add/alter attribute format is wrong: message.type"),
        ({"attributes": "+message.type=MIXED"}, 29, "MIXED message type is not supported."),
    ],
)
@in_loop
async def test_bad_topic_is_refused_and_nothing_changes(
    tmp_path: Path, fields: dict[str, str], code: int, remark: str
) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        before = dict(broker.state.topics.topics)
        asked = {**topic_fields(), **fields}
        assert await client.refused(RequestCode.UPDATE_AND_CREATE_TOPIC, **asked) == (code, remark)
        assert broker.state.topics.topics == before


@in_loop
async def test_topics_have_a_limit(tmp_path: Path) -> None:
    async with serving(tmp_path, maxTopics="14") as broker:
        client = broker.member("admin")
        left = 14 - len(broker.state.topics.topics)
        for number in range(left):
            await create_topic(client, f"T{number}")
        code, remark = await client.refused(RequestCode.UPDATE_AND_CREATE_TOPIC, **topic_fields("more"))
        assert (code, remark) == (ResponseCode.SYSTEM_ERROR, "this broker keeps at most 14 topics")
        await create_topic(client, "T0", queues=9)


@in_loop
async def test_topic_that_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        with file_size_limit(10):
            code, remark = await client.refused(RequestCode.UPDATE_AND_CREATE_TOPIC, **topic_fields())
        assert code == ResponseCode.SYSTEM_ERROR
        assert "topics.json" in (remark or "")


@in_loop
async def test_list_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
        good = [{"topicName": "A", "perm": 4}, {"topicName": "B", "writeQueueNums": 1, "attributes": None}]
        await client.ok(code, msgspec.json.encode({"topicConfigList": good}))
        topics = broker.state.topics.topics
        assert (topics["A"].perm, topics["A"].read_queue_nums, topics["B"].write_queue_nums) == (4, 16, 1)
        bad = [{"topicName": "C"}, {"topicName": "../x"}]
        answer = await client.ask(code, msgspec.json.encode({"topicConfigList": bad}))
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "C" not in topics
        for body in (b"", b"no json", b"{}", b'{"topicConfigList":[{"perm":"x"}]}'):
            assert (await client.ask(code, body)).code == ResponseCode.SYSTEM_ERROR


@in_loop
async def test_all_topics_at_once_or_by_pages(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client, "zz")
        answer = await client.ok(RequestCode.GET_ALL_TOPIC_CONFIG)
        whole = msgspec.json.decode(answer.body)
        assert set(whole["topicConfigTable"]) == set(broker.state.topics.topics)
        assert answer.fields()["totalTopicNum"] == str(len(broker.state.topics.topics))
        version = msgspec.json.encode(whole["dataVersion"]).decode()
        fields = {"dataVersion": version, "topicSeq": "2", "maxTopicNum": "3"}
        page = msgspec.json.decode((await client.ok(RequestCode.GET_ALL_TOPIC_CONFIG, **fields)).body)
        assert list(page["topicConfigTable"]) == sorted(broker.state.topics.topics)[2:5]


@in_loop
async def test_system_topics(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        answer = await broker.member("admin").ok(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        topics = msgspec.json.decode(answer.body)["topicList"]
        assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "DefaultCluster"} <= set(topics)


@in_loop
async def test_deleted_topic_takes_its_queues_and_offsets_along(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        await create_topic(client, "%RETRY%G_T")
        await create_group(client)
        await send(client)
        await commit(client, 1)
        await client.ok(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
        assert await config_of(client, "T") is None
        assert await config_of(client, "%RETRY%G_T") is None
        assert told(await client.ok(RequestCode.GET_ALL_CONSUMER_OFFSET))["offsetTable"] == {}
        await create_topic(client)
        assert (await send(client)).fields()["queueOffset"] == "0"


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        ("", "The specified topic is blank."),
        ("TBW102", "The topic[TBW102] is conflict with system topic."),
    ],
)
@in_loop
async def test_topics_that_are_not_deleted(tmp_path: Path, topic: str, remark: str) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        before = dict(broker.state.topics.topics)
        answer = await client.refused(RequestCode.DELETE_TOPIC_IN_BROKER, topic=topic)
        assert answer == (ResponseCode.INVALID_PARAMETER, remark)
        assert broker.state.topics.topics == before


@in_loop
async def test_what_is_not_there_is_as_good_as_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        for topic in ("NONE", "../x"):
            await client.ok(RequestCode.DELETE_TOPIC_IN_BROKER, topic=topic)
