"""Questions that a consumer answers through the broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apogeemq.broker.handlers.relays import RelayHandlers
from apogeemq.broker.notices import notify_offsets_reset
from apogeemq.model.groups import GroupConfig
from apogeemq.model.ids import offset_id
from apogeemq.model.queues import MessageQueue
from apogeemq.model.topics import TopicConfig
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.clients import ResetOffset
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Reply
from tests.unit.broker.handlers.members import consumer, serving
from tests.unit.event_loop import in_loop
from tests.unit.nameserver.live import eventually
from tests.unit.store.conftest import HOST, message

INFO, CONSUME = RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY
STATUS = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
STATUS_BODY = b'{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5}}'


def answers(**answer: Any) -> Any:
    def give(channel: Channel, command: Command) -> Reply:
        return None if command.is_one_way else encode_reply(command, **answer)

    return give


@in_loop
async def test_question_and_answer_are_passed_on_as_they_are(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        asked, admin = running.member("c1"), running.member("admin")
        await asked.heartbeat(consumer("G"))
        asked.answer = answers(code=7, remark="as I said", fields={"x": "y"}, body=b"running")
        fields = {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "true", "another": "field"}
        answer = await admin.ask(INFO, **fields)
        assert (answer.code, answer.remark, answer.fields()) == (7, "as I said", {"x": "y"})
        assert answer.body == b"running"
        assert asked.told[-1].fields() == fields


@in_loop
async def test_consumers_that_cannot_be_asked(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        asked, admin = running.member("c1"), running.member("admin")
        await asked.heartbeat(consumer("G"))
        assert await admin.refused(INFO, consumerGroup="G", clientId="c2") == (
            ResponseCode.SYSTEM_ERROR,
            "The Consumer <G> <c2> not online",
        )
        assert await admin.refused(INFO, consumerGroup="G") == (
            ResponseCode.SYSTEM_ERROR,
            "The Consumer <G> <null> not online",
        )
        group = running.state.clients.consumers["G"]
        for number, client in tuple(group.clients.items()):
            group.clients[number] = client._replace(version=20)
        code, remark = await admin.refused(INFO, consumerGroup="G", clientId="c1")
        assert code == ResponseCode.SYSTEM_ERROR
        assert "please upgrade it" in (remark or "")
        code, remark = await admin.refused(STATUS, group="G", topic="T")
        assert "does not support this feature" in (remark or "")


@in_loop
async def test_consumer_that_does_not_answer(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        impatient = RelayHandlers(running.state, relay_timeout_seconds=0.01, status_timeout_seconds=0.01)
        impatient.install(running.broker.dispatcher)
        asked, admin = running.member("c1"), running.member("admin")
        await asked.heartbeat(consumer("G"))
        code, remark = await admin.refused(INFO, consumerGroup="G", clientId="c1")
        assert code == ResponseCode.CONSUME_MSG_TIMEOUT
        assert (remark or "").startswith("consumer <G> <c1> Timeout: ")
        assert (await admin.ok(STATUS, group="G", topic="T")).body == b'{"consumerTable":{},"messageQueueTable":{}}'


@in_loop
async def test_consumer_that_leaves_instead_of_answering(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        asked, admin = running.member("c1"), running.member("admin")
        await asked.heartbeat(consumer("G"))

        def leave(channel: Channel, command: Command) -> Reply:
            channel.abort()
            return None

        asked.answer = leave
        code, remark = await admin.refused(INFO, consumerGroup="G", clientId="c1")
        assert code == ResponseCode.SYSTEM_ERROR
        assert (remark or "").startswith("invoke consumer <G> <c1> Exception: ")


@in_loop
async def test_message_is_consumed_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        state = running.state
        state.topics.put(TopicConfig(topic_name="T", topic_sys_flag=3), 0)
        state.groups.put(GroupConfig(group_name="G", group_sys_flag=2), 0)
        state.store.put(message("T", 0, 1), 0)
        put = state.store.put(message("T", 0, 2, body=b"the body"), 0)
        asked, admin = running.member("c1"), running.member("admin")
        await asked.heartbeat(consumer("G"))
        asked.answer = answers(body=b'{"consumeResult":"CR_SUCCESS"}')
        message_id = offset_id(HOST, put.physical_offset)
        answer = await admin.ok(CONSUME, consumerGroup="G", clientId="c1", msgId=message_id, topic="T")
        assert answer.body == b'{"consumeResult":"CR_SUCCESS"}'
        given = asked.told[-1]
        assert given.body == state.store.log.read(put.physical_offset, put.size)
        assert b"the body" in given.body
        assert given.fields() == {
            "consumerGroup": "G",
            "clientId": "c1",
            "msgId": message_id,
            "topic": "T",
            "brokerName": "broker-a",
            "topicSysFlag": "3",
            "groupSysFlag": "2",
        }


@pytest.mark.parametrize("message_id", ["", "abc", "zz" * 16, offset_id(HOST, 4096), offset_id(HOST, 2**62)])
@in_loop
async def test_no_such_message(tmp_path: Path, message_id: str) -> None:
    async with serving(tmp_path) as running:
        asked, admin = running.member("c1"), running.member("admin")
        await asked.heartbeat(consumer("G"))
        code, _ = await admin.refused(CONSUME, consumerGroup="G", clientId="c1", msgId=message_id)
        assert code == ResponseCode.SYSTEM_ERROR
        await admin.refused(CONSUME, consumerGroup="G", clientId="c1")
        assert CONSUME not in {command.code for command in asked.told}


@in_loop
async def test_offsets_as_consumers_see_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        first, second, third = (running.member(f"c{number}") for number in (1, 2, 3))
        for member in (first, second, third):
            await member.heartbeat(consumer("G"))
        first.answer = answers(body=STATUS_BODY)
        second.answer = answers(code=1, remark="not here")
        third.answer = answers(body=b"{")
        admin = running.member("admin")
        answer = await admin.ok(STATUS, group="G", topic="T")
        status = b'{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5}'
        assert answer.body == b'{"consumerTable":{"c1":%b},"messageQueueTable":{}}' % status
        assert first.told[-1].fields() == {"group": "G", "topic": "T"}
        answer = await admin.ok(STATUS, group="G", topic="T", clientAddr="c2")
        assert answer.body == b'{"consumerTable":{},"messageQueueTable":{}}'
        assert await admin.refused(STATUS, group="none", topic="T") == (
            ResponseCode.SYSTEM_ERROR,
            "No Any Consumer online in the consumer group: [none]",
        )


@in_loop
async def test_consumers_are_told_of_new_offsets(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        java, cpp = running.member("java"), running.member("cpp")
        await java.heartbeat(consumer("G"))
        await cpp.heartbeat(consumer("G"))
        clients = [
            client._replace(language="CPP") if client.client_id == "cpp" else client
            for client in running.state.clients.consumers["G"].clients.values()
        ]
        offsets = {MessageQueue("broker-a", 0, "T"): 7}
        notify_offsets_reset(clients, ResetOffset("T", "G", 1, isForce=True), offsets)
        code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        await eventually(lambda: java.told[-1].code == code == cpp.told[-1].code)
        assert java.told[-1].body == b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7}}'
        assert json.loads(cpp.told[-1].body)["offsetTable"][0]["offset"] == 7
        assert java.told[-1].fields() == {
            "topic": "T",
            "group": "G",
            "timestamp": "1",
            "isForce": "true",
            "queueId": "-1",
        }
