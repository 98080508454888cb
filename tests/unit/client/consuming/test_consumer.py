"""Consumers with brokers of ours: groups, retries, order, broadcasting, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from apogeemq.client import ConsumedMessage, Consumer, ConsumerOptions, Producer
from apogeemq.client.consuming import delivery
from apogeemq.errors import BadExpression, ConfigError, NoRoute, WrongState
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.broker import read_send_back
from apogeemq.transport.channel import Channel
from tests.unit.broker.registering import free_address
from tests.unit.client.cluster import FROM_FIRST, Cluster, client_tasks, cluster, eventually, named
from tests.unit.event_loop import in_loop


async def fill(where: Cluster, topic: str, count: int, queues: int = 4, *, first: int = 0, **more: Any) -> None:
    """Messages 0, 1, 2 … in turn to the queues of a topic, which is made when there is none."""
    if where.state.topics.get(topic) is None:
        await where.make_topic(topic, queues)
    async with Producer(where.address, group="FILL", client=named("fill")) as producer:
        for number in range(first, first + count):
            await producer.send(topic, b"%d" % number, queue=where.queue(topic, number % queues), **more)


async def taken(consumer: Consumer, count: int) -> list[ConsumedMessage]:
    return [await anext(consumer) for _ in range(count)]


async def settled(*consumers: Consumer) -> None:
    for consumer in consumers:
        assert consumer._membership is not None
        await consumer._membership.is_settled.wait()


def queues_of(consumer: Consumer, topic: str = "T") -> set[int]:
    assert consumer._membership is not None
    return {queue.queue_id for queue in consumer._membership.readers if queue.topic == topic}


class Log:
    """A consumer that runs its handler in the background and notes what comes."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.bodies: list[bytes] = []
        self.messages: list[ConsumedMessage] = []
        consumer.on_message(self._note)

    async def _note(self, message: ConsumedMessage) -> None:
        self.bodies.append(message.body)
        self.messages.append(message)


@asynccontextmanager
async def handling(consumer: Consumer, **run: int) -> AsyncIterator[Log]:
    log = Log(consumer)
    async with consumer:
        running = asyncio.ensure_future(consumer.run(**run))
        yield log
    await running


# -- one consumer --------------------------------------------------------------------------------------------


@in_loop
async def test_messages_come_and_what_was_acknowledged_does_not_come_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 20)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            for message in await taken(consumer, 20):
                assert (message.topic, message.reconsume_times) == ("T", 0)
                await message.ack()
        assert it.committed("G", "T") == {0: 5, 1: 5, 2: 5, 3: 5}
        await fill(it, "T", 4, first=20)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            assert sorted(message.body for message in await taken(consumer, 4)) == [b"20", b"21", b"22", b"23"]


