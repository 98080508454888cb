"""How far groups have read."""

from __future__ import annotations

from pathlib import Path

from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.broker.handlers.asking import commit, create_group, create_topic, pull_fields, send, told
from tests.unit.broker.handlers.members import Member, consumer, serving, subscription
from tests.unit.event_loop import in_loop


async def prepared(client: Member) -> None:
    """Topic T with 2 and 1 messages, O with one; G has consumed the first of T and all of O."""
    await create_topic(client)
    await create_topic(client, "O", queues=1, order="true")
    await create_group(client)
    await send(client)
    await send(client)
    await send(client, queue=1)
    await send(client, "O")
    await commit(client, 1)
    await commit(client, 1, topic="O")


@in_loop
async def test_stats_of_a_group(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        before = broker.state.now_ms()
        await prepared(client)
        await client.ok(RequestCode.PULL_MESSAGE, **pull_fields(offset=1))
        stats = told(await client.ok(RequestCode.GET_CONSUME_STATS, consumerGroup="G"))
        table = stats["offsetTable"]
        figures = {key: (row["brokerOffset"], row["consumerOffset"], row["pullOffset"]) for key, row in table.items()}
        assert figures == {("T", 0): (2, 1, 2), ("T", 1): (1, 0, 0), ("O", 0): (1, 1, 1)}
        assert table["T", 1]["lastTimestamp"] == 0
        assert before <= table["T", 0]["lastTimestamp"] <= broker.state.now_ms()
        assert stats["consumeTps"] == 0.0


@in_loop
async def test_stats_of_some_topics(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await prepared(client)

        async def queues(**fields: str) -> set[tuple[str, int]]:
            return set(told(await client.ok(RequestCode.GET_CONSUME_STATS, **fields))["offsetTable"])

        assert await queues(consumerGroup="G", topic="O") == {("O", 0)}
        assert await queues(consumerGroup="G", topicList="O;T;NONE;") == {("O", 0), ("T", 0), ("T", 1)}
        assert await queues(consumerGroup="G", topic="NONE") == set()
        assert await queues(consumerGroup="NONE") == set()
        assert await queues(consumerGroup="NONE", topic="T") == {("T", 0), ("T", 1)}
        await broker.member("c1").heartbeat(consumer("G", subscription("O")))
        assert await queues(consumerGroup="G") == {("O", 0)}
        assert await queues(consumerGroup="G", topic="T") == set()
        assert await queues(consumerGroup="G", topicList="T") == {("T", 0), ("T", 1)}
        assert (await client.refused(RequestCode.GET_CONSUME_STATS))[0] == ResponseCode.SYSTEM_ERROR


@in_loop
async def test_stats_of_all_groups(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        await prepared(client)
        answer = told(await client.ok(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="false"))
        by_group = {group: topics for row in answer["consumeStatsList"] for group, topics in row.items()}
        assert set(by_group) == set(broker.state.groups.groups)
        assert [set(topic["offsetTable"]) for topic in by_group["G"]] == [{("O", 0)}, {("T", 0), ("T", 1)}]
        assert (answer["totalDiff"], answer["brokerAddr"]) == (2, broker.address)
        ordered = told(await client.ok(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="true"))
        assert ordered["totalDiff"] == 0


@in_loop
async def test_time_spans(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = broker.member("admin")
        before = broker.state.now_ms()
        await prepared(client)
        answer = told(await client.ok(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="T", group="G"))
        first, second = answer["consumeTimeSpanSet"]
        now = broker.state.now_ms()
        assert first["messageQueue"] == {"brokerName": "broker-a", "queueId": 0, "topic": "T"}
        assert before <= first["minTimeStamp"] == first["consumeTimeStamp"] <= first["maxTimeStamp"] <= now
        assert 0 <= first["delayTime"] <= now - before
        assert second["minTimeStamp"] == second["maxTimeStamp"]
        assert 0 <= second["delayTime"] <= now - before  # never consumed: since its first message
        done = told(await client.ok(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="O", group="G"))
        assert done["consumeTimeSpanSet"][0]["delayTime"] == 0
        refused = await client.refused(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="NONE", group="G")
        assert refused == (ResponseCode.TOPIC_NOT_EXIST, "topic[NONE] not exist")
