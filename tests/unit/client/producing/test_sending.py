"""First attempts are begun without a task; what goes wrong with them is dealt with as with any other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.client import Message, Producer, ProducerOptions
from apogeemq.errors import RemoteRefused, SendFailed
from apogeemq.model.messages import SendResult
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Reply
from tests.unit.client.cluster import Cluster, client_tasks, cluster, eventually
from tests.unit.client.producing.tampering import hold_sends, refuse_sends
from tests.unit.event_loop import in_loop

WAYS = ("send", "send_soon")
on_each_way = pytest.mark.parametrize("way", WAYS)


async def begun(producer: Producer, way: str, body: bytes = b"x") -> asyncio.Future[SendResult]:
    if way == "send_soon":
        return await producer.send_soon(Message("T", body))
    return asyncio.ensure_future(producer.send("T", body))


def say_go_away(where: Cluster) -> list[int]:
    """The broker sends the first connection away; gives the numbers of the connections that asked."""
    dispatcher = where.brokers["broker-a"].server.dispatcher
    send, seen = dispatcher.handlers[RequestCode.SEND_MESSAGE_V2], []

    def leaving(channel: Channel, command: Command) -> Reply:
        seen.append(channel.number)
        if channel.number == seen[0]:
            return encode_reply(command, ResponseCode.GO_AWAY, "please go away")
        return send(channel, command)

    dispatcher.register(RequestCode.SEND_MESSAGE_V2, leaving)
    return seen


@on_each_way
@in_loop
async def test_another_broker_is_tried(tmp_path: Path, way: str) -> None:
    async with cluster(tmp_path, "broker-a", "broker-b") as it, Producer(it.address, group="P") as producer:
        for name in it.brokers:
            await it.make_topic("T", 2, name)
        await producer.send("T", b"the connections are there")
        tried = refuse_sends(it, "broker-a", ResponseCode.SYSTEM_BUSY)
        results = [await (await begun(producer, way)) for _ in range(8)]
        assert {result.queue.broker_name for result in results} == {"broker-b"}
        assert tried
        assert len({result.message_id for result in results}) == 8


@on_each_way
@in_loop
async def test_a_refusal_that_is_final(tmp_path: Path, way: str) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        await producer.send("T", b"the connection is there")
        tried = refuse_sends(it, "broker-a", ResponseCode.MESSAGE_ILLEGAL, "I do not like it")
        with pytest.raises(RemoteRefused, match="I do not like it"):
            await (await begun(producer, way))
        assert len(tried) == 1
        assert producer._window.count == 0


@on_each_way
@in_loop
async def test_a_broker_that_goes_away_is_asked_over_a_new_connection(tmp_path: Path, way: str) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        await producer.send("T", b"the connection is there")
        asked = say_go_away(it)
        results = await asyncio.gather(*[await begun(producer, way, b"%d" % number) for number in range(5)])
        assert len({result.queue_offset for result in results}) == 5
        assert len(set(asked)) == 2
        assert it.state.store.queue("T", 0).max_offset == 6  # none was sent twice


@on_each_way
@in_loop
async def test_the_time_is_for_all_attempts(tmp_path: Path, way: str) -> None:
    options = ProducerOptions(send_timeout_seconds=0.05)
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as before:
        await it.make_topic("T", 1)
        await before.send("T", b"x")
        held = hold_sends(it)
        async with Producer(it.address, group="Q", options=options) as producer:
            await producer.queues("T")
            with pytest.raises(SendFailed, match="did not answer") as caught:
                await (await begun(producer, way))
            assert len(caught.value.attempts) == 1
        for answer in held:
            answer.cancel()


@in_loop
async def test_who_gives_up_is_not_tried_again_for(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        await producer.send("T", b"the connection is there")
        held = hold_sends(it)
        future = await producer.send_soon(Message("T", b"x"))
        await eventually(lambda: held)
        before = client_tasks()
        future.cancel()
        await eventually(lambda: producer._window.count == 0)
        held[0].set_exception(RuntimeError("refused, and perhaps retriable"))
        connection = producer._running.pool.channels[it.broker_address]
        await eventually(lambda: not connection.pending_count)
        await asyncio.sleep(0)
        assert client_tasks() <= before and len(held) == 1
