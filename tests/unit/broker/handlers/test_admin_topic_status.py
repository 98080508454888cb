"""What is in topics, who reads them, and cleaning up."""

from __future__ import annotations

from pathlib import Path

import pytest

from apogeemq.filter.tags import java_hash
from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.broker.handlers.asking import commit, create_group, create_topic, send, told
from tests.unit.broker.handlers.members import consumer, serving, subscription
from tests.unit.event_loop import in_loop


@in_loop
async def test_topic_stats_has_a_line_for_each_queue(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client, queues=2, writeQueueNums="3")
        before = broker.state.now_ms()
        await send(client)
        await send(client)
        stats = told(await client.ok(RequestCode.GET_TOPIC_STATS_INFO, topic="T"))
        assert stats["topicPutTps"] == 0.0
        assert {key: (row["minOffset"], row["maxOffset"]) for key, row in stats["offsetTable"].items()} == {
            ("T", 0): (0, 2),
            ("T", 1): (0, 0),
            ("T", 2): (0, 0),
        }
        times = [row["lastUpdateTimestamp"] for row in stats["offsetTable"].values()]
        assert before <= times[0] <= broker.state.now_ms()
        assert times[1:] == [0, 0]


@in_loop
async def test_stats_of_no_topic(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        answer = await client.refused(RequestCode.GET_TOPIC_STATS_INFO, topic="NONE")
        assert answer == (ResponseCode.TOPIC_NOT_EXIST, "topic[NONE] not exist")
        assert (await client.refused(RequestCode.GET_TOPIC_STATS_INFO))[0] == ResponseCode.SYSTEM_ERROR


@in_loop
async def test_queue_entries(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        for tag in ("A", "B", "C"):
            await send(client, tag=tag)
        fields = {"topic": "T", "queueId": "0", "index": "1", "count": "9", "consumerGroup": "G"}
        body = told(await client.ok(RequestCode.QUERY_CONSUME_QUEUE, **fields))
        assert (body["minQueueIndex"], body["maxQueueIndex"], body["filterData"]) == (0, 3, "G@T is not online!")
        assert [row["tagsCode"] for row in body["queueData"]] == [java_hash("B"), java_hash("C")]
        first = body["queueData"][0]
        record = broker.state.store.log.record_at(first["physicOffset"])
        assert record is not None
        assert record.size == first["physicSize"]
        assert told(await client.ok(RequestCode.QUERY_CONSUME_QUEUE, **{**fields, "count": "0"}))["queueData"] == []


@pytest.mark.parametrize("index", ["-1", "3", "99"])
@in_loop
async def test_entries_outside_the_queue(tmp_path: Path, index: str) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        await send(client)
        answer = await client.ok(RequestCode.QUERY_CONSUME_QUEUE, topic="T", queueId="0", index=index, count="1")
        assert (answer.remark, answer.body) == (f"Index {index} of 0@T is not exist!", b"")
        refused = await client.refused(RequestCode.QUERY_CONSUME_QUEUE, topic="T", queueId="7", index="0", count="1")
        assert refused == (ResponseCode.SYSTEM_ERROR, "7@T is not exist!")


@in_loop
async def test_who_reads_a_topic_and_what_a_group_reads(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        await create_group(client, "past")
        await commit(client, 0, "past")
        await broker.member("c1").heartbeat(consumer("online", subscription("T", "A || B")))
        groups = told(await client.ok(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="T"))
        assert groups == {"groupList": ["online", "past"]}
        assert told(await client.ok(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="NONE")) == {"groupList": []}
        topics = told(await client.ok(RequestCode.QUERY_TOPICS_BY_CONSUMER, group="past"))
        assert topics == {"brokerAddr": broker.address, "topicList": ["T"]}
        found = told(await client.ok(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, group="online", topic="T"))
        assert (found["group"], found["topic"], found["subscriptionData"]["subString"]) == ("online", "T", "A || B")
        gone = told(await client.ok(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, group="past", topic="T"))
        assert gone == {"group": "past", "topic": "T"}


@in_loop
async def test_unused_topics_lose_their_queues_and_others_keep_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client, "kept")
        await create_topic(client, "gone")
        await send(client, "kept")
        await send(client, "gone")
        broker.state.topics.topics.pop("gone")
        await client.ok(RequestCode.CLEAN_UNUSED_TOPIC)
        assert {topic for topic, _ in broker.state.store.queues} == {"kept"}


@in_loop
async def test_cleaning_leaves_what_is_not_expired(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await create_topic(client)
        await send(client)
        await client.ok(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
        await client.ok(RequestCode.DELETE_EXPIRED_COMMITLOG)
        stats = told(await client.ok(RequestCode.GET_TOPIC_STATS_INFO, topic="T"))
        assert stats["offsetTable"]["T", 0]["maxOffset"] == 1
