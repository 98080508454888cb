"""The blocking consumer with a broker of ours."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from apogeemq.blocking import ConsumedMessage, Consumer, ConsumerOptions, Message, Producer
from apogeemq.blocking.background import _carried_out, background_loop
from apogeemq.errors import ConfigError, WrongState
from tests.peers.process import wait_for
from tests.unit.blocking.interrupting import interrupted

FROM_FIRST = ConsumerOptions(start_from="first")


@pytest.fixture
def producer(address: str) -> Iterator[Producer]:
    with Producer(address, group="tests") as made:
        yield made


def send(producer: Producer, topic: str, count: int, **more: str) -> set[bytes]:
    bodies = {b"%d" % number for number in range(count)}
    for body in sorted(bodies):
        producer.send(topic, body, **more)  # type: ignore[arg-type]
    return bodies


def take(consumer: Consumer, count: int) -> list[ConsumedMessage]:
    return [next(consumer) for _ in range(count)]


def test_messages_come_and_what_was_acknowledged_does_not_come_again(address: str, producer: Producer) -> None:
    bodies = send(producer, "once", 20)
    with Consumer(address, group="once", topic="once", options=FROM_FIRST) as consumer:
        assert (consumer.group, consumer.is_ordered, consumer.options) == ("once", False, FROM_FIRST)
        got = []
        for message in consumer:
            got.append(message.body)
            message.ack()
            assert message.is_settled
            message.ack()
            if len(got) == len(bodies):
                break
    assert set(got) == bodies
    producer.send("once", b"last")
    with Consumer(address, group="once", topic="once", options=FROM_FIRST) as consumer:
        assert next(consumer).body == b"last"


def test_what_was_not_acknowledged_comes_to_the_next(address: str, producer: Producer) -> None:
    bodies = send(producer, "left", 5)
    with Consumer(address, group="left", topic="left", options=FROM_FIRST) as consumer:
        assert {message.body for message in take(consumer, 5)} == bodies
    with Consumer(address, group="left", topic="left", options=FROM_FIRST) as consumer:
        assert {message.body for message in take(consumer, 5)} == bodies


def test_a_message_shows_all_it_has(address: str, producer: Producer) -> None:
    sent = producer.send(Message("shown", b"body", "tag", ["a", "b"], {"mine": "yes"}, flag=7))
    with Consumer(address, group="shown", topic="shown", tags="tag || other", options=FROM_FIRST) as consumer:
        message = next(consumer)
    assert (message.topic, message.body, message.tags, message.keys) == ("shown", b"body", "tag", ["a", "b"])
    assert (message.message_id, message.offset_id) == (sent.message_id, sent.offset_id)
    assert (message.queue, message.queue_offset, message.flag) == (sent.queue, sent.queue_offset, 7)
    assert message.properties["mine"] == "yes"
    assert message.store_time_ms >= message.born_time_ms > 0
    assert (message.reconsume_times, message.system_flag, message.is_settled) == (0, 0, False)
    assert len(message.store_host) == len(message.born_host) == 8
    assert message.physical_offset >= 0
    assert sent.message_id in repr(message)


def test_a_message_can_come_again_later(address: str, producer: Producer) -> None:
    producer.send("later", b"again")
    with Consumer(address, group="later", topic="later", options=FROM_FIRST) as consumer:
        next(consumer).retry(1)
        message = next(consumer)
        assert (message.body, message.reconsume_times, message.topic) == (b"again", 1, "later")
        message.ack()


def test_ordered_messages_come_one_after_the_other(address: str, producer: Producer) -> None:
    for number in range(10):
        producer.send("ordered", b"%d" % number, sharding_key="same")
    with Consumer(address, group="ordered", topic="ordered", ordered=True, options=FROM_FIRST) as consumer:
        got = []
        for message in consumer:
            got.append(int(message.body))
            message.ack()
            if len(got) == 10:
                break
    assert got == list(range(10))


def test_iterating_ends_with_the_consumer(address: str, producer: Producer) -> None:
    producer.send("ended", b"1")
    consumer = Consumer(address, group="ended", topic="ended", options=FROM_FIRST)
    has_one = threading.Event()
    got: list[bytes] = []

    def iterate() -> None:
        for message in consumer:
            got.append(message.body)
            has_one.set()

    with consumer:
        thread = threading.Thread(target=iterate)
        thread.start()
        has_one.wait()
    thread.join()
    assert got == [b"1"]
    assert list(consumer) == []


def test_threads_share_a_consumer(address: str, producer: Producer) -> None:
    bodies = send(producer, "threads", 30)
    got: list[bytes] = []
    everything = threading.Event()

    def iterate(consumer: Consumer) -> None:
        for message in consumer:
            got.append(message.body)
            message.ack()
            if len(got) == len(bodies):
                everything.set()

    with Consumer(address, group="threads", topic="threads", options=FROM_FIRST) as consumer:
        threads = [threading.Thread(target=iterate, args=(consumer,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        everything.wait()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(bodies)


def test_an_interrupted_wait_takes_no_message(address: str, producer: Producer) -> None:
    producer.send("waited", b"before")
    with Consumer(address, group="waited", topic="waited", options=FROM_FIRST) as consumer:
        next(consumer).ack()
        with interrupted() as is_time:
            is_time.set()
            next(consumer)
        producer.send("waited", b"after")
        assert next(consumer).body == b"after"


def test_a_message_taken_for_someone_who_was_interrupted_comes_next(address: str, producer: Producer) -> None:
    producer.send("kept", b"1")
    with Consumer(address, group="kept", topic="kept", options=FROM_FIRST) as consumer:
        first = next(consumer)
        consumer._keep(first._message)
        consumer._keep(None)
        assert next(consumer).message_id == first.message_id
        consumer._keep(first._message)
    assert list(consumer) == []


@contextmanager
def stopped_when_set(consumer: Consumer) -> Iterator[threading.Event]:
    is_enough = threading.Event()

    def stop() -> None:
        is_enough.wait()
        consumer.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    yield is_enough
    stopper.join()


# -- handlers ----------------------------------------------------------------------------------------------------


def test_a_handler_is_called_for_every_message(address: str, producer: Producer) -> None:
    bodies = send(producer, "handled", 20)
    consumer = Consumer(address, group="handled", topic="handled", options=FROM_FIRST)
    got: list[bytes] = []
    threads: set[str] = set()

    @consumer.on_message
    def handle(message: ConsumedMessage) -> None:
        got.append(message.body)
        threads.add(threading.current_thread().name)
        producer.send("answers", message.body)  # a handler may block
        if len(got) == len(bodies):
            is_enough.set()

    with consumer, stopped_when_set(consumer) as is_enough:
        consumer.run(concurrency=3)
    assert sorted(got) == sorted(bodies)
    assert 1 <= len(threads) <= 3
    assert threading.main_thread().name not in threads


def test_what_a_handler_could_not_deal_with_comes_again(address: str, producer: Producer) -> None:
    producer.send("failed", b"1", delay_level=0)
    options = ConsumerOptions(start_from="first")
    consumer = Consumer(address, group="failed", topic="failed", ordered=True, options=options)
    times: list[int] = []

    @consumer.on_message
    def handle(message: ConsumedMessage) -> None:
        times.append(message.reconsume_times)
        if len(times) == 1:
            raise ValueError("not today")
        is_enough.set()

    with consumer, stopped_when_set(consumer) as is_enough:
        consumer.run()
    assert times == [0, 1]


def test_a_handler_may_stop_its_consumer(address: str, producer: Producer) -> None:
    producer.send("enough", b"1")
    consumer = Consumer(address, group="enough", topic="enough", options=FROM_FIRST)

    @consumer.on_message
    def handle(message: ConsumedMessage) -> None:
        consumer.stop()

    with consumer:
        consumer.run()
    producer.send("enough", b"2")
    with Consumer(address, group="enough", topic="enough", options=FROM_FIRST) as other:
        assert next(other).body == b"2"


def test_what_is_read_can_change(address: str, producer: Producer) -> None:
    producer.send("early", b"1")
    producer.send("added", b"2")
    with Consumer(address, group="changing", topic="early", options=FROM_FIRST) as consumer:
        next(consumer).ack()
        consumer.subscribe("added")
        assert next(consumer).body == b"2"
        consumer.unsubscribe("added")
        consumer.pause()
        consumer.resume()
        producer.send("early", b"3")
        assert next(consumer).body == b"3"


def test_ctrl_c_waits_for_handlers_and_their_messages_are_dealt_with(address: str, producer: Producer) -> None:
    bodies = send(producer, "stopped", 2)
    consumer = Consumer(address, group="stopped", topic="stopped", options=FROM_FIRST)
    got: list[bytes] = []
    with consumer:
        with interrupted() as is_time:

            @consumer.on_message
            def handle(message: ConsumedMessage) -> None:
                is_time.set()
                wait_for(a_call_is_interrupted, "Ctrl-C", interval_s=0.001)
                got.append(message.body)

            consumer.run(concurrency=1)
        assert len(got) == 1
    with Consumer(address, group="stopped", topic="stopped", options=FROM_FIRST) as other:
        assert {next(other).body} == bodies - set(got)


def a_call_is_interrupted() -> bool:
    """A call of this test: clients of the tests before it may still be ending tasks of their own in the same loop."""

    async def is_cancelling() -> bool:
        return any(task.cancelling() and is_call(task) for task in asyncio.all_tasks())

    def is_call(task: asyncio.Task[Any]) -> bool:
        return getattr(task.get_coro(), "__name__", "") == _carried_out.__name__

    return background_loop().run(is_cancelling)


def test_it_runs_only_with_a_handler(address: str) -> None:
    consumer = Consumer(address, group="bare", topic="TBW102")
    with pytest.raises(WrongState, match="no handler"):
        consumer.run()
    with pytest.raises(WrongState, match="not running"):
        next(consumer)
    with pytest.raises(ConfigError):
        Consumer(address, group="DEFAULT_CONSUMER", topic="T")
