"""Lite pull consumers that subscribe or are assigned queues, with brokers of ours."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from apogeemq.client import ClientOptions, LitePullConsumer, MessageQueue, Producer
from apogeemq.errors import NoRoute, WrongState
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers.broker import (
    PULL_LITE,
    PULL_SUBSCRIBES,
    PULL_SUSPENDS,
    PullMessage,
    read_pull_message,
)
from apogeemq.transport.channel import Channel
from tests.unit.client.cluster import cluster, eventually
from tests.unit.client.consuming.programs import fill
from tests.unit.client.consuming.pulling.polling import FIRST, lite, numbers, options, polled, read_by
from tests.unit.event_loop import in_loop

# -- subscribing ---------------------------------------------------------------------------------------------


@in_loop
async def test_polls_give_what_the_topic_has_in_the_order_of_each_queue(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 40)
        async with lite(it) as consumer:
            assert read_by(consumer) == {0, 1, 2, 3}  # right after the start
            seen: dict[int, list[int]] = {}
            while sum(map(len, seen.values())) < 40:
                messages = await consumer.poll(60)
                assert 0 < len(messages) <= FIRST.pull_batch
                for message in messages:
                    seen.setdefault(message.queue.queue_id, []).append(int(message.body))
                    assert message.topic == "T"
            assert seen == {queue: list(range(queue, 40, 4)) for queue in range(4)}
            assert await consumer.poll(0) == []


@in_loop
async def test_async_for_ends_when_the_consumer_is_stopped(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 6, queues=1)
        consumer = lite(it)
        await consumer.start()
        bodies: list[bytes] = []
        stopping: list[asyncio.Future[None]] = []
        async for message in consumer:
            bodies.append(message.body)
            if len(bodies) == 5:
                stopping.append(asyncio.ensure_future(consumer.stop()))
                await stopping[0]  # a long piece of work, as it were
        assert bodies == numbers(*range(5))
        assert it.committed("G", "T") == {0: 4}  # whoever stopped it does not know what becomes of the last one


@in_loop
async def test_two_members_share_the_queues_and_one_alone_has_all(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 8)
        told: list[tuple[str, int]] = []
        first = lite(it, "1", on_rebalance=lambda topic, queues: told.append((topic, len(queues))))
        async with first:
            assert read_by(first) == set(range(8))
            async with lite(it, "2") as second:
                await eventually(lambda: (read_by(first), read_by(second)) == ({0, 1, 2, 3}, {4, 5, 6, 7}))
                await fill(it, "T", 80, queues=8)
                one, two = await asyncio.gather(polled(first, 40), polled(second, 40))
                assert sorted(map(int, one + two)) == list(range(80))
                assert {int(body) % 8 for body in two} == {4, 5, 6, 7}
            await eventually(lambda: read_by(first) == set(range(8)))
            await fill(it, "T", 8, queues=8, first=80)
            assert sorted(map(int, await polled(first, 8))) == list(range(80, 88))  # the second left no one behind
            await first.commit()
            await first.unsubscribe("T")
            assert told == [("T", 8), ("T", 4), ("T", 8), ("T", 0)]
        assert it.committed("G", "T") == dict.fromkeys(range(8), 11)


@in_loop
async def test_brokers_know_a_member_that_consumes_actively(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with lite(it, tags="a || b") as consumer:
            group = it.state.clients.consumer_group("G")
            assert group is not None
            assert (group.consume_type, group.message_model) == ("CONSUME_ACTIVELY", "CLUSTERING")
            assert {data.sub_string for data in group.subscriptions.values()} == {"a || b"}
            assert group.client_ids == [consumer._running.client_id]


@in_loop
async def test_its_pulls_are_apaches_lite_pulls(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        asked: list[PullMessage] = []
        handlers = it.brokers["broker-a"].server.dispatcher.handlers
        pull = handlers[RequestCode.LITE_PULL_MESSAGE]

        def heard(channel: Channel, command: Command) -> Any:
            asked.append(read_pull_message(command))
            return pull(channel, command)

        handlers[RequestCode.LITE_PULL_MESSAGE] = heard
        async with lite(it, tags="a || b"):
            await eventually(lambda: asked)
        (header,) = asked
        assert header.system_flag == PULL_SUSPENDS | PULL_SUBSCRIBES | PULL_LITE
        assert (header.commit_offset, header.suspend_ms, header.max_messages) == (0, 20_000, 10)
        subscription = (header.subscription, header.subscription_version, header.expression_type)
        assert subscription == ("a || b", 0, "TAG")


@in_loop
async def test_other_tags_hold_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with lite(it, tags="a") as consumer:
            await consumer.subscribe("T", "b")  # a pull for the other tag waits at the broker
            await fill(it, "T", 1, queues=1, tags="a")
            await fill(it, "T", 1, queues=1, first=1, tags="b")
            assert await polled(consumer, 1) == numbers(1)
            group = it.state.clients.consumer_group("G")
            assert group is not None and group.subscriptions["T"].sub_string == "b"
        async with lite(it, "2", topic="", group="H") as consumer:
            await consumer.assign([it.queue("T")], tags="a")
            assert await polled(consumer, 1) == numbers(0)
            await consumer.assign([it.queue("T")], tags="b")
            await fill(it, "T", 1, queues=1, first=2, tags="b")
            assert await polled(consumer, 1) == numbers(2)


@in_loop
async def test_tools_are_told_how_it_is(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 8, queues=2)
        async with lite(it) as consumer:
            await polled(consumer, 8)
            assert consumer.offsets_of("T") == {it.queue("T", 0): 4, it.queue("T", 1): 4} == consumer.offsets_of("")
            assert consumer.offsets_of("U") == {}
            told = consumer.running_info(with_stacks=True)
            assert told.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
            assert {queue.queue_id: info.commit_offset for queue, info in told.queues.items()} == {0: 4, 1: 4}
            assert [subscription.topic for subscription in told.subscriptions] == ["T"]
            assert told.stacks is not None and "pull" in told.stacks
            assert consumer.running_info(with_stacks=False).stacks is None


@in_loop
async def test_only_messages_with_the_tags_come_and_the_others_are_passed_over(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 2, queues=1, tags="Aa")
        await fill(it, "T", 2, queues=1, first=2, tags="BB")  # the same hash
        await fill(it, "T", 2, queues=1, first=4, tags="c")
        async with lite(it, tags="Aa || d") as consumer:
            assert await polled(consumer, 2) == numbers(0, 1)
            await eventually(lambda: consumer.position(it.queue("T")) == 6)
            assert await consumer.poll(0) == []
        assert it.committed("G", "T") == {0: 6}


@in_loop
async def test_topics_may_come_and_go_while_it_runs(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 2, queues=1)
        await fill(it, "U", 2, queues=1, first=10)
        async with LitePullConsumer(it.address, group="G", options=FIRST) as consumer:
            with pytest.raises(WrongState, match="reads nothing: subscribe to a topic, or assign queues"):
                await consumer.poll()
            await consumer.subscribe("T")
            assert await polled(consumer, 2) == numbers(0, 1)
            await consumer.subscribe("U")
            assert await polled(consumer, 2) == numbers(10, 11)
            await consumer.unsubscribe("T")
            assert consumer.assignment == {it.queue("U")}
            await fill(it, "T", 1, queues=1, first=2)
            await fill(it, "U", 1, queues=1, first=12)
            assert await polled(consumer, 1) == numbers(12)
            with pytest.raises(WrongState, match="does not subscribe to T"):
                await consumer.unsubscribe("T")
            with pytest.raises(NoRoute):
                await consumer.subscribe("nowhere")


@in_loop
async def test_a_namespace_is_not_seen_by_the_program(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("NS%T", 1)
        client = ClientOptions(namespace="NS")
        async with Producer(it.address, group="P", client=client) as producer:
            await producer.send("T", b"x")
        async with LitePullConsumer(it.address, group="G", topic="T", options=FIRST, client=client) as consumer:
            (message,) = await consumer.poll(60)
            assert (message.topic, message.queue) == ("T", it.queue("T"))
            assert consumer.assignment == {it.queue("T")} == set(await consumer.fetch_queues("T"))
            await consumer.commit([message.queue])
            assert await consumer.committed(message.queue) == 1
        assert it.committed("NS%G", "NS%T") == {0: 1}


@in_loop
async def test_broadcasting_members_get_everything_and_keep_their_own_offsets(tmp_path: Path) -> None:
    def member(name: str) -> LitePullConsumer:
        kept = options(is_broadcasting=True, local_offset_dir=str(tmp_path / "offsets"))
        return lite(it, name, options=kept)

    async with cluster(tmp_path) as it:
        await fill(it, "T", 8)
        async with member("1") as one, member("2") as two:
            for consumer in (one, two):
                assert sorted(map(int, await polled(consumer, 8))) == list(range(8))
            await one.commit()
            assert await one.committed(it.queue("T")) == 2
        assert it.committed("G", "T") == {}
        await fill(it, "T", 1, first=8)
        async with member("1") as one:
            assert await polled(one, 1) == numbers(8)


# -- assigned queues -----------------------------------------------------------------------------------------


@in_loop
async def test_assigned_queues_are_read_whoever_else_reads_them(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 8)
        one, two = lite(it, "1", topic=""), lite(it, "2", topic="")
        await one.assign([it.queue("T", 0), it.queue("T", 1)])
        async with one, two:
            queues = await two.fetch_queues("T")
            assert [queue.queue_id for queue in queues] == [0, 1, 2, 3]
            await two.assign(queues[1:3])
            assert (read_by(one), read_by(two)) == ({0, 1}, {1, 2})
            assert sorted(map(int, await polled(one, 4))) == [0, 1, 4, 5]
            assert sorted(map(int, await polled(two, 4))) == [1, 2, 5, 6]
            one.ids_changed()  # members come and go: that changes nothing here
            await two.assign([it.queue("T", 3)])
            assert (read_by(one), read_by(two)) == ({0, 1}, {3})
            assert sorted(map(int, await polled(two, 2))) == [3, 7]
            await two.assign([])
            assert read_by(two) == set()
            group = it.state.clients.consumer_group("G")
            assert group is not None and not group.subscriptions


@in_loop
async def test_tags_of_assigned_queues(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 2, queues=1, tags="a")
        await fill(it, "T", 2, queues=1, first=2, tags="b")
        async with lite(it, topic="") as consumer:
            await consumer.assign([it.queue("T")], tags="b")
            assert await polled(consumer, 2) == numbers(2, 3)


@in_loop
async def test_an_assigned_queue_of_a_broker_that_is_away_is_read_when_it_is_back(tmp_path: Path) -> None:
    async with cluster(tmp_path, "broker-a", "broker-b") as it:
        await it.make_topic("T", 1, "broker-a")
        await it.make_topic("T", 1, "broker-b")
        async with lite(it, topic="") as consumer:
            await consumer.assign([it.queue("T"), MessageQueue("elsewhere", 0, "T")])
            assert consumer.assignment == {it.queue("T")}
            with pytest.raises(NoRoute):
                await consumer.assign([it.queue("nowhere")])
            with pytest.raises(WrongState, match="elsewhere"):
                await consumer.seek(MessageQueue("elsewhere", 0, "T"), 0)


# -- changes -------------------------------------------------------------------------------------------------


@in_loop
async def test_a_listener_hears_of_new_queues(tmp_path: Path) -> None:
    def more(queues: int) -> None:
        config = it.state.topics.get("T")
        assert config is not None
        changed = msgspec.structs.replace(config, read_queue_nums=queues, write_queue_nums=queues)
        it.state.topics.put(changed, it.state.now_ms())

    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        heard: list[int] = []

        def listener(topic: str, queues: frozenset[MessageQueue]) -> None:
            heard.append(len(queues))
            assert topic == "T"
            raise LookupError("that is the program's affair")

        consumer = lite(it, topic="")
        await consumer.on_queues_changed("T", listener)
        async with consumer:
            assert heard == []
            more(3)
            await eventually(lambda: heard == [3])
            await consumer.on_queues_changed("T", lambda topic, queues: heard.append(-len(queues)))
            more(4)
            await eventually(lambda: heard == [3, -4])
