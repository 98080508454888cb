"""What may be changed of a consumer that runs, what limits it, and what becomes of messages nobody settles."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.client import Consumer, ConsumerOptions, Producer, by_config
from apogeemq.client.consuming.queue_reader import QueueReader
from apogeemq.errors import WrongState
from tests.unit.client.cluster import FROM_FIRST, Cluster, cluster, eventually, named
from tests.unit.client.consuming.programs import fill, queues_of, settled, taken
from tests.unit.event_loop import in_loop


def reader_of(consumer: Consumer, where: Cluster, topic: str = "T", queue_id: int = 0) -> QueueReader:
    assert consumer._membership is not None
    return consumer._membership.readers[where.queue(topic, queue_id)]


def subscribed(where: Cluster, group: str = "G") -> dict[str, str]:
    """What the broker knows of it."""
    found = where.state.clients.consumer_group(group)
    assert found is not None
    return {topic: data.sub_string for topic, data in found.subscriptions.items()}


# -- subscriptions -------------------------------------------------------------------------------------------


@in_loop
async def test_another_topic(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        for topic in ("T", "U"):
            await fill(it, topic, 2, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            for message in await taken(consumer, 2):
                await message.ack()
            await consumer.subscribe("U")
            assert subscribed(it) == {"T": "*", "U": "*", "%RETRY%G": "*"}
            messages = await taken(consumer, 2)
            assert {message.topic for message in messages} == {"U"}
            await consumer.unsubscribe("T")
            assert subscribed(it) == {"U": "*", "%RETRY%G": "*"}
            assert queues_of(consumer, "T") == set()
            await fill(it, "T", 1, queues=1, first=2)
            await fill(it, "U", 1, queues=1, first=2)
            assert (await anext(consumer)).topic == "U"
            await consumer.unsubscribe("T")  # again: nothing to do
        assert it.committed("G", "T") == {0: 2}


@in_loop
async def test_other_tags(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Consumer(it.address, group="G", topic="T", tags="a", options=FROM_FIRST) as consumer:
            await settled(consumer)
            await consumer.subscribe("T", "b")
            assert subscribed(it)["T"] == "b"
            await fill(it, "T", 1, queues=1, tags="a")
            await fill(it, "T", 1, queues=1, first=1, tags="b")
            assert (await anext(consumer)).body == b"1"


@in_loop
async def test_a_topic_that_is_left_and_taken_again_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 2, queues=1)
        wanted = {"T": "*", "U": "*"}
        await it.make_topic("U", 1)
        async with Consumer(it.address, group="G", subscriptions=wanted, options=FROM_FIRST) as consumer:
            first, second = await taken(consumer, 2)
            leaving = asyncio.ensure_future(consumer.unsubscribe("T"))
            await asyncio.sleep(0)
            await first.ack()  # it counts still
            await asyncio.gather(leaving, consumer.subscribe("T"))
            again = await anext(consumer)
            assert (again.queue_offset, again.body) == (1, second.body)
            await again.ack()
            await fill(it, "T", 1, queues=1, first=2)
            assert (await anext(consumer)).body == b"2"


@in_loop
async def test_a_topic_may_be_subscribed_to_before_it_is_there(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 1)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            await consumer.subscribe("later")
            async with Producer(it.address, group="P") as producer:
                await producer.send("later", b"now")
            assert (await anext(consumer)).body == b"now"
        with pytest.raises(WrongState, match="not running"):
            await consumer.subscribe("T")


@in_loop
async def test_a_pause(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as consumer:
            await (await anext(consumer)).ack()
            consumer.pause()
            await fill(it, "T", 1, queues=1, first=1)  # a pull is on its way: this one comes still
            await (await anext(consumer)).ack()
            waiting = asyncio.ensure_future(anext(consumer))
            await eventually(lambda: reader_of(consumer, it).progress.is_waited_for)
            await fill(it, "T", 1, queues=1, first=2)
            assert not waiting.done()
            consumer.resume()
            assert (await waiting).body == b"2"


# -- limits --------------------------------------------------------------------------------------------------


@in_loop
async def test_what_a_topic_may_hold_is_shared_by_its_queues(tmp_path: Path) -> None:
    options = ConsumerOptions(max_cached_per_topic=100, max_cached_bytes_per_topic=1000)
    async with cluster(tmp_path) as it:
        await it.make_topic("T", 4)

        def limits(consumer: Consumer) -> set[tuple[int, int]]:
            assert consumer._membership is not None
            readers = [reader for queue, reader in consumer._membership.readers.items() if queue.topic == "T"]
            return {(reader.max_cached, reader.max_cached_bytes) for reader in readers}

        async with Consumer(it.address, group="G", topic="T", options=options, client=named("1")) as one:
            await settled(one)
            assert limits(one) == {(25, 250)}
            assert reader_of(one, it, "%RETRY%G").max_cached == 100
            async with Consumer(it.address, group="G", topic="T", options=options, client=named("2")) as two:
                await eventually(lambda: limits(one) == limits(two) == {(50, 500)})


@in_loop
async def test_queues_by_configuration(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 8, queues=4)
        chosen = by_config([it.queue("T", 1), it.queue("T", 3)])
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST, strategy=chosen) as consumer:
            await settled(consumer)
            assert (queues_of(consumer), queues_of(consumer, "%RETRY%G")) == ({1, 3}, {0})
            assert {message.queue.queue_id for message in await taken(consumer, 4)} == {1, 3}


@in_loop
async def test_an_ordered_broadcasting_consumer_needs_no_locks(tmp_path: Path) -> None:
    def member(name: str) -> Consumer:
        options = ConsumerOptions(
            start_from="first", is_broadcasting=True, local_offset_dir=str(tmp_path / name), suspend_seconds=0.01
        )
        return Consumer(it.address, group="G", topic="T", ordered=True, options=options, client=named(name))

    async with cluster(tmp_path) as it:
        await fill(it, "T", 3, queues=1)
        async with member("1") as one, member("2") as two:
            for consumer in (one, two):
                first = await anext(consumer)
                await first.retry()  # tried here again: the order counts
                seen = []
                for _ in range(3):
                    message = await anext(consumer)
                    seen.append((message.body, message.reconsume_times))
                    await message.ack()
                assert seen == [(b"0", 1), (b"1", 0), (b"2", 0)]


# -- messages nobody settles ---------------------------------------------------------------------------------


@in_loop
async def test_a_message_the_program_has_too_long_is_sent_back(tmp_path: Path) -> None:
    options = ConsumerOptions(start_from="first", consume_timeout_seconds=0.1)
    async with cluster(tmp_path, messageDelayLevel="1s 1s 1s") as it:
        await fill(it, "T", 2, queues=1)
        async with Consumer(it.address, group="G", topic="T", options=options) as consumer:
            late, prompt = await taken(consumer, 2)
            await prompt.ack()
            await eventually(lambda: late.is_settled)
            await eventually(lambda: consumer._offsets is not None and consumer._offsets.known(it.queue("T")) == 2)
            again = await anext(consumer)
            assert (again.body, again.reconsume_times) == (late.body, 1)
            await again.ack()
            await late.ack()  # too late: it does nothing
            await late.retry()
        assert it.state.store.queue("%RETRY%G", 0).max_offset == 1
        assert it.committed("G", "T") == {0: 2}


@in_loop
async def test_an_ordered_message_may_take_its_time(tmp_path: Path) -> None:
    options = ConsumerOptions(start_from="first", consume_timeout_seconds=0.01)
    async with cluster(tmp_path) as it:
        await fill(it, "T", 2, queues=1)
        async with Consumer(it.address, group="G", topic="T", ordered=True, options=options) as consumer:
            message = await anext(consumer)
            process = reader_of(consumer, it).process
            taken_ms = process.taken_at(message)
            assert taken_ms is not None
            process._taken[message.queue_offset] = (taken_ms - 1000, message)
            await consumer._give_back_expired()
            assert not message.is_settled
            await message.ack()
            assert (await anext(consumer)).body == b"1"
