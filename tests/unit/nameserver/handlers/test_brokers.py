"""What brokers say, over the wire."""

from __future__ import annotations

import zlib

import msgspec

from apogeemq.model.routes import DataVersion, QueueMapping
from apogeemq.protocol.bodies.registration import Registration, encode_registration
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import BINARY, Command
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.versions import V3_0_11
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.joining import address_of, broker_header, data_version, perms, topic, topic_table
from tests.unit.nameserver.live import Client, Home, ask_as, eventually

REGISTER = RequestCode.REGISTER_BROKER
MANY = [f"topic-{number:03d}" for number in range(150)]  # a body that is worth reading in pieces
FIELDS = write_fields(broker_header())
BODY = encode_registration(Registration(data_version(), topic_table(["T", "U"])))


def crc_of(body: bytes) -> str:
    return str(zlib.crc32(body) & 0x7FFFFFFF)


async def query(client: Client, version: DataVersion, address: str = address_of("broker-a")) -> Command:
    return await client.ok(
        RequestCode.QUERY_DATA_VERSION,
        msgspec.json.encode(version),
        brokerName="broker-a",
        brokerAddr=address,
        clusterName="c1",
        brokerId="0",
    )


@in_loop
async def test_master_gets_an_empty_answer_and_a_slave_its_master(home: Home) -> None:
    async with home.serve() as running:
        answer = await running.client().register(ha_address="a:10912")
        assert (answer.fields(), answer.body) == ({}, b"")
        answer = await running.client().register(broker_id=1)
        assert answer.fields() == {"masterAddr": address_of("broker-a"), "haServerAddr": "a:10912"}


