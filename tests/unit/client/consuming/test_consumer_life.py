"""How consumers begin and end, also when somebody has lost patience."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from apogeemq.client import ConsumedMessage, Consumer, ConsumerOptions
from apogeemq.errors import BadExpression, ConfigError, NoRoute, WrongState
from tests.unit.broker.registering import free_address
from tests.unit.client.cluster import FROM_FIRST, client_tasks, cluster, eventually, named
from tests.unit.client.consuming.programs import fill, settled
from tests.unit.event_loop import in_loop


@pytest.mark.parametrize(
    ("given", "error", "why"),
    [
        ({"group": "DEFAULT_CONSUMER"}, ConfigError, "reserved"),
        ({"group": ""}, ConfigError, "blank"),
        ({"group": "a b"}, ConfigError, "illegal characters"),
        ({"options": ConsumerOptions(rebalance="FAIR")}, ConfigError, "rebalance=FAIR: expected one of AVG"),
        ({"options": ConsumerOptions(start_from="frist")}, ConfigError, "start_from='frist'"),
        ({"options": ConsumerOptions(start_from=-5)}, ConfigError, "start_from=-5"),
        ({"tags": "||"}, BadExpression, "split"),
    ],
)
def test_what_may_not_be(given: dict[str, Any], error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        Consumer(**{"name_server": "127.0.0.1:9876", "group": "G", "topic": "T", **given})


@in_loop
async def test_a_consumer_without_a_topic() -> None:
    with pytest.raises(ConfigError, match="subscribes to no topic"):
        await Consumer("127.0.0.1:9876", group="G").start()


@in_loop
async def test_a_second_start_and_a_group_in_use(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1)
        consumer = Consumer(it.address, group="G", topic="T", options=FROM_FIRST)
        with pytest.raises(WrongState, match="not running"):
            await anext(consumer)
        with pytest.raises(WrongState, match="no handler"):
            await consumer.run()
        async with consumer:
            with pytest.raises(WrongState, match="running already"):
                await consumer.start()
            twin = Consumer(it.address, group="G", topic="T")
            with pytest.raises(WrongState, match="G is in use in this process"):
                await twin.start()
            assert (await anext(consumer)).body == b"0"
        with pytest.raises(WrongState, match="has ended"):
            await consumer.start()
        assert [message async for message in consumer] == []
        await consumer.stop()  # again: nothing to do


@in_loop
async def test_a_topic_that_is_not_there_is_waited_for_but_not_a_name_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = free_address()
    with pytest.raises(NoRoute, match="no name server answered"):
        await Consumer(nowhere, group="G", topic="T").start()
    async with cluster(tmp_path) as it:
        async with Consumer(it.address, group="G", topic="T"):
            assert "no route of topic T: the topic does not exist" in caplog.text
        await it._stack.aclose()
        async with Consumer(it.address, group="G", topic="T"):
            assert "no route of topic T: no broker is registered" in caplog.text


@in_loop
async def test_brokers_hear_of_a_consumer_and_of_its_end(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Consumer(it.address, group="G", topic="T", client=named("me", client_ip="10.1.1.1")) as consumer:
            await settled(consumer)
            group = it.state.clients.consumer_group("G")
            assert group is not None
            assert group.client_ids == ["10.1.1.1@me"]
        group = it.state.clients.consumer_group("G")
        assert group is None or group.client_ids == []


@in_loop
async def test_a_cancelled_wait_loses_no_message(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            waiting = asyncio.ensure_future(anext(consumer))
            await settled(consumer)
            waiting.cancel()
            await asyncio.wait((waiting,))
            await fill(it, "T", 1, queues=1)
            assert (await anext(consumer)).body == b"0"


@in_loop
async def test_a_cancelled_program_stops_its_consumer(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 3, queues=1)
        acked = asyncio.Event()

        async def program() -> None:
            async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
                async for message in consumer:
                    if message.body == b"2":
                        acked.set()
                        await asyncio.Event().wait()  # at work when the end comes
                    await message.ack()

        running = asyncio.ensure_future(program())
        await acked.wait()
        running.cancel()
        await asyncio.wait((running,))
        assert running.cancelled()
        assert it.committed("G", "T") == {0: 2}
        await eventually(lambda: not client_tasks())


@in_loop
async def test_a_cancelled_run_leaves_the_message_for_another(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        options = ConsumerOptions(start_from="first", stop_grace_seconds=0.01)
        consumer = Consumer(it.address, group="G", topic="T", options=options)
        working = asyncio.Event()

        @consumer.on_message
        async def handle(message: ConsumedMessage) -> None:
            working.set()
            await asyncio.Event().wait()

        async with consumer:
            running = asyncio.ensure_future(consumer.run())
            await working.wait()
            running.cancel()
            await asyncio.wait((running,))
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as another:
            assert (await anext(another)).body == b"0"


@in_loop
async def test_a_cancelled_start_and_a_cancelled_stop_leave_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        for turns in range(0, 30, 3):
            consumer = Consumer(it.address, group="G", topic="T", options=FROM_FIRST)
            starting = asyncio.ensure_future(consumer.start())
            for _ in range(turns):
                await asyncio.sleep(0)
            starting.cancel()
            await asyncio.wait((starting,))
            stopping = asyncio.ensure_future(consumer.stop())
            for _ in range(turns % 7):
                await asyncio.sleep(0)
            stopping.cancel()
            await asyncio.wait((stopping,))
            await eventually(lambda: not client_tasks())


@in_loop
async def test_offsets_that_cannot_be_kept_do_not_keep_a_consumer_alive(tmp_path: Path) -> None:
    options = ConsumerOptions(start_from="first", is_broadcasting=True, local_offset_dir=str(tmp_path / "offsets"))
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        consumer = Consumer(it.address, group="G", topic="T", options=options)
        await consumer.start()
        await (await anext(consumer)).ack()
        (tmp_path / "offsets").write_bytes(b"in the way")
        with pytest.raises(Exception, match="cannot write"):
            await consumer.stop()
        await eventually(lambda: not client_tasks())
