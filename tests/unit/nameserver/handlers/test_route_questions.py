"""Routes, the cluster and lists of topics, as clients of all ages ask for them."""

from __future__ import annotations

import msgspec
import pytest

from apogeemq.model.topics import FLAG_UNIT, FLAG_UNIT_SUB
from apogeemq.protocol.bodies.routes import decode_route
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import BINARY, JSON
from apogeemq.protocol.versions import V4_9_4
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.joining import topic
from tests.unit.nameserver.live import Client, Home, Running, ask_as

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
NO_ROUTE = (
    "No topic route info in name server for the topic: {}\n"
    "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
)
STANDARD = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"broker-a-0:10911"},"brokerName":"broker-a","cluster":"c1",'
    b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
    b'"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)
BARE = STANDARD.replace(b'{"0":', b"{0:")


async def topic_list(client: Client, code: int, **fields: str) -> list[str]:
    found: list[str] = msgspec.json.decode((await client.ok(code, **fields)).body)["topicList"]
    return found


@pytest.mark.parametrize("codec", [JSON, BINARY])
@pytest.mark.parametrize(
    ("version", "fields", "body"),
    [
        (V4_9_4, {}, STANDARD),
        (V4_9_4 - 1, {}, BARE),
        (317, {"acceptStandardJsonOnly": "true"}, STANDARD),
        (317, {"acceptStandardJsonOnly": "false"}, BARE),
        (0, {}, BARE),
    ],
)
@in_loop
async def test_dialect_by_version_and_wish(
    home: Home, version: int, fields: dict[str, str], body: bytes, codec: int
) -> None:
    async with home.serve() as running:
        await running.client().register()
        for _ in range(3):  # made, then cached, then answered without being decoded
            answer = await ask_as(running.address, ROUTE, {"topic": "TopicA", **fields}, version=version, codec=codec)
            assert (answer.code, answer.body, answer.codec) == (ResponseCode.SUCCESS, body, codec)


@in_loop
async def test_topic_without_route(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        assert await client.refused(ROUTE, topic="T") == (ResponseCode.TOPIC_NOT_EXIST, NO_ROUTE.format("T"))
        assert await client.refused(ROUTE) == (ResponseCode.TOPIC_NOT_EXIST, NO_ROUTE.format("null"))


@in_loop
async def test_same_question_gets_the_new_answer_after_a_change(home: Home) -> None:
    async with home.serve() as running:
        client, broker = running.client(), running.client()
        for round_number in range(3):
            assert await client.route("TopicA") is None
            await broker.register(version=round_number)
            for _ in range(3):
                assert await client.route("TopicA") is not None
            await running.closed(broker)
            broker = running.client()


@in_loop
async def test_order_configuration_comes_with_the_route_and_leaves_it(home: Home) -> None:
    async with home.serve(orderMessageEnable="true") as running:
        client = running.client()
        await client.register()
        for value in ("broker-a:4", "broker-a:8"):
            await client.ok(RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="TopicA", value=value)
            assert (await client.route("TopicA") or {})["orderTopicConf"] == value
        assert "orderTopicConf" not in (await client.route("TopicB") or {})
        await client.ok(RequestCode.DELETE_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="TopicA")
        assert "orderTopicConf" not in (await client.route("TopicA") or {})


async def two_zones(running: Running) -> None:
    await running.client().register("broker-a", zone="z1")
    await running.client().register("broker-b", zone="z2")


@in_loop
async def test_zone_filter_answers_in_fastjsons_dialect(home: Home) -> None:
    async with home.serve() as running:
        await two_zones(running)
        fields = {"topic": "TopicA", "__ZONE_MODE": "true", "__ZONE_NAME": "Z1"}
        answer = await ask_as(running.address, ROUTE, fields)
        assert b'"brokerAddrs":{0:' in answer.body
        route = decode_route(answer.body)
        assert ([group.name for group in route.brokers], list(route.queues)) == (["broker-a"], ["broker-a"])


@pytest.mark.parametrize(
    "fields", [{"__ZONE_MODE": "false", "__ZONE_NAME": "z1"}, {"__ZONE_MODE": "true"}, {"__ZONE_NAME": "z1"}]
)
@in_loop
async def test_zone_counts_only_with_mode_and_name(home: Home, fields: dict[str, str]) -> None:
    async with home.serve() as running:
        await two_zones(running)
        route = await running.client().route("TopicA", **fields)
        assert route is not None
        assert len(route["brokerDatas"]) == 2


@in_loop
async def test_zone_question_does_not_spoil_the_plain_one(home: Home) -> None:
    async with home.serve() as running:
        await two_zones(running)
        client = running.client()
        for _ in range(3):
            zoned = await client.ok(ROUTE, topic="TopicA", __ZONE_MODE="true", __ZONE_NAME="z1")
            assert len(decode_route(zoned.body).brokers) == 1
            plain = await client.ok(ROUTE, topic="TopicA")
            assert len(decode_route(plain.body).brokers) == 2


@in_loop
async def test_acting_master_is_shown_when_so_configured(home: Home) -> None:
    async with home.serve(supportActingMaster="true") as running:
        await running.client().register(broker_id=1, acting=True)
        client = running.client()
        route = await client.route("TopicA")
        assert route is not None
        assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "broker-a-1:10911"}
        await client.ok(RequestCode.UPDATE_NAMESRV_CONFIG, b"supportActingMaster=false")
        route = await client.route("TopicA")
        assert route is not None
        assert route["brokerDatas"][0]["brokerAddrs"] == {"1": "broker-a-1:10911"}


@in_loop
async def test_cluster_info_is_in_fastjsons_dialect_for_everybody(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        empty = await client.ok(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert empty.body == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
        await client.register()
        assert (await client.ok(RequestCode.GET_BROKER_CLUSTER_INFO)).body == (
            b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"broker-a-0:10911"},"brokerName":"broker-a",'
            b'"cluster":"c1","enableActingMaster":false}},"clusterAddrTable":{"c1":["broker-a"]}}'
        )


@in_loop
async def test_lists_of_topics(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        flags = {"plain": 0, "unit": FLAG_UNIT, "sub": FLAG_UNIT_SUB, "both": FLAG_UNIT | FLAG_UNIT_SUB}
        await client.register(topics=[topic(name, flag=flag) for name, flag in flags.items()])
        assert await topic_list(client, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == list(flags)
        assert await topic_list(client, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="c1") == list(flags)
        assert await topic_list(client, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="nothing") == []
        assert await topic_list(client, RequestCode.GET_UNIT_TOPIC_LIST) == ["unit", "both"]
        assert await topic_list(client, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["sub", "both"]
        assert await topic_list(client, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["sub"]
        system = await client.ok(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        assert system.body == b'{"brokerAddr":"broker-a-0:10911","topicList":["c1","broker-a"]}'


@in_loop
async def test_lists_can_be_turned_off(home: Home) -> None:
    disabled = (ResponseCode.SYSTEM_ERROR, "disable")
    async with home.serve(enableAllTopicList="false", enableTopicList="false") as running:
        client = running.client()
        assert await client.refused(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == disabled
        assert await client.refused(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="c1") == disabled
        for code in (
            RequestCode.GET_UNIT_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        ):
            assert await client.refused(code) == disabled
        assert await topic_list(client, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == []


@in_loop
async def test_unknown_code_is_answered_and_the_connection_kept(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        for code in (9_999, -5, 0, 10):
            assert await client.refused(code) == (
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f" request type {code} not supported",
            )
        assert len(running.name_server.server.channels) == 1
