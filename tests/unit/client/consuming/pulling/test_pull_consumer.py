"""Plain pull consumers, with brokers of ours."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from apogeemq.client import ClientOptions, MessageQueue, Producer, PullConsumer, PullOptions, PullStatus
from apogeemq.client.broker_calls import records_of
from apogeemq.errors import (
    BadExpression,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    NoRoute,
    OffsetIllegal,
    RemoteRefused,
    RequestRefused,
    WrongState,
)
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.broker import PULL_SUBSCRIBES, PULL_SUSPENDS, PullMessage, read_pull_message
from apogeemq.transport.channel import Channel
from tests.unit.client.cluster import Cluster, cluster, eventually, named
from tests.unit.client.consuming.programs import fill
from tests.unit.event_loop import in_loop


def pulling(where: Cluster, **more: Any) -> PullConsumer:
    return PullConsumer(where.address, group="G", **more)


def listening(where: Cluster) -> list[PullMessage]:
    """A list that grows with the pulls the broker is asked for."""
    handlers = where.brokers["broker-a"].server.dispatcher.handlers
    pull = handlers[RequestCode.PULL_MESSAGE]
    asked: list[PullMessage] = []

    def heard(channel: Channel, command: Command) -> Any:
        asked.append(read_pull_message(command))
        return pull(channel, command)

    handlers[RequestCode.PULL_MESSAGE] = heard
    return asked


# -- pulls ---------------------------------------------------------------------------------------------------


@in_loop
async def test_all_messages_of_a_topic_queue_by_queue(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 100)
        async with pulling(it) as consumer:
            bodies: list[int] = []
            for queue in await consumer.fetch_queues("T"):
                offset = await consumer.min_offset(queue)
                while offset < await consumer.max_offset(queue):
                    result = await consumer.pull(queue, offset, 10)
                    assert result.status is PullStatus.FOUND and 0 < len(result.messages) <= 10
                    assert [message.queue_offset for message in result.messages] == list(
                        range(offset, result.next_offset)
                    )
                    assert (result.min_offset, result.max_offset) == (0, 25)
                    assert {message.queue for message in result.messages} == {queue}
                    bodies += (int(message.body) for message in result.messages)
                    offset = result.next_offset
            assert sorted(bodies) == list(range(100))


@in_loop
async def test_every_answer_says_where_to_go_on(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 3, queues=1, tags="Aa")
        async with pulling(it) as consumer:
            queue = it.queue("T")
            result = await consumer.pull(queue, 3)
            assert (result.status, result.messages, result.next_offset) == (PullStatus.NO_NEW_MSG, [], 3)
            result = await consumer.pull(queue, 50)
            assert (result.status, result.messages, result.next_offset) == (PullStatus.OFFSET_ILLEGAL, [], 3)
            result = await consumer.pull(queue, 0, tags="other")
            assert (result.status, result.messages, result.next_offset) == (PullStatus.NO_MATCHED_MSG, [], 3)
            result = await consumer.pull(queue, 0, tags="BB")  # its hash is that of Aa
            assert (result.status, result.messages, result.next_offset) == (PullStatus.NO_MATCHED_MSG, [], 3)
            result = await consumer.pull(queue, 1, tags="Aa || x")
            assert (result.status, len(result.messages), result.next_offset) == (PullStatus.FOUND, 2, 3)


@in_loop
async def test_a_pull_may_wait_for_the_next_message(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        asked = listening(it)
        async with pulling(it) as consumer:
            waiting = asyncio.ensure_future(consumer.pull(it.queue("T"), 0, wait_seconds=50))
            await eventually(lambda: asked)
            assert (asked[0].system_flag, asked[0].suspend_ms) == (PULL_SUBSCRIBES | PULL_SUSPENDS, 50_000)
            await fill(it, "T", 1, queues=1)
            result = await waiting
            assert [message.body for message in result.messages] == [b"0"]
            await consumer.pull(it.queue("T"), 0)
            assert (asked[-1].system_flag, asked[-1].commit_offset) == (PULL_SUBSCRIBES, 0)


@in_loop
async def test_raw_pulls_give_the_records_as_they_are(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Producer(it.address, group="P", client=named("P")) as producer:
            await producer.send("T", b"x" * 5000)  # compressed
            await producer.send("T", b"short", tags="t")
        async with pulling(it) as consumer:
            raw = await consumer.pull_raw(it.queue("T"), 0)
            first, second = records_of(raw.records)
            assert (raw.status, raw.next_offset, raw.min_offset, raw.max_offset) == (PullStatus.FOUND, 2, 0, 2)
            assert len(first.body) < 5000 and second.body == b"short"
            assert (first.queue_offset, second.queue_offset) == (0, 1)
            decoded = await consumer.pull(it.queue("T"), 0)
            assert [message.body for message in decoded.messages] == [b"x" * 5000, b"short"]
            raw = await consumer.pull_raw(it.queue("T"), 0, tags="t")
            assert [record.body for record in records_of(raw.records)] == [b"short"]
            raw = await consumer.pull_raw(it.queue("T"), 2)
            assert (raw.status, raw.records, raw.next_offset) == (PullStatus.NO_NEW_MSG, b"", 2)


@in_loop
async def test_an_sql_expression_goes_to_the_broker_as_it_is(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        asked = listening(it)
        async with pulling(it) as consumer:
            for pull in (consumer.pull, consumer.pull_raw):
                with pytest.raises(RemoteRefused, match="does not support consumer to filter message by SQL92"):
                    await pull(it.queue("T"), 0, sql="amount > 10")
                assert (asked[-1].subscription, asked[-1].expression_type) == ("amount > 10", "SQL92")
                await pull(it.queue("T"), 0)
                assert (asked[-1].subscription, asked[-1].expression_type) == ("*", "TAG")


@in_loop
async def test_many_pulls_are_on_their_way_at_once_over_one_connection(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 200, queues=2)
        async with pulling(it) as consumer:
            held = [asyncio.ensure_future(consumer.pull(it.queue("T", 1), 100, wait_seconds=50)) for _ in range(3)]
            results = await asyncio.gather(
                *(
                    consumer.pull_raw(it.queue("T", queue), offset, 10)
                    for offset in range(0, 100, 10)
                    for queue in range(2)
                )
            )
            bodies = [int(record.body) for result in results for record in records_of(result.records)]
            assert sorted(bodies) == list(range(200))
            assert not any(pull.done() for pull in held)
            targets = [channel.target for channel in consumer._running.pool._open]
            assert targets.count(it.broker_address) == 1
            await fill(it, "T", 2, queues=2, first=200)
            assert [[message.body for message in (await pull).messages] for pull in held] == [[b"201"]] * 3


@in_loop
async def test_a_run_of_pulls_each_where_the_one_before_ends(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 100, queues=1)
        asked = listening(it)
        async with pulling(it) as consumer:
            (first,) = await consumer.pull_raw_run(it.queue("T"), 5, 10, 4)  # there was no connection yet
            assert (first.status, first.next_offset) == (PullStatus.FOUND, 15)
            run = await consumer.pull_raw_run(it.queue("T"), 5, 10, 4, max_bytes=123_456)
            assert [result.next_offset for result in run] == [15, 25, 35, 45]
            assert [int(record.body) for result in run for record in records_of(result.records)] == list(range(5, 45))
            assert [(one.queue_offset, one.max_messages, one.max_bytes) for one in asked[1:]] == [
                (offset, 10, 123_456) for offset in (5, 15, 25, 35)
            ]
            run = await consumer.pull_raw_run(it.queue("T"), 90, 8, 3)
            assert [(result.status, result.next_offset) for result in run] == [
                (PullStatus.FOUND, 98),
                (PullStatus.FOUND, 100),
                (PullStatus.OFFSET_ILLEGAL, 100),
            ]


@in_loop
async def test_a_run_ends_before_the_first_pull_that_fails(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 100, queues=1)
        handlers = it.brokers["broker-a"].server.dispatcher.handlers
        pull, refused_from = handlers[RequestCode.PULL_MESSAGE], 20

        def refusing(channel: Channel, command: Command) -> Any:
            if read_pull_message(command).queue_offset >= refused_from:
                raise RequestRefused(ResponseCode.SYSTEM_BUSY, "busy")
            return pull(channel, command)

        handlers[RequestCode.PULL_MESSAGE] = refusing
        async with pulling(it) as consumer:
            await consumer.pull_raw(it.queue("T"), 0)
            run = await consumer.pull_raw_run(it.queue("T"), 0, 10, 5)
            assert [result.next_offset for result in run] == [10, 20]
            with pytest.raises(RemoteRefused, match="busy"):
                await consumer.pull_raw_run(it.queue("T"), 20, 10, 5)
            with pytest.raises(OffsetIllegal):
                await consumer.pull_raw_run(it.queue("T"), -1, 10, 5)


@in_loop
async def test_a_run_whose_broker_dies_fails_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(tmp_path) as it:
        dying = await it.add_broker("broker-b")
        await it.make_topic("T", 1, "broker-b")
        queue, asked = it.queue("T", 0, "broker-b"), 0

        def silent(channel: Channel, command: Command) -> Any:
            nonlocal asked
            asked += 1
            return asyncio.get_running_loop().create_future()

        async with pulling(it) as consumer:
            await consumer.pull_raw(queue, 0)
            it.brokers["broker-b"].server.dispatcher.handlers[RequestCode.PULL_MESSAGE] = silent
            run = asyncio.ensure_future(consumer.pull_raw_run(queue, 0, 10, 4))
            await eventually(lambda: asked == 4)
            await dying.aclose()
            with pytest.raises(ConnectionLost):
                await run
            del run
            gc.collect()
            assert "never retrieved" not in caplog.text


@in_loop
async def test_no_more_bytes_than_told_but_one_message(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 10, queues=1)
        async with pulling(it) as consumer:
            one = (await consumer.pull_raw(it.queue("T"), 0, 1)).records
            raw = await consumer.pull_raw(it.queue("T"), 0, max_bytes=3 * len(one))
            assert 1 <= raw.next_offset <= 4


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"offset": -1}, OffsetIllegal),
        ({"max_messages": 0}, ConfigError),
        ({"wait_seconds": -1}, ConfigError),
        ({"tags": "||"}, BadExpression),
        ({"tags": "a", "sql": "b > 1"}, ConfigError),
    ],
)
def test_pulls_that_cannot_be(tmp_path: Path, more: dict[str, Any], error: type[Exception]) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as it, pulling(it) as consumer:
            await it.make_topic("T", 1)
            for pull in (consumer.pull, consumer.pull_raw):
                with pytest.raises(error):
                    await pull(it.queue("T"), **{"offset": 0, **more})

    asyncio.run(run())


@in_loop
async def test_what_nobody_serves(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, pulling(it) as consumer:
        await it.make_topic("T", 1)
        with pytest.raises(NoRoute):
            await consumer.fetch_queues("nowhere")
        with pytest.raises(NoRoute):
            await consumer.pull(it.queue("nowhere"), 0)
        with pytest.raises(NoRoute, match="elsewhere"):
            await consumer.pull(MessageQueue("elsewhere", 0, "T"), 0)
        with pytest.raises(RemoteRefused):
            await consumer.pull(it.queue("T", 9), 0)


@in_loop
async def test_a_broker_that_is_gone_and_its_slave(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        gone = await it.add_broker("broker-b")
        await it.make_topic("T", 1, "broker-b")
        async with pulling(it) as consumer:
            queue = it.queue("T", 0, "broker-b")
            assert (await consumer.pull(queue, 0)).status is PullStatus.NO_NEW_MSG
            consumer._remember(queue, 1)  # there is none: the master stands in
            assert (await consumer.pull(queue, 0)).status is PullStatus.NO_NEW_MSG
            assert consumer._read_from == {}  # the answer said so
            consumer._remember(queue, 1)
            await gone.aclose()
            with pytest.raises((ConnectFailed, NoRoute)):
                await consumer.pull(queue, 0)
            assert (await consumer.pull(it.queue("T"), 0)).status is PullStatus.NO_NEW_MSG


# -- offsets -------------------------------------------------------------------------------------------------


@in_loop
async def test_offsets_are_kept_for_the_group(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 5, queues=1)
        queue = it.queue("T")
        async with pulling(it) as consumer:
            assert await consumer.fetch_consume_offset(queue) is None
            await consumer.pull(queue, 0)
            await consumer.update_consume_offset(queue, 4)
            assert it.committed("G", "T") == {0: 4}
            await consumer.update_consume_offset(queue, 2)  # back
            with pytest.raises(OffsetIllegal):
                await consumer.update_consume_offset(queue, -1)
        async with pulling(it) as consumer:
            assert await consumer.fetch_consume_offset(queue) == 2
            assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 5)
            assert await consumer.search_offset(queue, 0) == 0
            assert await consumer.offset_for_time(queue, it.state.now_ms() + 60_000) == 5


@in_loop
async def test_a_message_that_is_sent_back_comes_to_the_group_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        async with pulling(it) as consumer:
            (message,) = (await consumer.pull(it.queue("T"), 0)).messages
            await consumer.send_back(message, delay_level=-1)
            dead = it.queue("%DLQ%G")
            await eventually(lambda: it.state.store.queue("%DLQ%G", 0).max_offset == 1)
            await it.make_topic("%DLQ%G", 1)
            (again,) = (await consumer.pull(dead, 0)).messages
            assert (again.body, again.message_id) == (message.body, message.message_id)


@in_loop
async def test_a_message_whose_broker_cannot_be_told_is_sent_anew(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        async with pulling(it) as consumer:
            await consumer._running.heartbeat()
            (message,) = (await consumer.pull(it.queue("T"), 0)).messages
            await it.make_topic("%RETRY%G", 1)
            message.queue = it.queue("T", broker="gone")
            await consumer.send_back(message)
            assert it.state.store.queue("SCHEDULE_TOPIC_XXXX", 2).max_offset == 1  # for a while
        stranger = PullConsumer(it.address, group="H", options=PullOptions(joins_group=False))
        async with stranger as consumer:  # its group has no retry topic
            with pytest.raises(NoRoute, match="gone"):
                await consumer.send_back(message)


# -- life ----------------------------------------------------------------------------------------------------


@in_loop
async def test_brokers_know_it_unless_it_does_not_join(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with pulling(it) as consumer:
            await consumer.pull(it.queue("T"), 0)
            await eventually(lambda: it.state.clients.consumer_group("G"))
            group = it.state.clients.consumer_group("G")
            assert group is not None and group.consume_type == "CONSUME_ACTIVELY" and not group.subscriptions
        assert it.state.clients.consumer_group("G") is None
        async with pulling(it, options=PullOptions(joins_group=False)) as consumer:
            await consumer.pull(it.queue("T"), 0)
            await consumer._running.heartbeat()
            assert it.state.clients.consumer_group("G") is None
            await consumer.update_consume_offset(it.queue("T"), 0)


@in_loop
async def test_a_namespace_is_not_seen_by_the_program(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("NS%T", 1)
        client = ClientOptions(namespace="NS")
        async with Producer(it.address, group="P", client=client) as producer:
            await producer.send("T", b"x")
        async with pulling(it, client=client) as consumer:
            (queue,) = await consumer.fetch_queues("T")
            (message,) = (await consumer.pull(queue, 0)).messages
            assert (message.topic, message.queue) == ("T", queue)
            await consumer.update_consume_offset(queue, 1)
            assert await consumer.fetch_consume_offset(queue) == 1
        assert it.committed("NS%G", "NS%T") == {0: 1}


@in_loop
async def test_used_before_its_start_after_its_end_or_started_twice(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        consumer, queue = pulling(it), it.queue("T")
        for _ in range(2):
            for call in (consumer.pull(queue, 0), consumer.fetch_queues("T"), consumer.update_consume_offset(queue, 1)):
                with pytest.raises(WrongState, match="not running"):
                    await call
            if not consumer._has_ended:
                async with consumer:
                    with pytest.raises(WrongState, match="is running already"):
                        await consumer.start()
        with pytest.raises(WrongState, match="has ended"):
            await consumer.start()


@pytest.mark.parametrize("group", ["", "DEFAULT_CONSUMER", "a b"])
def test_groups_that_are_none(group: str) -> None:
    with pytest.raises(ConfigError, match="group"):
        PullConsumer("127.0.0.1:1", group=group)