@in_loop
async def test_stop_keeps_offsets_only_up_to_what_is_unfinished(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 6, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            messages = await taken(consumer, 6)
            for message in (*messages[:2], *messages[3:]):
                await message.ack()
        assert it.committed("G", "T") == {0: 2}
        async with Consumer(it.address, group="G", topic="T") as consumer:
            assert (await anext(consumer)).body == b"2"


@in_loop
async def test_a_new_group_begins_where_it_is_told(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 40, queues=1)
        it.state.offsets.commit("LAST", "T", 0, 40)  # what a broker answers of an old queue
        async with Consumer(it.address, group="LAST", topic="T") as last:
            await settled(last)
            await fill(it, "T", 1, queues=1, first=40)
            assert (await anext(last)).body == b"40"
        options = ConsumerOptions(start_from=it.state.now_ms() + 3_600_000)
        async with Consumer(it.address, group="FIRST", topic="T", options=FROM_FIRST) as first:
            assert (await anext(first)).body == b"0"
        async with Consumer(it.address, group="TIME", topic="T", options=options) as timed:
            await settled(timed)
            await fill(it, "T", 1, queues=1, first=41)
            assert (await anext(timed)).body in (b"0", b"40", b"41")  # the broker has the last word on young queues


@in_loop
async def test_tags(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        for number, tags in enumerate(("paid", "new", "shipped", "", "new")):
            await fill(it, "T", 1, queues=1, first=number, tags=tags)
        async with Consumer(it.address, group="G", topic="T", tags="paid || shipped", options=FROM_FIRST) as consumer:
            messages = await taken(consumer, 2)
            assert [message.tags for message in messages] == ["paid", "shipped"]
            for message in messages:
                await message.ack()
        assert it.committed("G", "T") == {0: 3}


@in_loop
async def test_several_topics(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        for topic in ("T", "U"):
            await fill(it, topic, 2, queues=1, tags=topic.lower())
        wanted = {"T": "t", "U": "*"}
        async with Consumer(it.address, group="G", subscriptions=wanted, options=FROM_FIRST) as consumer:
            assert sorted(message.topic for message in await taken(consumer, 4)) == ["T", "T", "U", "U"]


@in_loop
async def test_pulling_pauses_when_too_much_is_unfinished(tmp_path: Path) -> None:
    options = ConsumerOptions(start_from="first", pull_batch=2, max_cached_per_queue=4)
    async with cluster(tmp_path) as it:
        await fill(it, "T", 20, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=options) as consumer:
            messages = await taken(consumer, 4)
            assert consumer._membership is not None
            (reader,) = [reader for queue, reader in consumer._membership.readers.items() if queue.topic == "T"]
            waiting = asyncio.ensure_future(anext(consumer))
            await eventually(lambda: not reader._has_room.is_set())
            assert (len(reader.process), waiting.done()) == (4, False)
            await messages[0].ack()
            assert (await waiting).body == b"4"
            for message in messages[1:]:
                await message.ack()
            assert [message.body for message in await taken(consumer, 2)] == [b"5", b"6"]


@in_loop
async def test_an_offset_that_is_not_there(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 3, queues=1)
        it.state.offsets.commit("G", "T", 0, 1000)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            await settled(consumer)
            await eventually(lambda: consumer._offsets is not None and 0 <= consumer._offsets.known(it.queue("T")) <= 3)
            await fill(it, "T", 1, queues=1, first=3)
            assert (await anext(consumer)).body in (b"0", b"3")


@in_loop
async def test_namespaces(tmp_path: Path) -> None:
    client = named("c", namespace="NS")
    async with cluster(tmp_path) as it, Producer(it.address, group="P", client=client) as producer:
        await producer.send("T", b"x")
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST, client=client) as consumer:
            message = await anext(consumer)
            assert (message.topic, consumer.group) == ("T", "NS%G")
            await message.ack()
        assert sum(it.committed("NS%G", "NS%T").values()) == 1


# -- failures of the program ---------------------------------------------------------------------------------


@in_loop
async def test_a_message_that_failed_comes_again(tmp_path: Path) -> None:
    async with cluster(tmp_path, messageDelayLevel="1s 1s 1s") as it:
        await fill(it, "T", 1, queues=1, tags="paid", keys=["42"])
        async with Consumer(it.address, group="G", topic="T", tags="paid", options=FROM_FIRST) as consumer:
            first = await anext(consumer)
            await first.retry(1)
            again = await anext(consumer)
            assert (again.body, again.topic, again.tags, again.keys) == (b"0", "T", "paid", ["42"])
            assert (again.reconsume_times, again.queue.topic) == (1, "%RETRY%G")
            assert again.message_id == first.message_id
            await again.retry(2)
            third = await anext(consumer)
            assert third.reconsume_times == 2
            await third.ack()
        assert it.committed("G", "T") == {0: 1}
        assert it.committed("G", "%RETRY%G") == {0: 2}


@in_loop
async def test_a_handler_that_raises(tmp_path: Path) -> None:
    async with cluster(tmp_path, messageDelayLevel="1s 1s 1s") as it:
        await fill(it, "T", 3, queues=1)
        consumer = Consumer(it.address, group="G", topic="T", options=FROM_FIRST)
        seen: list[tuple[bytes, int]] = []

        @consumer.on_message
        async def handle(message: ConsumedMessage) -> None:
            seen.append((message.body, message.reconsume_times))
            if message.body == b"1" and not message.reconsume_times:
                raise ValueError("not now")

        async with consumer:
            running = asyncio.ensure_future(consumer.run())
            await eventually(lambda: len(seen) == 4)
        await running
        assert sorted(seen) == [(b"0", 0), (b"1", 0), (b"1", 1), (b"2", 0)]


@in_loop
async def test_after_so_many_times_it_is_a_dead_letter(tmp_path: Path) -> None:
    options = ConsumerOptions(start_from="first", max_retries=1)
    async with cluster(tmp_path, messageDelayLevel="1s 1s 1s") as it:
        await fill(it, "T", 1, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=options) as consumer:
            for _ in range(2):
                await (await anext(consumer)).retry()
            await eventually(lambda: it.state.topics.get("%DLQ%G") is not None)
            await eventually(lambda: it.state.store.queue("%DLQ%G", 0).max_offset == 1)


@in_loop
async def test_what_the_broker_does_not_take_back_is_tried_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        asked: list[str] = []

        def refuse(channel: Channel, command: Command) -> bytes:
            asked.append(read_send_back(command).group)
            raise RuntimeError("broken")

        it.brokers["broker-a"].server.dispatcher.register(RequestCode.CONSUMER_SEND_MSG_BACK, refuse)
        monkeypatch.setattr(delivery, "SUSPEND_SECONDS", 0.0)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            first = await anext(consumer)
            await first.retry()
            again = await anext(consumer)
            assert (again is first, asked) == (True, ["G"])
            await again.ack()
        assert it.committed("G", "T") == {0: 1}


# -- several consumers ---------------------------------------------------------------------------------------


@in_loop
async def test_members_share_the_queues_and_each_message_comes_to_one(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 8)
        first, second = (
            Consumer(it.address, group="G", topic="T", options=FROM_FIRST, client=named(name)) for name in ("1", "2")
        )
        async with handling(first) as one:
            await eventually(lambda: queues_of(first) == set(range(8)))
            async with handling(second) as two:
                await eventually(lambda: (queues_of(first), queues_of(second)) == ({0, 1, 2, 3}, {4, 5, 6, 7}))
                await fill(it, "T", 40, queues=8)
                await eventually(lambda: len(one.bodies) + len(two.bodies) == 40)
                assert len(set(one.bodies + two.bodies)) == 40
                assert {message.queue.queue_id for message in two.messages} == {4, 5, 6, 7}
            await eventually(lambda: queues_of(first) == set(range(8)))
            await fill(it, "T", 8, queues=8, first=40)
            await eventually(lambda: len(one.bodies) + len(two.bodies) >= 48)
            assert len(set(one.bodies + two.bodies)) == 48
            assert len(one.bodies) + len(two.bodies) == 48  # nothing came twice across the hand-over
        assert it.committed("G", "T") == dict.fromkeys(range(8), 6)


@in_loop
async def test_more_members_than_queues(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 2)
        consumers = [Consumer(it.address, group="G", topic="T", client=named(str(number))) for number in range(3)]
        for consumer in consumers:
            await consumer.start()
        try:
            await eventually(lambda: [queues_of(consumer) for consumer in consumers] == [{0}, {1}, set()])
        finally:
            for consumer in consumers:
                await consumer.stop()


@pytest.mark.parametrize("rebalance", ["AVG_BY_CIRCLE", "CONSISTENT_HASH"])
def test_other_ways_to_share(tmp_path: Path, rebalance: str) -> None:
    async def run() -> None:
        options = ConsumerOptions(rebalance=rebalance)
        async with cluster(tmp_path) as it:
            await it.make_topic("T", 6)
            async with (
                Consumer(it.address, group="G", topic="T", options=options, client=named("1")) as one,
                Consumer(it.address, group="G", topic="T", options=options, client=named("2")) as two,
            ):
                await eventually(lambda: queues_of(one) | queues_of(two) == set(range(6)))
                await eventually(lambda: not queues_of(one) & queues_of(two))
                if rebalance == "AVG_BY_CIRCLE":
                    await eventually(lambda: queues_of(one) == {0, 2, 4} and queues_of(two) == {1, 3, 5})

    asyncio.run(run())


@in_loop
async def test_a_strategy_of_the_programs_own_that_fails_ends_nothing(tmp_path: Path) -> None:
    calls: list[str] = []

    def odd(own_id: str, queues: Any, client_ids: Any) -> list[MessageQueue]:
        calls.append(own_id)
        if len(calls) < 2:
            raise LookupError("not this time")
        return list(queues)

    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST, strategy=odd) as consumer:
            assert (await anext(consumer)).body == b"0"


@in_loop
async def test_new_queues_are_found(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            await eventually(lambda: queues_of(consumer) == {0})
            config = it.state.topics.get("T")
            assert config is not None
            more = msgspec.structs.replace(config, read_queue_nums=3, write_queue_nums=3)
            it.state.topics.put(more, it.state.now_ms())
            await eventually(lambda: queues_of(consumer) == {0, 1, 2})  # the name server tells of it


# -- broadcasting --------------------------------------------------------------------------------------------


@in_loop
async def test_broadcasting_every_member_gets_everything_and_keeps_its_own_offsets(tmp_path: Path) -> None:
    def member(name: str) -> Consumer:
        options = ConsumerOptions(start_from="first", is_broadcasting=True, local_offset_dir=str(tmp_path / name))
        return Consumer(it.address, group="G", topic="T", options=options, client=named(name))

    async with cluster(tmp_path) as it:
        await fill(it, "T", 8)
        async with member("1") as one, member("2") as two:
            for consumer in (one, two):
                messages = await taken(consumer, 8)
                assert len({message.body for message in messages}) == 8
                for message in messages:
                    await message.ack()
        assert it.committed("G", "T") == {}
        await fill(it, "T", 1, first=8)
        async with member("1") as one:
            assert (await anext(one)).body == b"8"


@in_loop
async def test_broadcasting_has_no_retries(tmp_path: Path) -> None:
    options = ConsumerOptions(start_from="first", is_broadcasting=True, local_offset_dir=str(tmp_path / "offsets"))
    async with cluster(tmp_path) as it:
        await fill(it, "T", 2, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=options) as consumer:
            for _ in range(2):
                await (await anext(consumer)).retry()
            assert consumer._offsets is not None
            assert consumer._offsets.known(it.queue("T")) == 2
        assert it.state.store.queue("%RETRY%G", 0).max_offset == 0


# -- ordered -------------------------------------------------------------------------------------------------


@in_loop
async def test_ordered_messages_wait_for_each_other_also_when_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "SUSPEND_SECONDS", 0.0)
    async with cluster(tmp_path) as it:
        await fill(it, "T", 20, queues=2)
        consumer = Consumer(it.address, group="G", topic="T", ordered=True, options=FROM_FIRST)
        seen: dict[int, list[int]] = {0: [], 1: []}
        busy: set[int] = set()
        failed: set[bytes] = set()

        @consumer.on_message
        async def handle(message: ConsumedMessage) -> None:
            queue_id = message.queue.queue_id
            assert queue_id not in busy
            busy.add(queue_id)
            await asyncio.sleep(0)
            busy.discard(queue_id)
            if message.body in (b"4", b"7") and message.body not in failed:
                failed.add(message.body)
                raise ValueError("once more")
            assert message.reconsume_times == (message.body in failed)
            seen[queue_id].append(int(message.body))

        async with consumer:
            running = asyncio.ensure_future(consumer.run(concurrency=8))
            await eventually(lambda: len(seen[0]) + len(seen[1]) == 20)
            await settled(consumer)
        await running
        assert seen == {0: list(range(0, 20, 2)), 1: list(range(1, 20, 2))}
        assert it.committed("G", "T") == {0: 10, 1: 10}


@in_loop
async def test_an_ordered_queue_is_read_by_the_holder_of_its_lock_only(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 4, queues=2)
        first, second = (
            Consumer(it.address, group="G", topic="T", ordered=True, options=FROM_FIRST, client=named(name))
            for name in ("1", "2")
        )
        async with first:
            await eventually(lambda: queues_of(first) == {0, 1})
            async with second:
                await eventually(lambda: (queues_of(first), queues_of(second)) == ({0}, {1}))
                got = await anext(second)
                assert got.queue.queue_id == 1
                await got.ack()
            await eventually(lambda: queues_of(first) == {0, 1})
        assert it.committed("G", "T")[1] == 1


# -- life ----------------------------------------------------------------------------------------------------


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
async def test_causes_of_no_route(tmp_path: Path) -> None:
    nowhere = free_address()
    with pytest.raises(NoRoute, match="no name server answered"):
        await Consumer(nowhere, group="G", topic="T").start()
    async with cluster(tmp_path) as it:
        with pytest.raises(NoRoute, match="the topic does not exist"):
            await Consumer(it.address, group="G", topic="T").start()
        await it._stack.aclose()
        with pytest.raises(NoRoute, match="no broker is registered"):
            await Consumer(it.address, group="G", topic="T").start()


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
        consumer = Consumer(it.address, group="G", topic="T", options=FROM_FIRST)
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
