"""Requests on their way to brokers of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from apogeemq.client import MessageQueue, Producer
from apogeemq.errors import (
    ApogeeError,
    ConnectFailed,
    ConnectionLost,
    RemoteRefused,
    RequestRefused,
    RequestTimedOut,
    SendFailed,
    Superseded,
)
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.spark.sink.requests import Request
from apogeemq.spark.sink.sending import AtLeastOnce, Sender, may_have_arrived
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Reply
from tests.unit.client.cluster import Cluster, cluster
from tests.unit.client.producing.tampering import refuse_sends
from tests.unit.event_loop import in_loop
from tests.unit.spark.sink.writing import bodies_in, options_for, request

TWO = ("broker-a", "broker-b")


class Watching(AtLeastOnce):
    """Says what it is told to about sends of unknown outcome, and remembers who asked."""

    def __init__(self, producer: Producer, *, says: bool = False, refuses: ApogeeError | None = None) -> None:
        super().__init__(producer)
        self.says = says
        self.refuses = refuses
        self.asked: list[MessageQueue] = []

    async def let_pass(self, queue: MessageQueue) -> None:
        if self.refuses is not None:
            raise self.refuses

    async def is_stored(self, request: Request, queue: MessageQueue) -> bool:
        self.asked.append(queue)
        return self.says


@asynccontextmanager
async def sending(
    folder: Path, *brokers: str, guard: Watching | None = None, **options: str
) -> AsyncIterator[tuple[Cluster, Sender, Watching]]:
    async with cluster(folder, *brokers) as it:
        for name in brokers or ("broker-a",):
            await it.make_topic("T", broker=name)
        read = options_for(it, **options)
        async with Producer(it.address, group="P", options=read.producer_options()) as producer:
            guard = guard or Watching(producer)
            guard._producer = producer
            yield it, Sender(producer, read, guard), guard


def fail_first_sends(it: Cluster, count: int, failure: Exception | None, broker: str = "broker-a") -> list[int]:
    """So many batches are refused, or, without a failure, stored without an answer; gives how many came."""
    dispatcher = it.brokers[broker].server.dispatcher
    handler = dispatcher.handlers[RequestCode.SEND_BATCH_MESSAGE]
    came = [0]

    def handle(channel: Channel, command: Command) -> Reply:
        came[0] += 1
        if came[0] > count:
            return handler(channel, command)
        if failure is not None:
            raise failure
        handler(channel, command)
        channel.abort()
        return asyncio.get_running_loop().create_future()

    dispatcher.handlers.pop(RequestCode.SEND_BATCH_MESSAGE)
    dispatcher.register(RequestCode.SEND_BATCH_MESSAGE, handle)
    return came


@in_loop
async def test_everything_is_there_when_it_has_finished(tmp_path: Path) -> None:
    async with sending(tmp_path, *TWO, maxInFlight="3") as (it, sender, guard):
        bodies = [b"%d" % number for number in range(100)]
        await sender.add([request(*bodies[at : at + 5]) for at in range(0, 100, 5)])
        await sender.finish()
        assert (sender.row_count, sender.request_count) == (100, 20)
        queues = await guard.queues("T")
        assert sorted(await bodies_in(guard._producer, queues, it)) == sorted(bodies)
        per_queue = [len(await bodies_in(guard._producer, [queue], it)) for queue in queues]
        assert min(per_queue) > 0  # they go round


@in_loop
async def test_a_broker_that_is_busy_is_passed_by(tmp_path: Path) -> None:
    async with sending(tmp_path, *TWO) as (it, sender, guard):
        refuse_sends(it, "broker-a", ResponseCode.SYSTEM_BUSY)
        await sender.add([request(b"%d" % number) for number in range(20)])
        await sender.finish()
        assert len(await bodies_in(guard._producer, await guard.queues("T"), it)) == 20
        assert guard.asked == []  # a refusal is no doubt


@in_loop
async def test_what_no_broker_would_take_is_not_tried_again(tmp_path: Path) -> None:
    async with sending(tmp_path) as (it, sender, _):
        tried = refuse_sends(it, "broker-a", ResponseCode.MESSAGE_ILLEGAL)
        await sender.add([request(b"one")])
        with pytest.raises(RemoteRefused):
            await sender.finish()
        assert len(tried) == 1


@in_loop
async def test_attempts_come_to_an_end(tmp_path: Path) -> None:
    async with sending(tmp_path) as (it, sender, _):
        tried = refuse_sends(it, "broker-a", ResponseCode.SYSTEM_BUSY)
        await sender.add([request(b"one", b"two")])
        with pytest.raises(SendFailed, match="2 messages to T were not taken in 4 attempts"):
            await sender.finish()
        assert len(tried) == 4


@in_loop
async def test_a_failure_stops_the_rest(tmp_path: Path) -> None:
    async with sending(tmp_path, maxInFlight="1") as (it, sender, _):
        tried = refuse_sends(it, "broker-a", ResponseCode.MESSAGE_ILLEGAL)
        with pytest.raises(RemoteRefused):
            await sender.add([request(b"%d" % number) for number in range(50)])
        assert len(tried) == 1
        await sender.cancel()


@in_loop
async def test_order_in_a_queue_outlives_a_failure(tmp_path: Path) -> None:
    async with sending(tmp_path) as (it, sender, guard):
        refusal = RequestRefused(ResponseCode.SYSTEM_BUSY, "later")
        fail_first_sends(it, 2, refusal)
        await sender.add([request(b"%d" % number, queue=2) for number in range(8)])
        await sender.finish()
        queue = (await guard.queues("T"))[2]
        assert await bodies_in(guard._producer, [queue], it) == [b"%d" % number for number in range(8)]


@in_loop
async def test_nothing_of_a_queue_follows_what_failed(tmp_path: Path) -> None:
    async with sending(tmp_path) as (it, sender, _):
        tried = refuse_sends(it, "broker-a", ResponseCode.MESSAGE_ILLEGAL)
        await sender.add([request(b"%d" % number, queue=1) for number in range(5)])
        with pytest.raises(RemoteRefused):
            await sender.finish()
        assert len(tried) == 1


@in_loop
async def test_a_send_of_unknown_outcome_that_arrived_is_not_sent_again(tmp_path: Path) -> None:
    async with sending(tmp_path) as (it, sender, guard):
        guard.says = True
        came = fail_first_sends(it, 1, None)
        await sender.add([request(b"one")])
        await sender.finish()
        assert (came[0], len(guard.asked), sender.row_count) == (1, 1, 1)
        assert await bodies_in(guard._producer, await guard.queues("T"), it) == [b"one"]


@in_loop
async def test_one_that_nobody_finds_is_sent_again(tmp_path: Path) -> None:
    async with sending(tmp_path) as (it, sender, guard):
        came = fail_first_sends(it, 1, None)
        await sender.add([request(b"one")])
        await sender.finish()
        assert (came[0], len(guard.asked)) == (2, 1)
        assert await bodies_in(guard._producer, await guard.queues("T"), it) == [b"one", b"one"]  # at least once


@in_loop
async def test_whoever_is_not_let_pass_sends_nothing(tmp_path: Path) -> None:
    async with sending(tmp_path) as (it, sender, guard):
        guard.refuses = Superseded("by another")
        await sender.add([request(b"one")])
        with pytest.raises(Superseded):
            await sender.finish()
        assert await bodies_in(guard._producer, await guard.queues("T"), it) == []
        assert guard.asked == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectFailed("x"), False),
        (ConnectionLost("x"), True),
        (RequestTimedOut("x"), True),
        (RemoteRefused(ResponseCode.SYSTEM_BUSY, "x"), False),
        (RemoteRefused(ResponseCode.SERVICE_NOT_AVAILABLE, "x"), False),
        (RemoteRefused(ResponseCode.SYSTEM_ERROR, "x"), True),
    ],
)
def test_what_may_have_arrived(error: ApogeeError, expected: bool) -> None:
    assert may_have_arrived(error) is expected
