"""What becomes of messages a program could not deal with, when all is well with the brokers and when it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apogeemq.client import Consumer, ConsumerOptions, Producer
from apogeemq.client.consuming.pushing import delivery, returning
from apogeemq.client.consuming.pushing.returning import BroadcastReturns, Returns
from apogeemq.client.instance import ClientInstance
from apogeemq.client.options import ClientOptions
from apogeemq.errors import RequestRefused
from apogeemq.model.properties import decode_properties
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.broker import SendBack, SendCommand, SendMessage, read_send_back, read_send_message
from apogeemq.transport.channel import Channel
from tests.unit.client.cluster import FROM_FIRST, Cluster, cluster, eventually, named
from tests.unit.client.consuming.programs import fill
from tests.unit.event_loop import in_loop

LEVELS = "1s 1s 1s 1s 1s"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "LOCAL_RETRY_SECONDS", 0.0)


class Refusing:
    """A broker that takes no messages back and, when it is told so, no messages to retry topics."""

    def __init__(self, where: Cluster, *, also_sends: bool = False, broker: str = "broker-a") -> None:
        self.backs: list[SendBack] = []
        self.sends: list[SendMessage] = []
        self._refuses_sends = also_sends
        handlers = where.brokers[broker].server.dispatcher.handlers
        self._send = handlers[RequestCode.SEND_MESSAGE_V2]
        handlers[RequestCode.CONSUMER_SEND_MSG_BACK] = self.back
        handlers[RequestCode.SEND_MESSAGE_V2] = self.send

    def back(self, channel: Channel, command: Command) -> bytes:
        self.backs.append(read_send_back(command))
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "not now")

    def send(self, channel: Channel, command: Command) -> Any:
        decoded = command.header if isinstance(command, SendCommand) else None
        header = decoded if decoded is not None else read_send_message(command)
        if header.topic.startswith("%RETRY%"):
            self.sends.append(header)
            if self._refuses_sends:
                raise RequestRefused(ResponseCode.SYSTEM_BUSY, "not now")
        return self._send(channel, command)


@in_loop
async def test_what_a_broker_is_told_of_a_message_it_takes_back(tmp_path: Path) -> None:
    async with cluster(tmp_path, messageDelayLevel=LEVELS) as it:
        await fill(it, "T", 1, queues=1)
        refusing = Refusing(it)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            message = await anext(consumer)
            await message.retry(2)
        (told,) = refusing.backs
        assert (told.group, told.delayLevel, told.maxReconsumeTimes, told.offset) == (
            "G",
            2,
            16,
            message.physical_offset,
        )
        assert (told.originTopic, told.originMsgId) == ("T", message.message_id)


@in_loop
async def test_what_is_not_taken_back_is_sent_anew(tmp_path: Path) -> None:
    async with cluster(tmp_path, messageDelayLevel=LEVELS) as it:
        await fill(it, "T", 1, queues=1, tags="paid", keys=["42"], properties={"color": "red"})
        refusing = Refusing(it)
        async with Consumer(it.address, group="G", topic="T", tags="paid", options=FROM_FIRST) as consumer:
            first = await anext(consumer)
            await first.retry()
            again = await anext(consumer)
            assert (again.body, again.topic, again.queue.topic, again.reconsume_times) == (b"0", "T", "%RETRY%G", 1)
            assert (again.tags, again.keys, again.properties["color"]) == ("paid", ["42"], "red")
            assert again.message_id == first.message_id
            await again.retry()
            third = await anext(consumer)
            assert third.reconsume_times == 2
            await third.ack()
        assert it.committed("G", "T") == {0: 1}
        sent = refusing.sends[0]
        assert (sent.producer_group, sent.reconsume_times, sent.max_reconsume_times) == ("CLIENT_INNER_PRODUCER", 1, 16)
        properties = decode_properties(sent.properties or "")
        assert (properties["DELAY"], properties["RETRY_TOPIC"]) == ("3", "T")
        assert properties["ORIGIN_MESSAGE_ID"] == first.message_id
        assert decode_properties(refusing.sends[1].properties or "")["DELAY"] == "4"


@in_loop
async def test_a_large_message_is_sent_anew_compressed(tmp_path: Path) -> None:
    async with cluster(tmp_path, messageDelayLevel=LEVELS) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        await producer.send("T", b"x" * 10_000)
        refusing = Refusing(it)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            await (await anext(consumer)).retry()
            again = await anext(consumer)
            assert (again.body, refusing.sends[0].system_flag & 1) == (b"x" * 10_000, 1)
            await again.ack()


@in_loop
async def test_what_cannot_be_sent_at_all_is_tried_here_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        refusing = Refusing(it, also_sends=True)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            first = await anext(consumer)
            await first.retry()
            again = await anext(consumer)
            assert (again is first, again.reconsume_times) == (True, 1)
            assert (len(refusing.backs), len(refusing.sends)) == (1, 3)  # every attempt Apache's clients make
            await again.ack()
        assert it.committed("G", "T") == {0: 1}


@in_loop
async def test_another_broker_takes_what_its_own_does_not(tmp_path: Path) -> None:
    async with cluster(tmp_path, "broker-a", "broker-b", messageDelayLevel=LEVELS) as it:
        await fill(it, "T", 1, queues=1)
        await it.make_topic("T", 1, "broker-b")
        refusing = Refusing(it, also_sends=True)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            await (await anext(consumer)).retry()
            again = await anext(consumer)
            assert (again.queue.broker_name, again.reconsume_times) == ("broker-b", 1)
            assert len(refusing.sends) <= 1
            await again.ack()


@in_loop
async def test_a_message_that_is_given_up_is_a_dead_letter_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            await (await anext(consumer)).retry(delay_level=-1)
            await eventually(lambda: it.state.store.queue("%DLQ%G", 0).max_offset == 1)
        assert it.committed("G", "T") == {0: 1}


@in_loop
async def test_an_ordered_message_that_failed_too_often_is_a_dead_letter(tmp_path: Path) -> None:
    options = ConsumerOptions(start_from="first", max_retries=2, suspend_seconds=0.01)
    async with cluster(tmp_path) as it:
        await fill(it, "T", 2, queues=1)
        async with Consumer(it.address, group="G", topic="T", ordered=True, options=options) as consumer:
            for times in range(3):
                message = await anext(consumer)
                assert (message.body, message.reconsume_times) == (b"0", times)
                await message.retry()
            after = await anext(consumer)
            assert after.body == b"1"
            await after.ack()
            await eventually(lambda: it.state.store.queue("%DLQ%G", 0).max_offset == 1)
        assert it.committed("G", "T") == {0: 2}


@in_loop
async def test_in_a_namespace(tmp_path: Path) -> None:
    client = named("c", namespace="NS")
    async with (
        cluster(tmp_path, messageDelayLevel=LEVELS) as it,
        Producer(it.address, group="P", client=client) as producer,
    ):
        await producer.send("T", b"x")
        refusing = Refusing(it)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST, client=client) as consumer:
            await (await anext(consumer)).retry()
            again = await anext(consumer)
            assert (again.topic, again.queue.topic) == ("T", "%RETRY%NS%G")
            assert refusing.backs[0].originTopic == "NS%T"
            assert decode_properties(refusing.sends[0].properties or "")["RETRY_TOPIC"] == "NS%T"
            await again.ack()


@pytest.mark.parametrize(("most", "is_ordered", "expected"), [(-1, False, 16), (-1, True, 2**31 - 1), (3, True, 3)])
def test_how_often_a_message_may_come_again(most: int, is_ordered: bool, expected: int) -> None:
    @in_loop
    async def run() -> None:
        instance = ClientInstance("127.0.0.1:1", ClientOptions())
        assert Returns(instance, "G", most, is_ordered=is_ordered).most == expected
        assert BroadcastReturns(instance, "G", 5, is_ordered=is_ordered).most == 5

    run()


def test_the_group_of_the_inner_producer() -> None:
    assert returning.INNER_PRODUCER_GROUP == "CLIENT_INNER_PRODUCER"
