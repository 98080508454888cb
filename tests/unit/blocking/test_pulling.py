"""The blocking pull consumers with a broker of ours."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from apogeemq.blocking import (
    LitePullConsumer,
    LitePullOptions,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullOptions,
    PullStatus,
    ReceivedMessage,
)
from apogeemq.errors import OffsetIllegal, WrongState
from tests.unit.blocking.interrupting import interrupted

FROM_FIRST = LitePullOptions(start_from="first")


@pytest.fixture
def producer(address: str) -> Iterator[Producer]:
    with Producer(address, group="pulls") as made:
        yield made


def send(producer: Producer, topic: str, count: int) -> MessageQueue:
    """To one queue, which is given."""
    queue = producer.queues(topic)[0]
    for number in range(count):
        producer.send(topic, b"%d" % number, queue=queue)
    return queue


def polled(consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    messages: list[ReceivedMessage] = []
    while len(messages) < count:
        messages += consumer.poll(60)
    return messages


def numbers(messages: list[ReceivedMessage]) -> list[int]:
    return [int(message.body) for message in messages]


# -- pull --------------------------------------------------------------------------------------------------------


def test_a_queue_is_read_as_the_program_says(address: str, producer: Producer) -> None:
    queue = send(producer, "pulled", 5)
    with PullConsumer(address, group="pulled") as consumer:
        assert consumer.options == PullOptions()
        assert queue in consumer.fetch_queues("pulled")
        result = consumer.pull(queue, 1, 3)
        assert (result.status, numbers(result.messages), result.next_offset) == (PullStatus.FOUND, [1, 2, 3], 4)
        raw = consumer.pull_raw(queue, 4)
        assert (raw.status, raw.next_offset, raw.max_offset) == (PullStatus.FOUND, 5, 5)
        assert consumer.fetch_consume_offset(queue) is None
        consumer.update_consume_offset(queue, 4)
        assert consumer.fetch_consume_offset(queue) == consumer.committed(queue) == 4
        assert consumer.offset_for_time(queue, result.messages[0].store_time_ms) <= 1
        consumer.send_back(result.messages[0], -1)
        with pytest.raises(OffsetIllegal):
            consumer.pull(queue, -1)


def test_what_can_be_asked_about_topics(address: str, producer: Producer) -> None:
    producer.create_topic("asked", 2)
    while len(queues := _queues(producer, "asked")) != 2:
        pass
    assert producer.subscribe_queues("asked") == queues
    result = producer.send(Message("asked", b"1", keys=["key"]), queue=queues[1])
    assert (producer.min_offset(queues[1]), producer.max_offset(queues[1])) == (0, 1)
    found = producer.view_message("asked", result.message_id)
    assert found is not None and found.body == b"1"
    assert [message.message_id for message in producer.query_messages("asked", "key")] == [result.message_id]
    assert producer.earliest_message_time(queues[1]) == found.store_time_ms
    assert producer.search_offset(queues[1], found.store_time_ms) == 0


def _queues(producer: Producer, topic: str) -> tuple[MessageQueue, ...]:
    try:
        return producer.publish_queues(topic)
    except Exception:  # name servers hear of it a moment later
        return ()


# -- lite pull ---------------------------------------------------------------------------------------------------


def test_polls_give_what_was_pulled(address: str, producer: Producer) -> None:
    send(producer, "polled", 5)
    with LitePullConsumer(address, group="polled", topic="polled", options=FROM_FIRST) as consumer:
        assert consumer.options == FROM_FIRST
        assert numbers(polled(consumer, 5)) == [0, 1, 2, 3, 4]
        assert consumer.poll(0) == []
    producer.send("polled", b"5")
    with LitePullConsumer(address, group="polled", topic="polled", options=FROM_FIRST) as consumer:
        assert numbers([next(consumer)]) == [5]


def test_a_program_that_failed_is_not_done(address: str, producer: Producer) -> None:
    send(producer, "undone", 2)
    failed = LitePullConsumer(address, group="undone", topic="undone", options=FROM_FIRST)
    with pytest.raises(ZeroDivisionError), failed as consumer:
        polled(consumer, 2)
        raise ZeroDivisionError
    with LitePullConsumer(address, group="undone", topic="undone", options=FROM_FIRST) as consumer:
        assert numbers(polled(consumer, 2)) == [0, 1]


def test_assigned_queues_are_sought_paused_and_committed(address: str, producer: Producer) -> None:
    queue = send(producer, "assigned", 5)
    options = LitePullOptions(start_from="first", auto_commit=False)
    with LitePullConsumer(address, group="assigned", options=options) as consumer:
        consumer.assign([queue])
        assert consumer.assignment == {queue}
        assert numbers(polled(consumer, 5)) == [0, 1, 2, 3, 4]
        assert consumer.position(queue) == 5
        assert consumer.committed(queue) is None
        consumer.commit({queue: 3})
        assert consumer.committed(queue) == 3
        consumer.commit()
        assert consumer.committed(queue) == 5
        consumer.seek(queue, 4)
        assert numbers(polled(consumer, 1)) == [4]
        consumer.seek_to_beginning()
        assert numbers(polled(consumer, 5)) == [0, 1, 2, 3, 4]
        consumer.seek_to_time(0, queue)
        assert numbers(polled(consumer, 5)) == [0, 1, 2, 3, 4]
        consumer.seek_to_end(queue)
        consumer.pause(queue)
        assert consumer.paused == {queue}
        producer.send("assigned", b"5", queue=queue)
        assert consumer.poll(0) == []
        consumer.resume(queue)
        assert numbers(polled(consumer, 1)) == [5]
        with pytest.raises(OffsetIllegal):
            consumer.seek(queue, 100)
        with pytest.raises(WrongState):
            consumer.subscribe("assigned")


def test_subscriptions_change_while_it_runs(address: str, producer: Producer) -> None:
    send(producer, "first-topic", 1)
    send(producer, "second-topic", 1)
    with LitePullConsumer(address, group="changed", topic="first-topic", options=FROM_FIRST) as consumer:
        consumer.subscribe("second-topic")
        assert {message.topic for message in polled(consumer, 2)} == {"first-topic", "second-topic"}
        consumer.unsubscribe("second-topic")
        assert {queue.topic for queue in consumer.assignment} == {"first-topic"}


def test_iterating_ends_with_the_consumer(address: str, producer: Producer) -> None:
    send(producer, "iterated", 3)
    got: list[ReceivedMessage] = []
    has_all = threading.Event()

    def iterate() -> None:
        for message in consumer:
            got.append(message)
            if len(got) == 3:
                has_all.set()

    with LitePullConsumer(address, group="iterated", topic="iterated", options=FROM_FIRST) as consumer:
        thread = threading.Thread(target=iterate)
        thread.start()
        has_all.wait()
    thread.join()
    assert numbers(got) == [0, 1, 2]


def test_a_listener_may_call_its_consumer(address: str, producer: Producer) -> None:
    queue = send(producer, "heard", 3)
    told: list[tuple[str, frozenset[MessageQueue]]] = []
    has_heard = threading.Event()

    def listen(topic: str, queues: frozenset[MessageQueue]) -> None:
        told.append((topic, queues))
        consumer.seek(queue, 2)
        has_heard.set()

    consumer = LitePullConsumer(address, group="heard", topic="heard", options=FROM_FIRST, on_rebalance=listen)
    with consumer:
        consumer.on_queues_changed("heard", listen)
        has_heard.wait()
        assert told[0][0] == "heard" and queue in told[0][1]
        while numbers(consumer.poll(60)) != [2]:
            pass


def test_an_interrupted_poll_gives_nothing_away(address: str, producer: Producer) -> None:
    queue = send(producer, "broken", 0)
    with LitePullConsumer(address, group="broken", topic="broken", options=FROM_FIRST) as consumer:
        with interrupted() as is_time:
            is_time.set()
            consumer.poll(3600)
        producer.send("broken", b"1", queue=queue)
        (message,) = polled(consumer, 1)
        consumer._unwanted.extend([message, message, message])  # as if they had been polled for someone interrupted
        assert consumer.poll(0, max_messages=2) == [message, message]
        assert next(consumer) is message
        assert consumer.poll(0) == []


def test_what_was_polled_for_someone_interrupted_is_not_done_at_the_end(address: str, producer: Producer) -> None:
    send(producer, "unseen", 2)
    with LitePullConsumer(address, group="unseen", topic="unseen", options=FROM_FIRST) as consumer:
        consumer._unwanted.extend(polled(consumer, 2))
    with LitePullConsumer(address, group="unseen", topic="unseen", options=FROM_FIRST) as consumer:
        assert numbers(polled(consumer, 2)) == [0, 1]
