"""What a task does in its own thread, with servers that are processes of their own."""

from __future__ import annotations

import itertools
import multiprocessing
from collections import Counter
from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from apogeemq.blocking import PullConsumer, PullOptions, ReceivedMessage
from apogeemq.errors import ConfigError, MessageIllegal, SendFailed
from apogeemq.spark.sink.producers import producer_of
from apogeemq.spark.sink.write_options import WriteOptions, read_write_options
from apogeemq.spark.sink.writer import RocketMQArrowWriter, RocketMQStreamArrowWriter, TaskWritten
from tests.our_servers import our_servers

SCHEMA = StructType([StructField("body", BinaryType())])
numbers = itertools.count()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with our_servers(tmp_path_factory.mktemp("servers")) as found:
        yield found


def settings(address: str, **options: str) -> dict[str, str]:
    return {"nameServer": address, "topic": f"T{next(numbers)}", "sendTimeoutMs": "20000", **options}


def options_of(address: str, **options: str) -> WriteOptions:
    return read_write_options(settings(address, **options))


def batches(*bodies: bytes, size: int = 3) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(bodies), size):
        yield pa.RecordBatch.from_pydict({"body": pa.array(bodies[at : at + size], pa.binary())})


def messages_in(address: str, topic: str) -> list[ReceivedMessage]:
    options = PullOptions(joins_group=False)
    with PullConsumer(address, f"reads-{topic}", options=options) as consumer:
        return [message for queue in consumer.fetch_queues(topic) for message in consumer.pull(queue, 0, 1000).messages]


@pytest.mark.parametrize("kind", [RocketMQArrowWriter, RocketMQStreamArrowWriter])
def test_a_task_commits_what_brokers_have(
    address: str, kind: type[RocketMQArrowWriter | RocketMQStreamArrowWriter]
) -> None:
    given = settings(address)
    bodies = [b"%d" % number for number in range(20)]
    written = kind(given, SCHEMA, False).write(batches(*bodies))
    assert isinstance(written, TaskWritten)
    assert (written.written.rows, written.written.requests) == (20, 7)
    assert Counter(message.body for message in messages_in(address, given["topic"])) == Counter(bodies)


def test_a_task_without_rows_sends_nothing(address: str) -> None:
    written = RocketMQArrowWriter(settings(address), SCHEMA, False).write(iter(()))
    assert isinstance(written, TaskWritten)
    assert written.written == (0, 0)


def test_a_row_that_cannot_be_a_message_fails_the_task(address: str) -> None:
    with pytest.raises(MessageIllegal, match="1 rows have no body"):
        RocketMQArrowWriter(settings(address), SCHEMA, False).write(batches(b"one", b""))


def test_where_nobody_answers_the_task_fails() -> None:
    given = {"nameServer": "127.0.0.1:1", "topic": "T", "retries": "1", "retryDelayMs": "1", "sendTimeoutMs": "500"}
    with pytest.raises(SendFailed, match=r"1 messages to T were not taken in 2 attempts; .* no name server answered"):
        RocketMQArrowWriter(given, SCHEMA, False).write(batches(b"one"))


def test_topics_are_not_overwritten(address: str) -> None:
    for kind in (RocketMQArrowWriter, RocketMQStreamArrowWriter):
        with pytest.raises(ConfigError, match="a topic only grows"):
            kind(settings(address), SCHEMA, True)


def test_an_id_of_the_query_alone_is_no_id(address: str) -> None:
    with pytest.raises(ConfigError, match="queryId is part of ids and needs idColumns"):
        RocketMQArrowWriter(settings(address, queryId="q"), SCHEMA, False)


# -- producers -----------------------------------------------------------------------------------------------


def test_tasks_of_a_process_share_a_producer(address: str) -> None:
    first = options_of(address)
    assert producer_of(first) is producer_of(options_of(address))
    # Others of the same group live beside it.
    assert producer_of(msgspec.structs.replace(first, topic_queues=7)) is not producer_of(first)
    assert producer_of(msgspec.structs.replace(first, producer_group="other")) is not producer_of(first)


def test_a_forked_worker_has_producers_of_its_own(address: str) -> None:
    given = settings(address)
    RocketMQArrowWriter(given, SCHEMA, False).write(batches(b"of the parent"))
    child = multiprocessing.get_context("fork").Process(target=_write_in_child, args=(given,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert {message.body for message in messages_in(address, given["topic"])} == {b"of the parent", b"of the child"}


def _write_in_child(given: dict[str, str]) -> None:
    RocketMQArrowWriter(given, SCHEMA, False).write(batches(b"of the child"))
