"""What a client asks of a broker: with a broker of ours, and with one that answers nonsense."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from apogeemq.client.broker_calls import NO_OFFSET, BrokerCalls, records_of
from apogeemq.client.options import ProducerOptions
from apogeemq.client.producing.gathered import gathered
from apogeemq.client.producing.outgoing import prepared, prepared_batch
from apogeemq.errors import ConnectFailed, ProtocolError, RemoteRefused, RequestRefused
from apogeemq.model.groups import GroupConfig
from apogeemq.model.ids import UniqueIdRange, parse_offset_id
from apogeemq.model.messages import Message
from apogeemq.model.queues import MessageQueue
from apogeemq.model.topics import TopicConfig
from apogeemq.protocol.bodies.heartbeat import ConsumerData, Heartbeat
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.broker import (
    PULL_LITE,
    PULL_SUBSCRIBES,
    PullMessage,
    QueryMessage,
    SendBack,
    read_pull_message,
)
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Reply
from tests.unit.broker.handlers.members import Serving, serving
from tests.unit.broker.registering import free_address
from tests.unit.client.cluster import eventually
from tests.unit.event_loop import in_loop
from tests.unit.name_servers import connections
from tests.unit.transport.live import serving as serving_anything

QUEUE = MessageQueue("broker-a", 0, "T")


class Asking:
    def __init__(self, broker: Serving, calls: BrokerCalls) -> None:
        self.broker = broker
        self.state = broker.state
        self.address = broker.address
        self.calls = calls

    async def send(self, body: bytes, unique_id: str = "U", **more: Any) -> str:
        outgoing = prepared(Message("T", body, **more), "P", ProducerOptions(), unique_id, 5)
        outgoing.header.queue_id = 0
        return (await self.calls.send(self.address, outgoing.header, outgoing.body, 5)).offset_ids


@asynccontextmanager
async def asking(folder: Path) -> AsyncIterator[Asking]:
    async with serving(folder) as broker, connections() as pool:
        now = broker.state.now_ms()
        broker.state.topics.put(TopicConfig(read_queue_nums=2, write_queue_nums=2, topic_name="T"), now)
        broker.state.groups.put(GroupConfig(group_name="G"), now)
        yield Asking(broker, BrokerCalls(pool, 5.0))


def pull(offset: int, flag: int = PULL_SUBSCRIBES) -> PullMessage:
    return PullMessage("G", "T", 0, offset, 32, flag, subscription="*")


@in_loop
async def test_messages_there_and_back(tmp_path: Path) -> None:
    async with asking(tmp_path) as it:
        outgoing = prepared(Message("T", b"one"), "P", ProducerOptions(), "U", 5)
        outgoing.header.queue_id = 0
        answer = await it.calls.send(it.address, outgoing.header, outgoing.body, 5)
        assert (answer.code, answer.queue_id, answer.queue_offset) == (ResponseCode.SUCCESS, 0, 0)
        both = gathered([Message("T", b"two"), Message("T", b"three")])
        batch = prepared_batch(both, "P", ProducerOptions(), UniqueIdRange("V", 0, 2), 5)
        batch.header.queue_id = 0
        answer = await it.calls.send(it.address, batch.header, batch.body, 5)
        assert (answer.queue_offset, len(answer.offset_ids.split(","))) == (1, 2)
        await it.calls.send_one_way(it.address, outgoing.header, b"four")
        await eventually(lambda: it.state.store.queue("T", 0).max_offset == 4)
        for flag in (PULL_SUBSCRIBES, PULL_SUBSCRIBES | PULL_LITE):
            pulled = await it.calls.pull(it.address, pull(0, flag), 5)
            assert (pulled.code, pulled.next_offset, pulled.min_offset, pulled.max_offset) == (0, 4, 0, 4)
            assert [record.body for record in records_of(pulled.records)] == [b"one", b"two", b"three", b"four"]


@in_loop
async def test_a_broker_that_knows_no_lite_pulls_is_asked_for_others(tmp_path: Path) -> None:
    async with asking(tmp_path) as it:
        await it.send(b"x")
        handlers = it.broker.server.dispatcher.handlers
        asked: list[tuple[int, int]] = []
        plain = handlers[RequestCode.PULL_MESSAGE]

        def pulls(channel: Channel, command: Command) -> Any:
            asked.append((command.code, read_pull_message(command).system_flag))
            if command.code == RequestCode.LITE_PULL_MESSAGE:
                raise RequestRefused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "unknown")
            return plain(channel, command)

        handlers[RequestCode.PULL_MESSAGE] = handlers[RequestCode.LITE_PULL_MESSAGE] = pulls
        for _ in range(2):
            pulled = await it.calls.pull(it.address, pull(0, PULL_SUBSCRIBES | PULL_LITE), 5)
            assert [record.body for record in records_of(pulled.records)] == [b"x"]
        lite, plain_pull = RequestCode.LITE_PULL_MESSAGE, RequestCode.PULL_MESSAGE
        flag = PULL_SUBSCRIBES
        assert asked == [(lite, flag | PULL_LITE), (plain_pull, flag), (plain_pull, flag)]


@in_loop
async def test_pulls_without_messages_are_answers_too(tmp_path: Path) -> None:
    async with asking(tmp_path) as it:
        await it.send(b"x")
        nothing = await it.calls.pull(it.address, pull(1), 5)
        assert (nothing.code, nothing.next_offset, nothing.records) == (ResponseCode.PULL_NOT_FOUND, 1, b"")
        moved = await it.calls.pull(it.address, pull(50), 5)
        assert (moved.code, moved.next_offset) == (ResponseCode.PULL_OFFSET_MOVED, 1)


@in_loop
async def test_offsets(tmp_path: Path) -> None:
    async with asking(tmp_path) as it:
        before = it.state.now_ms()
        for _ in range(3):
            await it.send(b"x")
        assert await it.calls.max_offset(it.address, QUEUE) == 3
        assert await it.calls.min_offset(it.address, QUEUE) == 0
        assert await it.calls.earliest_time(it.address, QUEUE) >= before
        assert await it.calls.search_offset(it.address, QUEUE, 0) == 0
        await it.calls.update_offset_and_wait(it.address, "G", QUEUE, 2)
        assert await it.calls.consumer_offset(it.address, "G", QUEUE) == 2
        await it.calls.update_offset(it.address, "G", QUEUE, 3)
        await eventually(lambda: it.state.offsets.query("G", "T", 0) == 3)
        with pytest.raises(RemoteRefused) as caught:
            await it.calls.update_offset_and_wait(it.address, "nobody", QUEUE, 1)
        assert caught.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@in_loop
async def test_messages_by_id_and_by_key(tmp_path: Path) -> None:
    async with asking(tmp_path) as it:
        place = await it.send(b"found", keys=["42"])
        physical_offset = parse_offset_id(place).physical_offset
        assert (await it.calls.view_message(it.address, "T", physical_offset)).body == b"found"
        with pytest.raises(RemoteRefused):
            await it.calls.view_message(it.address, "T", 10**9)
        far = it.state.now_ms() + 10**9
        found: list[bytes] = []
        while not found:  # the index follows the log
            header = QueryMessage(32, 0, far, "T", "42")
            found = [record.body for record in await it.calls.query_messages(it.address, header)]
        assert found == [b"found"]
        assert await it.calls.query_messages(it.address, QueryMessage(32, 0, far, "T", "43")) == []


@in_loop
async def test_a_group_and_its_locks(tmp_path: Path) -> None:
    async with asking(tmp_path) as it:
        member = ConsumerData("G", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", [], False)
        await it.calls.heartbeat(it.address, Heartbeat("me", ["P"], [member]))
        assert await it.calls.consumer_ids(it.address, "G") == ["me"]
        other = MessageQueue("broker-a", 1, "T")
        assert await it.calls.lock(it.address, "G", "me", [QUEUE, other]) in ([QUEUE, other], [other, QUEUE])
        assert await it.calls.lock(it.address, "G", "you", [QUEUE]) == []
        await it.calls.unlock(it.address, "G", "me", [QUEUE])
        while not await it.calls.lock(it.address, "G", "you", [QUEUE]):
            await asyncio.sleep(0.001)
        await it.calls.unregister(it.address, "me", "P", "G")
        with pytest.raises(RemoteRefused):
            await it.calls.consumer_ids(it.address, "G")


@in_loop
async def test_send_back(tmp_path: Path) -> None:
    async with asking(tmp_path) as it:
        physical_offset = parse_offset_id(await it.send(b"again")).physical_offset
        header = SendBack(physical_offset, "G", 1, "U", "T", maxReconsumeTimes=16)
        await it.calls.send_back(it.address, header)
        assert it.state.topics.get("%RETRY%G") is not None
        with pytest.raises(RemoteRefused):
            await it.calls.send_back(it.address, SendBack(10**9, "G", 1))


@in_loop
async def test_refusals_say_who_and_why(tmp_path: Path) -> None:
    async with asking(tmp_path) as it:
        header = PullMessage("G", "nowhere", 0, 0, 32, 4, subscription="*")
        with pytest.raises(RemoteRefused, match=f"{it.address} answered code 17.*nowhere") as caught:
            await it.calls.pull(it.address, header, 5)
        assert caught.value.refresh_routes


@in_loop
async def test_addresses_are_mapped(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker, connections() as pool:
        calls = BrokerCalls(pool, 5.0, {"10.0.0.1:10911": broker.address}.__getitem__)
        assert await calls.max_offset("10.0.0.1:10911", QUEUE) == 0


@in_loop
async def test_pulls_and_heartbeats_go_to_the_first_port(tmp_path: Path) -> None:
    async with asking(tmp_path) as it, connections() as pool:
        calls = BrokerCalls(pool, 5.0, lambda address: free_address(), lambda address: address)
        assert (await calls.pull(it.address, pull(0), 5)).code == ResponseCode.PULL_NOT_FOUND
        await calls.heartbeat(it.address, Heartbeat("me", ["P"], []))
        await calls.unregister(it.address, "me", "P", None)
        with pytest.raises(ConnectFailed):
            await calls.max_offset(it.address, QUEUE)


@in_loop
async def test_nobody_there() -> None:
    async with connections() as pool:
        with pytest.raises(ConnectFailed):
            await BrokerCalls(pool, 5.0).max_offset(free_address(), QUEUE)


# -- answers that are none -----------------------------------------------------------------------------------

SUCCESS_WITHOUT_FIELDS: dict[str, Any] = {
    "send": lambda calls, address: calls.send(
        address, prepared(Message("T", b"x"), "P", ProducerOptions(), "U", 5).header, b"x", 5
    ),
    "pull": lambda calls, address: calls.pull(address, pull(0), 5),
    "max_offset": lambda calls, address: calls.max_offset(address, QUEUE),
    "consumer_offset": lambda calls, address: calls.consumer_offset(address, "G", QUEUE),
    "earliest_time": lambda calls, address: calls.earliest_time(address, QUEUE),
    "consumer_ids": lambda calls, address: calls.consumer_ids(address, "G"),
    "lock": lambda calls, address: calls.lock(address, "G", "me", [QUEUE]),
    "view_message": lambda calls, address: calls.view_message(address, "T", 0),
}


@pytest.mark.parametrize("call", SUCCESS_WITHOUT_FIELDS)
@pytest.mark.parametrize("fields", [{}, {"offset": "x", "msgId": "m", "queueId": "", "nextBeginOffset": "1.5"}])
def test_a_success_that_says_nothing_is_no_answer(call: str, fields: dict[str, str]) -> None:
    def answer(channel: Channel, command: Command) -> Reply:
        return encode_reply(command, fields=fields, body=b"[nonsense")

    async def run() -> None:
        codes = (
            *(RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE, RequestCode.GET_MAX_OFFSET),
            *(RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.GET_EARLIEST_MSG_STORETIME),
            *(RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.LOCK_BATCH_MQ, RequestCode.VIEW_MESSAGE_BY_ID),
        )
        async with serving_anything(dict.fromkeys(codes, answer)) as server, connections() as pool:
            with pytest.raises(ProtocolError):
                await SUCCESS_WITHOUT_FIELDS[call](BrokerCalls(pool, 5.0), server.address)

    asyncio.run(run())


@in_loop
async def test_no_offset_is_not_offset_zero() -> None:
    def answer(channel: Channel, command: Command) -> Reply:
        return encode_reply(command, ResponseCode.QUERY_NOT_FOUND, "none")

    async with serving_anything({RequestCode.QUERY_CONSUMER_OFFSET: answer}) as server, connections() as pool:
        assert await BrokerCalls(pool, 5.0).consumer_offset(server.address, "G", QUEUE) == NO_OFFSET


def test_records_one_after_the_other() -> None:
    assert records_of(b"") == []
    with pytest.raises(ProtocolError):
        records_of(b"\x00\x00\x00\x01")
