"""What streams do when data, queues, topics or brokers go away: the error that is promised, or going on."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from apogeemq.blocking import ClientOptions, Producer, ProducerOptions
from apogeemq.errors import ConfigError, DataLost, NoNameServer, NoRoute, RemoteRefused, RequestTimedOut
from apogeemq.protocol.codes import RequestCode
from tests.peers.process import free_port, wait_for
from tests.spark.conftest import MakeWorld
from tests.spark.direct_reads import Stream, bodies, each_once, numbered, planned_batch, read_batch, read_until
from tests.spark.worlds import APACHES, OURS, World

EARLIEST = {"startingOffsets": "earliest"}
GO_ON = {"failOnDataLoss": "false"}


def delete_topic(world: World, topic: str) -> None:
    """As admin tools do: at the brokers, then at the name server."""
    for number in range(len(world.brokers)):
        world.ask_broker(number, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    world.ask(world.address, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
    wait_for(lambda: not world.queues(topic), f"{topic} is gone")


# -- expired -------------------------------------------------------------------------------------------------

SMALL_FILES = {"mappedFileSizeCommitLog": 256 * 1024, "fileReservedTime": 0}  # one batch of messages in each


def expire(world: World, topic: str) -> dict[str, int]:
    """Files of each log go, as after `fileReservedTime`, but not the last. The new oldest offsets, by broker."""
    if world.kind == OURS:
        for number in range(len(world.brokers)):
            world.ask_broker(number, RequestCode.DELETE_EXPIRED_COMMITLOG)
    else:  # it deletes at its own time, a minute after its start at the earliest
        for broker in world.brokers:
            broker.stop()
            files = sorted(path for path in broker.work_dir.rglob("commitlog/*") if path.name.isdigit())
            for path in files[:2]:
                path.unlink()
        world.heal()

    def oldest() -> dict[str, int]:
        return {queue.broker_name: world.producer.min_offset(queue) for queue in world.queues(topic)}

    wait_for(lambda: len(oldest()) == 2 and all(oldest().values()), "messages have expired", timeout_s=60)
    return oldest()


@pytest.fixture(params=[OURS, APACHES])
def expiring(request: pytest.FixtureRequest, make_world: MakeWorld) -> World:
    return make_world(request.param, SMALL_FILES)


@pytest.mark.timeout(240)
def test_data_that_expires_under_a_stream(expiring: World, caplog: pytest.LogCaptureFixture) -> None:
    topic = expiring.topic(queues=1)
    strict = Stream(expiring, subscribe=topic, **EARLIEST)
    lenient = Stream(expiring, subscribe=topic, **EARLIEST, **GO_ON)
    slow = Stream(expiring, subscribe=topic, **EARLIEST, **GO_ON, maxOffsetsPerTrigger="500")
    sent = [body.ljust(300) for body in numbered(4_000)]
    expiring.fill(topic, sent)
    oldest = expire(expiring, topic)
    ends = {queue.broker_name: end for queue, end in expiring.max_offsets(topic).items()}
    lost = rf"messages 0 to {oldest['broker-a'] - 1} of topic {topic}, broker broker-a, queue 0 are lost"
    with pytest.raises(DataLost, match=f"{lost}: they have expired; the oldest that is left is {oldest['broker-a']}"):
        strict.batch()
    with caplog.at_level(logging.WARNING):
        found = lenient.everything()
    assert lost in caplog.text
    assert "going on without them" in caplog.text
    assert found.total() == sum(ends[broker] - oldest[broker] for broker in ends) > 0
    assert found <= each_once(sent)
    assert lenient.batches == 1, "what has expired is not waded through"
    assert slow.everything() == found
    # Everything is as before for what comes now.
    expiring.fill(topic, numbered(1_000, "new"))
    assert lenient.everything() == each_once(numbered(1_000, "new"))


def test_data_that_expires_between_plan_and_read(make_world: MakeWorld) -> None:
    """A batch that was planned, and is repeated after a restart when its messages are gone."""
    world = make_world(OURS, SMALL_FILES)
    topic = world.topic(queues=1)
    given = {"subscribe": topic, **EARLIEST}
    stream = Stream(world, **given)
    world.fill(topic, [body.ljust(300) for body in numbered(4_000)])
    start = stream.position
    end = stream.reader.latestOffset(start, stream.reader.getDefaultReadLimit())
    planned = stream.reader.partitions(start, end)
    oldest = expire(world, topic)
    with pytest.raises(DataLost, match="they have expired"):
        stream.reader.partitions(start, end)
    with pytest.raises(DataLost, match="they have expired"):
        for partition in planned:
            list(stream.reader.read(partition))
    again = Stream(world, start, **given, **GO_ON)
    rows = sum(batch.num_rows for one in again.reader.partitions(start, end) for batch in again.reader.read(one))
    assert rows == 4_000 - sum(oldest.values())


# -- topics and queues ---------------------------------------------------------------------------------------


def test_a_topic_that_is_deleted(any_world: World) -> None:
    kept, deleted = any_world.topic("kept", queues=1), any_world.topic("deleted", queues=1)
    given = {"subscribe": f"{kept},{deleted}", **EARLIEST}
    strict, lenient = Stream(any_world, **given), Stream(any_world, **given, **GO_ON)
    any_world.fill(deleted, numbered(600))
    for stream in (strict, lenient):
        assert stream.everything().total() == 600
    delete_topic(any_world, deleted)
    any_world.fill(kept, numbered(700, "kept"))
    with pytest.raises(DataLost, match=rf"messages from \d+ on of topic {deleted}, broker broker-\w, queue 0 are lost"):
        strict.batch()
    assert lenient.everything() == each_once(numbered(700, "kept"))
    any_world.fill(kept, numbered(50, "more"))
    assert lenient.everything() == each_once(numbered(50, "more"))


def test_a_topic_that_is_made_anew(any_world: World) -> None:
    """Its queues begin at 0 again: what was read up to is not there, and what is there was never read."""
    topic = any_world.topic(queues=1)
    given = {"subscribe": topic, **EARLIEST}
    strict, lenient = Stream(any_world, **given), Stream(any_world, **given, **GO_ON)
    any_world.fill(topic, numbered(2_000))
    for stream in (strict, lenient):
        assert stream.everything().total() == 2_000
    delete_topic(any_world, topic)
    any_world.create_topic(topic, 1)
    any_world.fill(topic, numbered(600, "new"))
    with pytest.raises(DataLost, match="it was made anew"):
        strict.batch()
    assert lenient.everything() == each_once(numbered(600, "new"))


def test_a_topic_that_is_no_longer_asked_for_is_left_alone(world: World) -> None:
    first, second = world.topic(queues=1), world.topic(queues=1)
    both = Stream(world, subscribe=f"{first},{second}", **EARLIEST)
    world.fill(first, numbered(10))
    world.fill(second, numbered(10, "second"))
    delete_topic(world, second)
    stream = Stream(world, both.position, subscribe=first)
    assert stream.everything() == each_once(numbered(10))


# -- servers -------------------------------------------------------------------------------------------------


def test_a_broker_that_is_gone_for_good(any_world: World) -> None:
    topic = any_world.topic(queues=1)
    given = {"subscribe": topic, **EARLIEST}
    strict, lenient = Stream(any_world, **given), Stream(any_world, **given, **GO_ON)
    any_world.fill(topic, numbered(2_000))
    for stream in (strict, lenient):
        assert stream.everything().total() == 2_000
    any_world.brokers[1].kill()
    wait_for(lambda: len(any_world.queues(topic)) == 1, "the name server knows", timeout_s=30)
    any_world.fill(topic, numbered(100, "left"))
    with pytest.raises(DataLost, match=rf"messages from \d+ on of topic {topic}, broker broker-b, queue 0 are lost"):
        strict.batch()
    assert lenient.everything() == each_once(numbered(100, "left"))
    # It comes back after all, and is read from where it was.
    any_world.heal()
    wait_for(lambda: len(any_world.queues(topic)) == 2, "both brokers are there")
    any_world.fill(topic, numbered(1_000, "back"))
    assert read_until(lenient, 1_000) == each_once(numbered(1_000, "back"))
    assert read_until(strict, 1_100) == each_once(numbered(100, "left") + numbered(1_000, "back"))


def test_all_brokers_are_gone_for_good(world: World) -> None:
    topic = world.topic(queues=1)
    stream = Stream(world, subscribe=topic, **EARLIEST)
    world.fill(topic, numbered(100))
    assert stream.everything() == each_once(numbered(100))
    for broker in world.brokers:
        broker.kill()
    wait_for(lambda: not world.queues(topic), "the name server knows", timeout_s=30)
    with pytest.raises(DataLost, match=rf"messages from \d+ on of topic {topic}, .* no route names the queue any more"):
        stream.batch()
    world.heal()
    world.fill(topic, numbered(100, "back"))
    assert read_until(stream, 100) == each_once(numbered(100, "back"))


def test_a_batch_that_was_planned_is_not_read_without_a_broker_that_is_silent(world: World) -> None:
    """It is in the checkpoint: what its plan leaves out is not read later either."""
    topic = world.topic(queues=1)
    stream = Stream(world, subscribe=topic, **EARLIEST, **GO_ON, retries="1", requestTimeoutMs="300")
    world.fill(topic, numbered(1_000))
    start, end = stream.position, stream.reader.latestOffset(stream.position, ReadAllAvailable())
    os.kill(world.brokers[1].pid, signal.SIGSTOP)
    try:
        with pytest.raises(RequestTimedOut):
            stream.reader.partitions(start, end)
    finally:
        os.kill(world.brokers[1].pid, signal.SIGCONT)
    assert bodies(stream.reader.partitions(start, end), stream.reader) == each_once(numbered(1_000))


def test_a_batch_that_was_planned_goes_on_without_a_broker_that_is_gone(
    any_world: World, caplog: pytest.LogCaptureFixture
) -> None:
    topic = any_world.topic(queues=1)
    given = {"subscribe": topic, **EARLIEST}
    strict, lenient = Stream(any_world, **given), Stream(any_world, **given, **GO_ON)
    any_world.fill(topic, numbered(1_000))
    start, end = lenient.position, lenient.reader.latestOffset(lenient.position, ReadAllAvailable())
    any_world.brokers[1].kill()
    wait_for(lambda: len(any_world.queues(topic)) == 1, "the name server knows", timeout_s=30)
    with pytest.raises(DataLost, match=rf"of topic {topic}, broker broker-b, queue 0 are lost"):
        strict.reader.partitions(start, end)
    left = bodies(lenient.reader.partitions(start, end), lenient.reader)
    assert 0 < left.total() < 1_000
    assert "broker-b, queue 0 are lost" in caplog.text


def test_servers_that_restart_are_waited_for(world: World) -> None:
    topic = world.topic(queues=2)
    stream = Stream(world, subscribe=topic, **EARLIEST, retries="10")
    world.fill(topic, numbered(1_000))
    assert stream.everything().total() == 1_000
    world.restart_broker(0)
    world.fill(topic, numbered(1_000, "second"))
    assert read_until(stream, 1_000) == each_once(numbered(1_000, "second"))
    world.restart_name_server()
    world.fill(topic, numbered(1_000, "third"))
    assert read_until(stream, 1_000) == each_once(numbered(1_000, "third"))


def test_a_name_server_that_is_not_there(world: World) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    with pytest.raises((NoNameServer, NoRoute), match=nobody):
        planned_batch(world, nameServer=nobody, subscribe="any", retries="1", retryDelayMs="1")


def test_an_address_that_is_none(world: World) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        planned_batch(world, nameServer="nowhere", subscribe="any")


# -- accounts ------------------------------------------------------------------------------------------------

ACCOUNT = {"accessKey": "overseer", "secretKey": "overseers-secret"}
GUARDED = {
    "authenticationEnabled": "true",
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "initAuthenticationUser": '{"username":"overseer","password":"overseers-secret"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"overseer","secretKey":"overseers-secret"}',
}


@pytest.fixture
def guarded(make_world: MakeWorld) -> Iterator[tuple[World, str]]:
    """Apache's brokers that look at signatures, with a topic of 500 messages."""
    world = make_world(APACHES, GUARDED)
    topic = world.name("guarded")
    client = ClientOptions(access_key=ACCOUNT["accessKey"], secret_key=ACCOUNT["secretKey"])
    options = ProducerOptions(send_timeout_seconds=20)
    with Producer(world.address, group="overseer", client=client, options=options) as producer:
        producer.create_topic(topic, 1)
        wait_for(lambda: len(world.queues(topic)) == 2, f"{topic} is there")
        for body in numbered(50):
            producer.send(topic, body)
    yield world, topic


@pytest.mark.timeout(240)
def test_accounts(guarded: tuple[World, str]) -> None:
    world, topic = guarded
    assert read_batch(world, subscribe=topic, **ACCOUNT) == each_once(numbered(50))
    wrong = {**ACCOUNT, "secretKey": "guess"}
    for given in (wrong, {**ACCOUNT, "accessKey": "stranger"}, {}):
        with pytest.raises(RemoteRefused) as refused:
            planned_batch(world, subscribe=topic, **given)
        assert "guess" not in str(refused.value)
    with pytest.raises(RemoteRefused):
        Stream(world, subscribe=topic, **EARLIEST, **wrong)
