"""Topics and permissions changed one by one, over the wire."""

from __future__ import annotations

import msgspec

from apogeemq.protocol.codes import RequestCode, ResponseCode
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.joining import perms
from tests.unit.nameserver.live import Home

REGISTER_TOPIC = RequestCode.REGISTER_TOPIC_IN_NAMESRV


def queue_data(broker: str, queues: int = 8) -> dict[str, object]:
    return {"brokerName": broker, "perm": 6, "readQueueNums": queues, "writeQueueNums": queues, "topicSysFlag": 0}


def topic_body(*brokers: str) -> bytes:
    return msgspec.json.encode({"brokerDatas": [], "queueDatas": [queue_data(broker) for broker in brokers]})


@in_loop
async def test_wipe_and_add_count_topics_and_change_routes(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        await client.register()
        route = await client.route("TopicA")
        answer = await client.ok(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
        assert answer.fields() == {"wipeTopicCount": "2"}
        assert perms(running.table) == {"TopicA": 4, "TopicB": 4}
        wiped = await client.route("TopicA")
        assert wiped is not None
        assert wiped["queueDatas"][0]["perm"] == 4
        answer = await client.ok(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="broker-a")
        assert answer.fields() == {"addTopicCount": "2"}
        assert await client.route("TopicA") == route


@in_loop
async def test_unknown_broker_counts_no_topics(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        answer = await client.ok(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="nobody")
        assert answer.fields() == {"wipeTopicCount": "0"}
        code, remark = await client.refused(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
        assert (code, remark) == (ResponseCode.SYSTEM_ERROR, "the header field brokerName is missing")


@in_loop
async def test_topic_is_deleted_everywhere_or_in_one_cluster(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        await client.register()
        await client.register("broker-b", cluster="c2")
        await client.ok(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="TopicA", clusterName="c2")
        route = await client.route("TopicA")
        assert route is not None
        assert [queue["brokerName"] for queue in route["queueDatas"]] == ["broker-a"]
        await client.ok(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="TopicB")
        assert await client.route("TopicB") is None
        await client.ok(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="no such topic")


@in_loop
async def test_single_topic_is_registered_on_known_brokers_only(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        await client.register()
        assert await client.route("New") is None
        await client.ok(REGISTER_TOPIC, topic_body("broker-a"), topic="New")
        route = await client.route("New")
        assert route is not None
        assert route["queueDatas"] == [queue_data("broker-a")]
        await client.ok(REGISTER_TOPIC, topic_body("broker-a", "nobody"), topic="Other")
        await client.ok(REGISTER_TOPIC, topic="Other")
        assert await client.route("Other") is None


@in_loop
async def test_body_of_a_topic_that_is_none_is_an_error(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        await client.register()
        for body in (b"{", b'{"queueDatas":[{"perm":6}]}', b"[" * 100_000):
            code, _ = await client.refused(REGISTER_TOPIC, body, topic="T")
            assert code == ResponseCode.SYSTEM_ERROR
        assert "T" not in running.table.topics