@in_loop
async def test_answer_carries_the_order_configuration_once_there_is_one(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        await client.ok(RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
        assert (await client.register()).body == b'{"table":{"T":"broker-a:4"}}'
        await client.ok(RequestCode.UPDATE_NAMESRV_CONFIG, b"returnOrderTopicConfigToBroker=false")
        assert (await client.register()).body == b""


@in_loop
async def test_checksum_is_checked_unless_it_is_zero(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        wrong = await client.refused(REGISTER, BODY, **{**FIELDS, "bodyCrc32": "12345"})
        assert wrong == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
        assert not running.table.live
        for crc in ("0", crc_of(BODY)):
            await client.ok(REGISTER, BODY, **{**FIELDS, "bodyCrc32": crc})
        assert list(running.table.topics) == ["T", "U"]


@in_loop
async def test_body_that_is_none_is_an_error_and_changes_nothing(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        for body in (b"{", b"x" * 50, zlib.compress(b"\0\0\0"), BODY[:-5], b"\x78\x9cgarbage"):
            code, remark = await client.refused(REGISTER, body, **FIELDS)
            assert code == ResponseCode.SYSTEM_ERROR
            assert (remark or "").startswith("Failed to decode RegisterBrokerBody")
        assert not running.table.live
        assert running.name_server.dispatcher.failure_count == 0


@in_loop
async def test_registration_without_a_body_is_a_broker_without_topics(home: Home) -> None:
    async with home.serve() as running:
        await running.client().ok(REGISTER, **FIELDS)
        (live,) = running.table.live.values()
        assert live.data_version == DataVersion()
        assert running.table.topics == {}


@in_loop
async def test_body_of_a_broker_before_3_0_11(home: Home) -> None:
    body = (
        b'{"dataVersion":{"counter":3,"timestamp":1},"topicConfigTable":{"T":{"topicName":"T","perm":6,'
        b'"readQueueNums":2,"writeQueueNums":2},"U":{"topicName":"U"}}}'
    )
    async with home.serve() as running:
        answer = await ask_as(running.address, REGISTER, FIELDS, body, version=V3_0_11 - 1)
        assert answer.code == ResponseCode.SUCCESS
        assert running.table.topics["T"]["broker-a"].read_queues == 2
        assert running.table.topics["U"]["broker-a"] == (16, 16, 6, 0)


@in_loop
async def test_binary_headers_are_answered_in_kind(home: Home) -> None:
    async with home.serve() as running:
        answer = await running.client().ask(REGISTER, BODY, BINARY, **FIELDS)
        assert (answer.code, answer.codec) == (ResponseCode.SUCCESS, BINARY)
        assert list(running.table.topics) == ["T", "U"]


@in_loop
async def test_missing_header_field_is_named(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        given = dict(FIELDS)
        del given["brokerAddr"]
        assert await client.refused(REGISTER, BODY, **given) == (
            ResponseCode.SYSTEM_ERROR,
            "the header field brokerAddr is missing",
        )
        assert await client.refused(REGISTER, BODY, **{**FIELDS, "brokerId": "x"}) == (
            ResponseCode.SYSTEM_ERROR,
            "the header field brokerId cannot be 'x'",
        )


@in_loop
async def test_single_topic_is_refused_at_first(home: Home) -> None:
    async with home.serve() as running:
        body = encode_registration(Registration(data_version(), topic_table(["T"])))
        assert await running.client().refused(REGISTER, body, **FIELDS) == (
            ResponseCode.SYSTEM_ERROR,
            "register broker failed",
        )


@in_loop
async def test_broker_goes_with_its_connection_and_stays_with_a_newer_one(home: Home) -> None:
    async with home.serve() as running:
        old, new = running.client(), running.client()
        await old.register()
        await new.register()
        await running.closed(old)
        assert running.table.live
        await running.closed(new)
        assert not running.table.live
        assert await running.client().route("TopicA") is None


@in_loop
async def test_late_unregister_on_an_older_connection_is_ignored(home: Home) -> None:
    identity = {"brokerName": "broker-a", "brokerAddr": address_of("broker-a"), "clusterName": "c1", "brokerId": "0"}
    async with home.serve() as running:
        old, new = running.client(), running.client()
        await old.register()
        await new.register()
        await old.ok(RequestCode.UNREGISTER_BROKER, **identity)
        assert running.table.live
        await new.ok(RequestCode.UNREGISTER_BROKER, **identity)
        assert not running.table.live
        await new.ok(RequestCode.UNREGISTER_BROKER, **identity)  # once more is no error


@in_loop
async def test_data_version_tells_whether_to_register(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        answer = await query(client, data_version())
        assert (answer.fields(), answer.body) == ({"changed": "true"}, b"")
        await client.register(version=1)
        answer = await query(client, data_version(1))
        assert answer.fields() == {"changed": "false"}
        assert msgspec.json.decode(answer.body, type=DataVersion) == data_version(1)
        answer = await query(client, data_version(2))
        assert answer.fields() == {"changed": "true"}


@in_loop
async def test_question_for_the_version_and_heartbeat_keep_a_broker_alive(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        await client.register(timeout_ms=10_000)
        (live,) = running.table.live.values()
        live.last_update_ms = 0
        await query(client, data_version())
        assert live.last_update_ms > 0
        live.last_update_ms = 0
        address = address_of("broker-a")
        await client.ok(RequestCode.BROKER_HEARTBEAT, clusterName="c1", brokerAddr=address, brokerName="broker-a")
        assert live.last_update_ms > 0


@in_loop
async def test_heartbeat_of_a_stranger_is_a_success(home: Home) -> None:
    async with home.serve() as running:
        await running.client().ok(RequestCode.BROKER_HEARTBEAT, clusterName="c", brokerAddr="a:1", brokerName="b")
        assert not running.table.live


@in_loop
async def test_overdue_broker_is_dropped_and_its_connection_closed(home: Home) -> None:
    async with home.serve(scanNotActiveBrokerInterval="1") as running:
        await running.client().register(timeout_ms=1)
        await eventually(lambda: not running.table.live and not running.name_server.server.channels)


@in_loop
async def test_member_group_in_fastjsons_dialect(home: Home) -> None:
    async with home.serve() as running:
        await running.client().register(broker_id=1)
        client = running.client()
        await client.register()
        answer = await client.ok(RequestCode.GET_BROKER_MEMBER_GROUP, clusterName="c1", brokerName="broker-a")
        assert answer.body == (
            b'{"brokerMemberGroup":{"brokerAddrs":{0:"broker-a-0:10911",1:"broker-a-1:10911"},'
            b'"brokerName":"broker-a","cluster":"c1"}}'
        )
        answer = await client.ok(RequestCode.GET_BROKER_MEMBER_GROUP, clusterName="c1", brokerName="nobody")
        assert answer.body == b'{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"nobody","cluster":"c1"}}'


# -- large tables, of which only the changes are read ----------------------------------------------------------


@in_loop
async def test_one_changed_topic_among_many_counts_with_its_version(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        await client.register(topics=MANY, version=1)
        await client.register(topics=MANY, version=1)
        changed = [topic(name, read=9) if name == "topic-070" else topic(name) for name in MANY]
        await client.register(topics=changed, version=2)
        assert running.table.topics["topic-070"]["broker-a"].read_queues == 9
        assert len(running.table.topics) == 150
        assert running.table.live["c1", address_of("broker-a")].data_version == data_version(2)


@in_loop
async def test_new_version_ends_a_wipe_for_all_topics(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        await client.register(topics=MANY, version=1)
        await client.ok(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
        await client.register(topics=MANY, version=1)
        await client.register(topics=MANY, version=1)
        assert set(perms(running.table).values()) == {4}
        await client.register(topics=MANY, version=2)
        assert set(perms(running.table).values()) == {6}


@in_loop
async def test_mapping_that_had_to_wait_for_a_version_is_taken_with_it(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        await client.register(topics=MANY, version=1)
        mapping = QueueMapping("broker-a", {0: 3})
        for version in (1, 1, 2):
            assert running.table.queue_mappings == {}
            said = Registration(data_version(version), topic_table(MANY), {"topic-070": mapping}, [])
            await client.ok(REGISTER, encode_registration(said), **FIELDS)
        assert running.table.queue_mappings == {"topic-070": {"broker-a": mapping}}


@in_loop
async def test_repeated_registration_brings_deleted_topics_back(home: Home) -> None:
    async with home.serve() as running:
        client = running.client()
        await client.register(topics=MANY)
        await client.ok(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="topic-070")
        assert len(running.table.topics) == 149
        await client.register(topics=MANY)
        assert len(running.table.topics) == 150


@in_loop
async def test_missing_topics_go_when_so_configured_and_all_others_stay(home: Home) -> None:
    async with home.serve(deleteTopicWithBrokerRegistration="true") as running:
        client = running.client()
        await client.register(topics=MANY, version=1)
        kept = [name for name in MANY if name != "topic-070"]
        await client.register(topics=kept, version=2)
        assert list(running.table.topics) == kept
        body = b'{"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":1,"writeQueueNums":1}]}'
        await client.ok(RequestCode.REGISTER_TOPIC_IN_NAMESRV, body, topic="extra")
        await client.register(topics=kept, version=2)
        assert list(running.table.topics) == kept
