"""A member of a group: which queues it reads, from where, and what happens when brokers do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from apogeemq.client import Consumer, ConsumerOptions, Producer
from apogeemq.client.consuming import membership as membership_module
from apogeemq.client.consuming.membership import Membership, check_start, strategy_named
from apogeemq.client.consuming.process_queue import PULL_EXPIRES_MS
from apogeemq.client.consuming.rebalance import averagely, consistent_hash
from apogeemq.errors import ConfigError, RequestRefused
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from tests.unit.client.cluster import FROM_FIRST, Cluster, cluster, eventually, named
from tests.unit.event_loop import in_loop


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership_module, "_RETRY_SECONDS", 0.01)


def of(consumer: Consumer) -> Membership:
    assert consumer._membership is not None
    return consumer._membership


def queues_of(consumer: Consumer, topic: str = "T") -> set[tuple[str, int]]:
    return {(queue.broker_name, queue.queue_id) for queue in of(consumer).readers if queue.topic == topic}


@asynccontextmanager
async def refusing(where: Cluster, code: RequestCode, broker: str = "broker-a") -> AsyncIterator[list[int]]:
    """A broker refuses a kind of request meanwhile; gives a list that grows with each."""
    handlers = where.brokers[broker].server.dispatcher.handlers
    refused: list[int] = []

    def refuse(channel: Channel, command: Command) -> bytes:
        refused.append(command.code)
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "not now")

    before = handlers[code]
    handlers[code] = refuse
    try:
        yield refused
    finally:
        handlers[code] = before


def test_strategies_by_name() -> None:
    assert strategy_named("AVG") is averagely
    assert strategy_named("CONSISTENT_HASH") is consistent_hash
    with pytest.raises(ConfigError, match="rebalance=avg: expected one of AVG, AVG_BY_CIRCLE, CONSISTENT_HASH"):
        strategy_named("avg")


@pytest.mark.parametrize("start", ["first", "last", 0, 1_700_000_000_000])
def test_places_to_start_from(start: str | int) -> None:
    check_start(start)


@pytest.mark.parametrize("start", ["", "20260101", -1, "FIRST"])
def test_no_places_to_start_from(start: str | int) -> None:
    with pytest.raises(ConfigError, match="start_from"):
        check_start(start)


@in_loop
async def test_the_queues_of_all_brokers(tmp_path: Path) -> None:
    async with cluster(tmp_path, "broker-a", "broker-b") as it:
        await it.make_topic("T", 2, "broker-a")
        await it.make_topic("T", 1, "broker-b")
        async with Consumer(it.address, group="G", topic="T") as consumer:
            await eventually(lambda: queues_of(consumer) == {("broker-a", 0), ("broker-a", 1), ("broker-b", 0)})
            await eventually(lambda: queues_of(consumer, "%RETRY%G") == {("broker-a", 0), ("broker-b", 0)})


@in_loop
async def test_no_queue_is_begun_at_a_guess(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Producer(it.address, group="P") as producer:
            for _ in range(3):
                await producer.send("T", b"x")
        it.state.offsets.commit("G", "T", 0, 2)
        async with refusing(it, RequestCode.QUERY_CONSUMER_OFFSET) as refused:
            consumer = Consumer(it.address, group="G", topic="T", options=FROM_FIRST)
            await consumer.start()
            await eventually(lambda: len(refused) >= 3)
            assert not of(consumer).readers and not of(consumer).is_settled.is_set()
        assert (await anext(consumer)).queue_offset == 2
        await consumer.stop()


@in_loop
async def test_the_balance_stays_while_brokers_do_not_say_who_is_there(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 2)
        async with Consumer(it.address, group="G", topic="T") as consumer:
            await of(consumer).is_settled.wait()
            before = dict(of(consumer).readers)
            async with refusing(it, RequestCode.GET_CONSUMER_LIST_BY_GROUP) as refused:
                of(consumer).rebalance_soon()
                await eventually(lambda: len(refused) >= 4)
                assert of(consumer).readers == before
            of(consumer).rebalance_soon()
            await eventually(lambda: not of(consumer)._is_wanted.is_set())
            assert of(consumer).readers == before


@in_loop
async def test_another_broker_may_say_who_is_there(tmp_path: Path) -> None:
    async with cluster(tmp_path, "broker-a", "broker-b") as it:
        for name in it.brokers:
            await it.make_topic("T", 1, name)
        async with (
            refusing(it, RequestCode.GET_CONSUMER_LIST_BY_GROUP),
            Consumer(it.address, group="G", topic="T") as consumer,
        ):
            await eventually(lambda: queues_of(consumer) == {("broker-a", 0), ("broker-b", 0)})


@in_loop
async def test_a_round_can_be_waited_for_also_when_it_fails_or_the_end_comes(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 2)
        async with Consumer(it.address, group="G", topic="T") as consumer:
            await of(consumer).rebalanced()
            assert queues_of(consumer) == {("broker-a", 0), ("broker-a", 1)}
            async with refusing(it, RequestCode.GET_CONSUMER_LIST_BY_GROUP) as refused:
                await of(consumer).rebalanced()
                assert refused
            waiting = asyncio.ensure_future(of(consumer).rebalanced())
            await asyncio.sleep(0)
        await waiting


@in_loop
async def test_a_queue_that_is_stuck_is_begun_anew(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Consumer(it.address, group="G", topic="T") as consumer:
            await of(consumer).is_settled.wait()
            stuck = of(consumer).readers[it.queue("T")]
            stuck.process.pulled_at_ms -= PULL_EXPIRES_MS + 1
            of(consumer).rebalance_soon()
            await eventually(lambda: of(consumer).readers.get(it.queue("T")) not in (None, stuck))
            assert stuck.process.is_dropped


@in_loop
async def test_a_queue_whose_program_is_slow_is_not_stuck(tmp_path: Path) -> None:
    options = ConsumerOptions(start_from="first", max_cached_per_queue=1)
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Producer(it.address, group="P") as producer:
            await producer.send("T", b"1")
        async with Consumer(it.address, group="G", topic="T", options=options) as consumer:
            await of(consumer).is_settled.wait()
            process = of(consumer).readers[it.queue("T")].process
            await eventually(lambda: len(process) == 1)  # and no more is pulled
            before = process.pulled_at_ms
            await eventually(lambda: process.pulled_at_ms > before)


@in_loop
async def test_a_start_at_a_time(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Producer(it.address, group="P") as producer:
            await producer.send("T", b"old")
        options = ConsumerOptions(start_from=0)
        async with refusing_none(it), Consumer(it.address, group="G", topic="T", options=options) as consumer:
            assert (await anext(consumer)).body == b"old"


@asynccontextmanager
async def refusing_none(where: Cluster) -> AsyncIterator[None]:
    """Answers that a group has no offset, whatever the age of the queue."""
    handlers = where.brokers["broker-a"].server.dispatcher.handlers

    def none(channel: Channel, command: Command) -> bytes:
        raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, "none")

    before = handlers[RequestCode.QUERY_CONSUMER_OFFSET]
    handlers[RequestCode.QUERY_CONSUMER_OFFSET] = none
    try:
        yield
    finally:
        handlers[RequestCode.QUERY_CONSUMER_OFFSET] = before


@pytest.mark.parametrize(("start", "first_offset"), [("first", 0), ("last", 3), (2**50, 3), (0, 0)])
def test_where_a_group_without_offsets_begins(tmp_path: Path, start: str | int, first_offset: int) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as it, refusing_none(it):
            await it.make_topic("T", 1)
            async with Producer(it.address, group="P") as producer:
                for _ in range(3):
                    await producer.send("T", b"x")
            options = ConsumerOptions(start_from=start)
            async with Consumer(it.address, group="G", topic="T", options=options) as consumer:
                await of(consumer).is_settled.wait()
                for queue, expected in ((it.queue("T"), first_offset), (it.queue("%RETRY%G"), 0)):
                    assert await of(consumer)._first_offset(queue) == expected

    asyncio.run(run())


# -- locks ---------------------------------------------------------------------------------------------------


@in_loop
async def test_an_ordered_queue_is_not_begun_without_its_lock(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with refusing(it, RequestCode.LOCK_BATCH_MQ) as refused:
            consumer = Consumer(it.address, group="G", topic="T", ordered=True)
            await consumer.start()
            await eventually(lambda: len(refused) >= 3)
            assert not of(consumer).readers
        await of(consumer).is_settled.wait()
        assert set(of(consumer).readers) == {it.queue("T"), it.queue("%RETRY%G")}
        await consumer.stop()


@in_loop
async def test_locks_are_kept_and_one_that_is_lost_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership_module, "_LOCK_PERIOD_SECONDS", 0.01)
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Consumer(it.address, group="G", topic="T", ordered=True) as consumer:
            await of(consumer).is_settled.wait()
            process = of(consumer).readers[it.queue("T")].process
            first = process.locked_until_ms
            await eventually(lambda: process.locked_until_ms > first)
            async with refusing(it, RequestCode.LOCK_BATCH_MQ) as refused:
                await eventually(lambda: len(refused) >= 2)
                assert it.queue("T") in of(consumer).readers  # nobody said that it is another's
            client_id = of(consumer)._reading.instance.client_id
            it.state.locks.unlock_batch("G", client_id, [it.queue("T")])
            it.state.locks.lock_batch("G", "another", [it.queue("T")], it.state.now_ms())
            await eventually(lambda: it.queue("T") not in of(consumer).readers)
            assert process.is_dropped  # what was pulled is not handed out any more
            it.state.locks.unlock_batch("G", "another", [it.queue("T")])
            await eventually(lambda: it.queue("T") in of(consumer).readers)


@in_loop
async def test_a_lock_that_could_not_be_kept_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership_module, "_LOCK_PERIOD_SECONDS", 0.01)
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Consumer(it.address, group="G", topic="T", ordered=True) as consumer:
            await of(consumer).is_settled.wait()
            async with refusing(it, RequestCode.LOCK_BATCH_MQ) as refused:
                await eventually(lambda: refused)  # what was asked before has its answer
                of(consumer).readers[it.queue("T")].process.locked_until_ms = 0
                await eventually(lambda: it.queue("T") not in of(consumer).readers)
            await eventually(lambda: it.queue("T") in of(consumer).readers)


@in_loop
async def test_locks_are_given_back(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Consumer(it.address, group="G", topic="T", ordered=True, client=named("1")) as consumer:
            await of(consumer).is_settled.wait()
        async with Consumer(it.address, group="G", topic="T", ordered=True, client=named("2")) as consumer:
            await of(consumer).is_settled.wait()
            assert it.queue("T") in of(consumer).readers
