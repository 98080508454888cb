"""Heartbeats, notices and questions about clients, over the wire."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from apogeemq.broker.handlers import clients as handlers
from apogeemq.broker.handlers.clients import ClientHandlers
from apogeemq.broker.tables.clients import ClientLimits, ClientTable
from apogeemq.model.groups import GroupConfig
from apogeemq.model.topics import FLAG_UNIT_SUB, PERM_READ_WRITE, TopicConfig
from apogeemq.protocol.bodies.heartbeat import decode_heartbeat
from apogeemq.protocol.codec import encode_frame
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import CommandHead
from tests.unit.broker.handlers.members import Member, consumer, serving, subscription
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import eventually
from tests.unit.transport.live import Peer

HEART_BEAT = RequestCode.HEART_BEAT
CHANGED = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
UNCHANGED = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"}


async def ids(member: Member, group: str = "G") -> set[str]:
    answer = await member.ok(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)
    return set(json.loads(answer.body)["consumerIdList"])


async def connections(member: Member, group: str = "G") -> dict[str, Any]:
    answer = await member.ok(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup=group)
    found: dict[str, Any] = json.loads(answer.body)
    return found


# -- heartbeats ----------------------------------------------------------------------------------------------


@in_loop
async def test_heartbeat_makes_the_group_and_its_retry_topic(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        answer = await running.member("c1").heartbeat(consumer("NS%G"), consumer("H", unitMode=True))
        assert answer.fields() == CHANGED
        assert running.state.groups.get("NS%G") is not None
        assert running.state.topics.get("%RETRY%NS%G") == TopicConfig(
            topic_name="%RETRY%NS%G", read_queue_nums=1, write_queue_nums=1, perm=PERM_READ_WRITE
        )
        unit = running.state.topics.get("%RETRY%H")
        assert unit is not None
        assert unit.topic_sys_flag == FLAG_UNIT_SUB


@in_loop
async def test_retry_topic_follows_the_groups_settings(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        state = running.state
        state.groups.put(GroupConfig(group_name="G", retry_queue_nums=3), 0)
        state.topics.put(TopicConfig(topic_name="T", order=True), 0)
        await running.member("c1").heartbeat(consumer("G"))
        retry = state.topics.get("%RETRY%G")
        assert retry is not None
        assert (retry.read_queue_nums, retry.order) == (3, True)
        # A heartbeat that leaves its subscriptions out does not say that they are of no ordered topic.
        bare = {**consumer("G"), "subscriptionDataSet": []}
        await running.member("c1").heartbeat(bare, heartbeatFingerprint=7, withoutSub=True)
        assert retry.order


@in_loop
async def test_groups_that_may_not_be_are_passed_over(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        groups = [consumer(""), consumer("../x"), consumer("g" * 256), consumer("G")]
        await running.member("c1").heartbeat(*groups, producers=("P",))
        assert list(running.state.clients.consumers) == ["G"]
        assert list(running.state.clients.producers) == ["P"]
        assert [name for name in running.state.topics.topics if "RETRY" in name] == ["%RETRY%G"]


@in_loop
async def test_no_group_is_made_when_groups_are_made_by_people(tmp_path: Path) -> None:
    async with serving(tmp_path, autoCreateSubscriptionGroup="false") as running:
        await running.member("c1").heartbeat(consumer("G"))
        assert running.state.clients.consumers == {}


@in_loop
async def test_pull_consumers_can_be_kept_off(tmp_path: Path) -> None:
    async with serving(tmp_path, rejectPullConsumerEnable="true") as running:
        await running.member("c1").heartbeat(consumer("G", consumeType="CONSUME_ACTIVELY"), consumer("H"))
        assert list(running.state.clients.consumers) == ["H"]


@in_loop
async def test_second_version_of_heartbeats(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = running.member("c1")
        bare = {**consumer("G"), "subscriptionDataSet": []}
        assert (await member.heartbeat(consumer("G"), heartbeatFingerprint=7)).fields() == UNCHANGED
        assert (await member.heartbeat(bare, heartbeatFingerprint=7, withoutSub=True)).fields() == UNCHANGED
        assert list((await connections(member))["subscriptionTable"]) == ["T"]
        assert (await member.heartbeat(bare, heartbeatFingerprint=8, withoutSub=True)).fields() == CHANGED
        # Without a fingerprint it is the first version, which always says all it has.
        assert (await member.heartbeat(bare, withoutSub=True)).fields() == CHANGED
        assert (await connections(member))["subscriptionTable"] == {}


@pytest.mark.parametrize(
    "body", [b"", b"zz", b'{"producerDataSet":[{"groupName":"P"}]}', b'{"clientID":"c","consumerDataSet":[{}]}']
)
@in_loop
async def test_what_is_no_heartbeat_changes_nothing(tmp_path: Path, body: bytes) -> None:
    async with serving(tmp_path) as running:
        member = running.member("c1")
        code, _ = await member.refused(HEART_BEAT, body)
        assert code == ResponseCode.SYSTEM_ERROR
        assert running.state.clients.client_count == 0
        await member.heartbeat(consumer())  # the connection lives on


@in_loop
async def test_heartbeats_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "MAX_HEARTBEAT_SIZE", 100)
    async with serving(tmp_path) as running:
        running.state.clients = ClientTable(ClientLimits(max_name_length=3))
        member = running.member("c1")
        code, remark = await member.refused(HEART_BEAT, b" " * 101)
        assert (code, remark) == (ResponseCode.SYSTEM_ERROR, "the heartbeat is longer than 100 bytes")
        code, remark = await member.refused(HEART_BEAT, b'{"clientID":"four"}')
        assert (code, remark) == (ResponseCode.SYSTEM_ERROR, "a name is longer than 3 characters")


# -- notices -------------------------------------------------------------------------------------------------


@in_loop
async def test_members_are_told_of_joining_leaving_and_lost_connections(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        first, second, third = (running.member(f"c{number}") for number in (1, 2, 3))
        await first.heartbeat(consumer("G"))
        assert first.notices == ["G"]
        await first.heartbeat(consumer("G"))
        await second.heartbeat(consumer("G"))
        await eventually(lambda: first.notices == ["G"] * 2 and second.notices == ["G"])
        await third.heartbeat(consumer("G"))
        await eventually(lambda: first.notices == ["G"] * 3)
        await second.ok(RequestCode.UNREGISTER_CLIENT, clientID="c2", consumerGroup="G", producerGroup="none")
        await eventually(lambda: first.notices == ["G"] * 4)
        assert await ids(first) == {"c1", "c3"}
        await running.gone(third)
        await eventually(lambda: first.notices == ["G"] * 5)
        assert await ids(first) == {"c1"}
        assert second.notices == ["G"] * 2


@in_loop
async def test_members_are_told_of_topics_that_come_and_go(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        first, second = running.member("c1"), running.member("c2")
        await first.heartbeat(consumer("G"))
        await second.heartbeat(consumer("G"))
        await eventually(lambda: first.notices == ["G"] * 2)
        await second.heartbeat(consumer("G", subscription("T"), subscription("U")))
        await eventually(lambda: first.notices == ["G"] * 3)
        await second.heartbeat(consumer("G", subscription("U", "A", 2)))
        await eventually(lambda: first.notices == ["G"] * 4)
        assert (await connections(first))["subscriptionTable"]["U"]["subString"] == "A"


@pytest.mark.parametrize("kept_quiet_by", ["broadcasting", "broker", "group"])
@in_loop
async def test_some_are_told_nothing(tmp_path: Path, kept_quiet_by: str) -> None:
    model = "BROADCASTING" if kept_quiet_by == "broadcasting" else "CLUSTERING"
    is_broker_quiet = kept_quiet_by == "broker"
    async with serving(tmp_path, notifyConsumerIdsChangedEnable="false" if is_broker_quiet else "true") as running:
        is_notified = kept_quiet_by != "group"
        running.state.groups.put(GroupConfig(group_name="G", notify_consumer_ids_changed_enable=is_notified), 0)
        first, second = running.member("c1"), running.member("c2")
        await first.heartbeat(consumer("G", messageModel=model))
        await second.heartbeat(consumer("G", messageModel=model))
        await running.gone(second)
        assert await ids(first) == {"c1"}  # the answer comes after whatever was told before
        assert first.told == []


@in_loop
async def test_one_connection_with_many_groups_leaves_all_of_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        first, second = running.member("c1"), running.member("c2")
        await first.heartbeat(consumer("G"), consumer("H"), producers=("P",))
        await second.heartbeat(consumer("G"), consumer("H"), producers=("P", "Q"))
        await running.gone(second)
        await eventually(lambda: sorted(first.notices) == ["G"] * 3 + ["H"] * 3)
        assert list(running.state.clients.producers) == ["P"]


@in_loop
async def test_silent_clients_are_forgotten_and_their_connections_closed(tmp_path: Path) -> None:
    async with serving(tmp_path, channelExpiredTimeout="60000") as running:
        first, second = running.member("c1"), running.member("c2")
        await first.heartbeat(consumer("G"))
        await second.heartbeat(consumer("G"))
        await eventually(lambda: first.notices == ["G"] * 2)
        group = running.state.clients.consumers["G"]
        [silent] = [number for number, client in group.clients.items() if client.client_id == "c2"]
        group.clients[silent] = group.clients[silent]._replace(last_seen_ms=0)
        ClientHandlers(running.state).expire()
        await eventually(lambda: len(running.server.channels) == 1)
        await eventually(lambda: first.notices == ["G"] * 3)
        assert await ids(first) == {"c1"}


# -- questions about clients ---------------------------------------------------------------------------------


@in_loop
async def test_nobody_is_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = running.member("c1")
        assert await member.refused(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="G") == (
            ResponseCode.SYSTEM_ERROR,
            "no consumer for this group, G",
        )
        assert await member.refused(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="G") == (
            ResponseCode.CONSUMER_NOT_ONLINE,
            "the consumer group[G] not online",
        )
        assert await member.refused(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="P") == (
            ResponseCode.SYSTEM_ERROR,
            "the producer group[P] not exist",
        )
        assert (await member.ok(RequestCode.GET_ALL_PRODUCER_INFO)).body == b'{"data":{}}'
        await member.ok(RequestCode.UNREGISTER_CLIENT, clientID="c1", consumerGroup="G", producerGroup="P")
        await member.ok(RequestCode.UNREGISTER_CLIENT)
        code, _ = await member.refused(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
        assert code == ResponseCode.SYSTEM_ERROR


@in_loop
async def test_connections_of_consumers_and_producers(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        member = running.member("c1")
        await member.heartbeat(consumer("G"), producers=("P",))
        [channel] = running.server.channels
        connection = {"clientAddr": channel.peer, "clientId": "c1", "language": "PYTHON", "version": 513}
        assert await connections(member) == {
            "connectionSet": [connection],
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "subscriptionTable": {"T": {**subscription(), "classFilterMode": False, "expressionType": "TAG"}},
        }
        answer = await member.ok(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="P")
        assert json.loads(answer.body) == {"connectionSet": [connection]}
        table = json.loads((await member.ok(RequestCode.GET_ALL_PRODUCER_INFO)).body)
        [info] = table["data"]["P"]
        assert info.pop("lastUpdateTimestamp") > 0
        assert info == {"clientId": "c1", "language": "PYTHON", "remoteIP": f"/{channel.peer}", "version": 513}
        await member.ok(RequestCode.UNREGISTER_CLIENT, clientID="c1", producerGroup="P", consumerGroup="G")
        assert running.state.clients.client_count == 0


@pytest.mark.parametrize(("language", "shown"), [("GO", "GO"), ("SNOBOL", "OTHER")])
@in_loop
async def test_language_and_version_are_those_of_the_heartbeat(tmp_path: Path, language: str, shown: str) -> None:
    async with serving(tmp_path) as running:
        member = running.member("c1")
        host, _, port = running.address.rpartition(":")
        peer = Peer(*await asyncio.open_connection(host, int(port)))
        body = b'{"clientID":"c9","producerDataSet":[{"groupName":"P"}]}'
        peer.send(encode_frame(CommandHead(HEART_BEAT, 1, language=language, version=317), None, body))
        await peer.receive()
        answer = await member.ok(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="P")
        [connection] = json.loads(answer.body)["connectionSet"]
        assert (connection["language"], connection["version"]) == (shown, 317)
        await peer.close()


@in_loop
async def test_subscriptions_that_can_be_served(tmp_path: Path) -> None:
    check = RequestCode.CHECK_CLIENT_CONFIG
    async with serving(tmp_path) as running:
        member = running.member("c1")

        def body(**more: Any) -> bytes:
            return json.dumps({"clientId": "c1", "group": "G", "subscriptionData": subscription(**more)}).encode()

        await member.ok(check)
        await member.ok(check, body(expressionType="TAG"))
        await member.ok(check, body(expressionType=None))
        assert await member.refused(check, body(expressionType="SQL92")) == (
            ResponseCode.SYSTEM_ERROR,
            "The broker does not support consumer to filter message by SQL92",
        )
        code, _ = await member.refused(check, b"zz")
        assert code == ResponseCode.SYSTEM_ERROR


def test_example_heartbeat_of_these_tests_is_one() -> None:
    body = json.dumps({"clientID": "c", "consumerDataSet": [consumer()]}).encode()
    assert decode_heartbeat(body).consumers[0].group == "G"
