"""Polls of lite pull consumers, their start and their end, and what cannot be asked of them."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from apogeemq.client import LitePullConsumer, MessageQueue, Producer
from apogeemq.errors import ConfigError, NoRoute, WrongState
from tests.unit.client.cluster import client_tasks, cluster, eventually, named
from tests.unit.client.consuming.programs import fill
from tests.unit.client.consuming.pulling.polling import lite, numbers, options, polled
from tests.unit.event_loop import in_loop

# -- polls ---------------------------------------------------------------------------------------------------


@in_loop
async def test_a_poll_that_is_cancelled_loses_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with lite(it) as consumer:
            bodies: list[bytes] = []
            for round_number in range(30):
                polling = asyncio.ensure_future(consumer.poll(60))
                await asyncio.sleep(0)
                await fill(it, "T", 1, queues=1, first=round_number)
                for _ in range(round_number % 5):  # cancelled before, while and after the message arrives
                    await asyncio.sleep(0)
                polling.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    bodies += (message.body for message in await polling)
            bodies += await polled(consumer, 30 - len(bodies))
            assert bodies == numbers(*range(30))


@in_loop
async def test_polls_in_a_time_of_the_programs_own(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with lite(it) as consumer:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await consumer.poll(60)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.poll(60), 0.01)
            await fill(it, "T", 2, queues=1)
            assert await polled(consumer, 2) == numbers(0, 1)


@pytest.mark.parametrize(
    "limit",
    [{"max_cached": 20}, {"max_cached_per_queue": 10}, {"max_cached_bytes_per_queue": 20}, {"max_span_per_queue": 9}],
)
def test_pulling_pauses_while_too_much_waits(tmp_path: Path, limit: dict[str, int]) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as it:
            await fill(it, "T", 120, queues=2)
            async with lite(it, options=options(pull_batch=5, **limit)) as consumer:
                readers = consumer._running_session.readers.values()
                await eventually(lambda: sum(len(reader.process) for reader in readers) >= 20)
                for _ in range(100):
                    await asyncio.sleep(0)
                assert sum(len(reader.process) for reader in readers) <= 30
                assert sorted(map(int, await polled(consumer, 120))) == list(range(120))

    asyncio.run(run())


# -- brokers that go and come ------------------------------------------------------------------------------


@in_loop
async def test_a_broker_that_comes_back_is_read_on_where_the_program_was(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("U", 1)  # on a broker that stays
        going = await it.add_broker("broker-b")
        await it.make_topic("T", 1, "broker-b")
        queue = it.queue("T", broker="broker-b")

        async def send(*values: int) -> None:
            async with Producer(it.address, group="P", client=named(f"P{values}")) as producer:
                for body in numbers(*values):
                    await producer.send("T", body, queue=queue)

        await send(0, 1, 2)
        async with lite(it) as consumer:
            assert await polled(consumer, 2) == numbers(0, 1)
            await going.aclose()
            await it.add_broker("broker-b")
            await send(3)
            assert await polled(consumer, 2) == numbers(2, 3)
            await consumer.commit()
            assert await consumer.committed(queue) == 4


# -- wrong use -----------------------------------------------------------------------------------------------


@in_loop
async def test_subscribing_and_assigning_do_not_mix(tmp_path: Path) -> None:
    consumer = LitePullConsumer("127.0.0.1:1", group="G", topic="T")
    with pytest.raises(WrongState, match="subscribes to topics: it cannot be assigned queues as well"):
        await consumer.assign([MessageQueue("broker-a", 0, "T")])
    consumer = LitePullConsumer("127.0.0.1:1", group="G")
    await consumer.assign([MessageQueue("broker-a", 0, "T")])
    with pytest.raises(WrongState, match="was assigned queues: it cannot subscribe to U as well"):
        await consumer.subscribe("U")
    with pytest.raises(WrongState, match="does not subscribe"):
        await consumer.unsubscribe("T")
    with pytest.raises(ConfigError, match="topic is blank"):
        await LitePullConsumer("127.0.0.1:1", group="G").subscribe("")


@in_loop
async def test_used_before_its_start_after_its_end_or_started_twice(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        consumer, queue = lite(it), it.queue("T")
        for _ in range(2):
            calls = (
                consumer.poll(),
                consumer.commit(),
                consumer.seek(queue, 0),
                consumer.committed(queue),
            )
            for call in calls:
                with pytest.raises(WrongState, match="not running"):
                    await call
            for use in (lambda: consumer.assignment, lambda: consumer.pause(queue), lambda: consumer.position(queue)):
                with pytest.raises(WrongState, match="not running"):
                    use()
            if not consumer._has_ended:
                async with consumer:
                    with pytest.raises(WrongState, match="is running already"):
                        await consumer.start()
        with pytest.raises(WrongState, match="has ended"):
            await consumer.start()
        await consumer.stop()  # again: nothing
        assert [message async for message in consumer] == []
        with pytest.raises(WrongState, match="not running"):
            await anext(lite(it))


@in_loop
async def test_a_group_twice_in_a_process(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with lite(it):
            with pytest.raises(WrongState, match="in use in this process"):
                await lite(it).start()


@pytest.mark.parametrize("group", ["", "DEFAULT_CONSUMER", "a b"])
def test_groups_that_are_none(group: str) -> None:
    with pytest.raises(ConfigError, match="group"):
        LitePullConsumer("127.0.0.1:1", group=group, topic="T")


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"pull_batch": 0}, "pull_batch=0: expected 1 to 1024"),
        ({"pull_batch": 1025}, "pull_batch=1025"),
        ({"max_cached": 0}, "max_cached=0: expected at least 1"),
        ({"max_span_per_queue": -1}, "max_span_per_queue=-1"),
        ({"pull_timeout_seconds": 5.0}, "pull_timeout_seconds=5: expected more than the 20000 ms"),
        ({"start_from": "middle"}, "start_from='middle'"),
        ({"rebalance": "none"}, "rebalance=none"),
    ],
)
def test_options_that_are_none(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        LitePullConsumer("127.0.0.1:1", group="G", topic="T", options=options(**wrong))


@in_loop
async def test_polls_that_cannot_be(tmp_path: Path) -> None:
    consumer = LitePullConsumer("127.0.0.1:1", group="G", topic="T")
    for wrong in (consumer.poll(-1), consumer.poll(1, max_messages=0)):
        with pytest.raises(ConfigError, match="poll of"):
            await wrong


@in_loop
async def test_an_end_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 8)
        for turns in range(1, 12):
            consumer = lite(it)
            await consumer.start()
            ending = asyncio.ensure_future(consumer.stop())
            for _ in range(turns):
                await asyncio.sleep(0)
            ending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ending
            await eventually(lambda: not client_tasks())


@in_loop
async def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        with pytest.raises(NoRoute):
            await lite(it, topic="nowhere").start()
        await it.make_topic("T", 1)
        async with lite(it):
            pass
