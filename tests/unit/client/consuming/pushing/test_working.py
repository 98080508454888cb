"""Handlers at work: how many at once, what their failures mean, and how they end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.client import ConsumedMessage, Consumer, ConsumerOptions
from apogeemq.client.consuming.pushing.working import Handlers
from apogeemq.errors import ConfigError, WrongState
from tests.unit.client.cluster import FROM_FIRST, client_tasks, cluster, eventually, named
from tests.unit.client.consuming.messages import message
from tests.unit.client.consuming.programs import fill, queues_of
from tests.unit.event_loop import in_loop


def patient(seconds: float) -> ConsumerOptions:
    return ConsumerOptions(start_from="first", stop_grace_seconds=seconds)


@in_loop
async def test_so_many_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 12, queues=3)
        consumer = Consumer(it.address, group="G", topic="T", options=FROM_FIRST)
        at_work: set[bytes] = set()
        most, done = 0, 0

        @consumer.on_message
        async def handle(message: ConsumedMessage) -> None:
            nonlocal most, done
            at_work.add(message.body)
            most = max(most, len(at_work))
            if done < 4:
                await eventually(lambda: most == 4)  # as many as may be
            at_work.discard(message.body)
            done += 1

        async with consumer:
            running = asyncio.ensure_future(consumer.run(concurrency=4))
            await eventually(lambda: done == 12)
        await running
        assert most == 4
        assert it.committed("G", "T") == {0: 4, 1: 4, 2: 4}


@in_loop
async def test_a_handler_may_settle_by_itself(tmp_path: Path) -> None:
    async with cluster(tmp_path, messageDelayLevel="1s 1s 1s") as it:
        await fill(it, "T", 1, queues=1)
        consumer = Consumer(it.address, group="G", topic="T", options=FROM_FIRST)
        seen: list[int] = []

        @consumer.on_message
        async def handle(message: ConsumedMessage) -> None:
            seen.append(message.reconsume_times)
            if len(seen) == 1:
                await message.retry(delay_level=1)

        async with consumer:
            running = asyncio.ensure_future(consumer.run())
            await eventually(lambda: len(seen) == 2)
        await running
        assert seen == [0, 1]


@in_loop
async def test_a_handler_whose_work_was_cancelled_has_failed_and_ends_nobody(tmp_path: Path) -> None:
    async with cluster(tmp_path, messageDelayLevel="1s 1s 1s") as it:
        await fill(it, "T", 1, queues=1)
        consumer = Consumer(it.address, group="G", topic="T", options=FROM_FIRST)
        seen: list[int] = []

        @consumer.on_message
        async def handle(message: ConsumedMessage) -> None:
            seen.append(message.reconsume_times)
            if len(seen) == 1:
                inner = asyncio.ensure_future(asyncio.sleep(60))
                inner.cancel()
                await inner

        async with consumer:
            running = asyncio.ensure_future(consumer.run(concurrency=1))
            await eventually(lambda: len(seen) == 2)
        await running
        assert seen == [0, 1]


@in_loop
async def test_no_handler_and_no_start(tmp_path: Path) -> None:
    consumer = Consumer("127.0.0.1:1", group="G", topic="T")
    with pytest.raises(WrongState, match="no handler"):
        await consumer.run()

    @consumer.on_message
    async def handle(message: ConsumedMessage) -> None: ...

    with pytest.raises(WrongState, match="not running"):
        await consumer.run()
    with pytest.raises(ConfigError, match="concurrency=0"):
        await consumer.run(concurrency=0)
    for call in (consumer.pause, consumer.resume):
        with pytest.raises(WrongState, match="not running"):
            call()


# -- the end -------------------------------------------------------------------------------------------------


@in_loop
async def test_handlers_at_work_may_finish_and_what_they_acknowledge_is_kept(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 3, queues=1)
        consumer = Consumer(it.address, group="G", topic="T", options=patient(60))
        working, may_end = asyncio.Event(), asyncio.Event()
        seen: list[bytes] = []

        @consumer.on_message
        async def handle(message: ConsumedMessage) -> None:
            seen.append(message.body)
            working.set()
            await may_end.wait()

        await consumer.start()
        running = asyncio.ensure_future(consumer.run(concurrency=1))
        await working.wait()
        stopping = asyncio.ensure_future(consumer.stop())
        await eventually(lambda: consumer._delivery is not None and consumer._delivery._is_closed)
        group = it.state.clients.consumer_group("G")
        assert group is not None and group.client_ids  # still a member: nobody else gets its queues
        may_end.set()
        await stopping
        await running
        assert seen == [b"0"]  # nothing new was begun
        assert it.committed("G", "T") == {0: 1}


@in_loop
async def test_a_message_that_fails_at_the_end_is_sent_back(tmp_path: Path) -> None:
    async with cluster(tmp_path, messageDelayLevel="1s 1s 1s") as it:
        await fill(it, "T", 1, queues=1)
        consumer = Consumer(it.address, group="G", topic="T", options=patient(60))
        working, may_end = asyncio.Event(), asyncio.Event()

        @consumer.on_message
        async def handle(message: ConsumedMessage) -> None:
            working.set()
            await may_end.wait()
            raise ValueError("not now")

        await consumer.start()
        running = asyncio.ensure_future(consumer.run())
        await working.wait()
        stopping = asyncio.ensure_future(consumer.stop())
        await asyncio.sleep(0)
        may_end.set()
        await stopping
        await running
        assert it.committed("G", "T") == {0: 1}
        async with Consumer(it.address, group="G", topic="T") as another:
            assert (await anext(another)).reconsume_times == 1


@in_loop
async def test_handlers_that_do_not_finish_are_cancelled_and_their_messages_come_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 2, queues=1)
        consumer = Consumer(it.address, group="G", topic="T", options=patient(0.01))
        working = asyncio.Event()
        ends: list[str] = []

        @consumer.on_message
        async def handle(message: ConsumedMessage) -> None:
            working.set()
            try:
                await asyncio.Event().wait()
            finally:
                ends.append("cancelled")

        async with consumer:
            running = asyncio.ensure_future(consumer.run(concurrency=1))
            await working.wait()
        await running
        assert ends == ["cancelled"]
        assert it.committed("G", "T").get(0, 0) == 0
        async with Consumer(it.address, group="G", topic="T", options=FROM_FIRST) as another:
            assert (await anext(another)).body == b"0"


class AtWork:
    """A consumer whose handler waits until it is told to end."""

    def __init__(self, address: str, options: ConsumerOptions) -> None:
        self.consumer = Consumer(address, group="G", topic="T", options=options)
        self.began, self.may_end = asyncio.Event(), asyncio.Event()
        self.ends: list[str] = []
        self.consumer.on_message(self._handle)

    async def _handle(self, message: ConsumedMessage) -> None:
        self.began.set()
        try:
            await self.may_end.wait()
            self.ends.append("finished")
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise


@in_loop
async def test_a_run_that_is_cancelled_lets_handlers_finish(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 3, queues=1)
        it_works = AtWork(it.address, patient(60))
        async with it_works.consumer:
            running = asyncio.ensure_future(it_works.consumer.run(concurrency=2))
            await it_works.began.wait()
            running.cancel()
            for _ in range(20):
                await asyncio.sleep(0)
            assert not running.done()
            it_works.may_end.set()
            await asyncio.wait((running,))
            assert running.cancelled()
        assert set(it_works.ends) == {"finished"}
        assert it.committed("G", "T") == {0: len(it_works.ends)}


@in_loop
async def test_a_run_that_is_cancelled_twice_does_not_wait(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        it_works = AtWork(it.address, patient(60))
        async with it_works.consumer:
            running = asyncio.ensure_future(it_works.consumer.run())
            await it_works.began.wait()
            running.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait((running,))
            assert running.cancelled()
        assert it_works.ends == ["cancelled"]
        assert it.committed("G", "T").get(0, 0) == 0


@in_loop
async def test_a_handler_may_stop_its_consumer(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 3, queues=1)
        consumer = Consumer(it.address, group="G", topic="T", options=patient(60))

        @consumer.on_message
        async def handle(message: ConsumedMessage) -> None:
            await message.ack()
            if message.body == b"1":
                await consumer.stop()

        await consumer.start()
        await consumer.run(concurrency=1)
        assert it.committed("G", "T") == {0: 2}
        await eventually(lambda: not client_tasks())


@in_loop
async def test_whoever_stops_it_again_waits_for_the_end(tmp_path: Path) -> None:
    """As a program does whose consumer is stopped by a signal: it must not go before the offsets are kept."""
    async with cluster(tmp_path) as it:
        await fill(it, "T", 1, queues=1)
        it_works = AtWork(it.address, patient(60))
        await it_works.consumer.start()
        running = asyncio.ensure_future(it_works.consumer.run(concurrency=1))
        await it_works.began.wait()
        first, second = (asyncio.ensure_future(it_works.consumer.stop()) for _ in range(2))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not first.done() and not second.done()
        it_works.may_end.set()
        await second
        assert first.done()
        assert it.committed("G", "T") == {0: 1}
        await it_works.consumer.stop()
        await running


@in_loop
async def test_handlers_that_stop_it_all_at_once_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it:
        await fill(it, "T", 4, queues=4)
        consumer = Consumer(it.address, group="G", topic="T", options=patient(60))
        at_work = 0

        @consumer.on_message
        async def handle(message: ConsumedMessage) -> None:
            nonlocal at_work
            at_work += 1
            await eventually(lambda: at_work == 4)
            await message.ack()
            await consumer.stop()

        async with consumer:
            await consumer.run(concurrency=4)
        assert it.committed("G", "T") == dict.fromkeys(range(4), 1)


@in_loop
async def test_an_ordered_queue_is_handed_over_when_its_message_is_settled(tmp_path: Path) -> None:
    def member(name: str) -> Consumer:
        return Consumer(it.address, group="G", topic="T", ordered=True, options=FROM_FIRST, client=named(name))

    async with cluster(tmp_path) as it:
        await fill(it, "T", 6, queues=2)
        async with member("1") as first:
            messages = [await anext(first), await anext(first)]
            assert {message.queue.queue_id for message in messages} == {0, 1}
            second = member("2")
            await second.start()
            try:
                await eventually(lambda: queues_of(first) == {0})
                next_one = asyncio.ensure_future(anext(second))
                for _ in range(100):
                    await asyncio.sleep(0)
                assert not queues_of(second) and not next_one.done()  # the lock is the first one's still
                (leaving,) = (message for message in messages if message.queue.queue_id == 1)
                await leaving.ack()  # it counts, though the queue is on its way
                got = await next_one
                assert (got.queue.queue_id, got.queue_offset) == (1, 1)
                await got.ack()
            finally:
                await second.stop()
        assert it.committed("G", "T")[1] >= 2


@in_loop
async def test_whoever_waits_is_not_waited_for() -> None:
    handlers = Handlers()

    async def handle(message: ConsumedMessage) -> None:
        await handlers.finish(60)

    result = await handlers.consume_directly(handle, message(), is_ordered=False)
    assert b"CR_SUCCESS" in result
