"""What a producer does about brokers that refuse, are slow, or are gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.client import ClientOptions, Message, Producer, ProducerOptions, SendStatus, route_cache
from apogeemq.errors import NoRoute, RemoteRefused, RouteCause, SendFailed
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from tests.unit.client.cluster import Cluster, cluster, eventually
from tests.unit.client.producing.tampering import hold_sends, refuse_sends
from tests.unit.event_loop import in_loop
from tests.unit.transport.live import serving as serving_anything

STORED_SOMEHOW = {"msgId": "7F0000010000000000000000000000FF", "queueId": "0", "queueOffset": "7"}


@in_loop
async def test_another_broker_is_tried_when_one_refuses_for_now(tmp_path: Path) -> None:
    async with cluster(tmp_path, "broker-a", "broker-b") as it, Producer(it.address, group="P") as producer:
        for name in it.brokers:
            await it.make_topic("T", 2, name)
        tried = refuse_sends(it, "broker-a", ResponseCode.SYSTEM_BUSY)
        results = [await producer.send("T", b"%d" % number) for number in range(8)]
        assert {result.queue.broker_name for result in results} == {"broker-b"}
        assert tried  # it had its turn


@in_loop
async def test_another_broker_is_tried_when_one_is_gone(tmp_path: Path) -> None:
    async with cluster(tmp_path, "broker-a") as it:
        leaving = await it.add_broker("broker-b")
        async with Producer(it.address, group="P", client=ClientOptions(watches_routes=False)) as producer:
            for name in it.brokers:
                await it.make_topic("T", 2, name)
            assert len(await producer.queues("T")) == 4
            await leaving.aclose()  # the producer's route still names it
            results = [await producer.send("T", b"x") for _ in range(4)]
            assert {result.queue.broker_name for result in results} == {"broker-a"}


@in_loop
async def test_a_failing_broker_is_left_alone(tmp_path: Path) -> None:
    options = ProducerOptions(avoids_slow_brokers=True)
    async with (
        cluster(tmp_path, "broker-a", "broker-b") as it,
        Producer(it.address, group="P", options=options) as producer,
    ):
        for name in it.brokers:
            await it.make_topic("T", 4, name)
        tried = refuse_sends(it, "broker-a", ResponseCode.SYSTEM_BUSY)
        for _ in range(16):
            await producer.send("T", b"x")
        assert len(tried) == 1


@in_loop
async def test_every_attempt_is_told_when_none_succeeded(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 2)
        tried = refuse_sends(it, "broker-a", ResponseCode.SYSTEM_BUSY, "too busy")
        with pytest.raises(SendFailed, match=r"3 attempts.*too busy") as caught:
            await producer.send("T", b"x")
        assert caught.value.retriable
        assert len(caught.value.attempts) == len(tried) == 3
        assert len(set(tried)) == 1  # the same message with the same unique id


@in_loop
async def test_what_cannot_succeed_elsewhere_is_not_tried_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 2)
        tried = refuse_sends(it, "broker-a", ResponseCode.MESSAGE_ILLEGAL)
        with pytest.raises(RemoteRefused) as caught:
            await producer.send("T", b"x")
        assert (caught.value.code, len(tried)) == (ResponseCode.MESSAGE_ILLEGAL, 1)


@in_loop
async def test_a_chosen_queue_is_tried_once(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 2)
        tried = refuse_sends(it, "broker-a", ResponseCode.SYSTEM_BUSY)
        with pytest.raises(RemoteRefused):
            await producer.send("T", b"x", queue=it.queue("T"))
        with pytest.raises(RemoteRefused):
            await producer.send("T", b"x", sharding_key="k")
        assert len(tried) == 2
        with pytest.raises(NoRoute, match="nowhere has no master"):
            await producer.send("T", b"x", queue=it.queue("T", broker="nowhere"))


@in_loop
async def test_a_chosen_queue_may_be_of_a_newer_route(tmp_path: Path) -> None:
    client = ClientOptions(watches_routes=False)
    async with cluster(tmp_path) as it, Producer(it.address, group="P", client=client) as producer:
        await it.make_topic("T", 1)
        await producer.send("T", b"x")
        for name in ("broker-b", "broker-c"):
            await it.add_broker(name)
            await it.make_topic("T", 1, name)
            chosen = it.queue("T", broker=name)
            if name == "broker-b":
                assert (await producer.send("T", b"x", queue=chosen)).queue == chosen
            else:
                await producer.send_one_way(Message("T", b"x"), queue=chosen)
                while await producer.max_offset(chosen) == 0:
                    await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("code", "is_tried_elsewhere"),
    [
        (ResponseCode.SYSTEM_ERROR, True),
        (ResponseCode.SYSTEM_BUSY, True),
        (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, False),
        (ResponseCode.MESSAGE_ILLEGAL, False),
        (ResponseCode.SERVICE_NOT_AVAILABLE, True),
        (ResponseCode.VERSION_NOT_SUPPORTED, False),
        (ResponseCode.NO_PERMISSION, True),
        (ResponseCode.TOPIC_NOT_EXIST, True),
        (ResponseCode.NO_BUYER_ID, True),
        (ResponseCode.NOT_IN_CURRENT_UNIT, True),
        (ResponseCode.GO_AWAY, True),
    ],
)
def test_codes_after_which_another_broker_is_tried(tmp_path: Path, code: int, is_tried_elsewhere: bool) -> None:
    @in_loop
    async def run() -> None:
        async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
            await it.make_topic("T", 1)
            tried = refuse_sends(it, "broker-a", code)
            with pytest.raises(SendFailed if is_tried_elsewhere else RemoteRefused):
                await producer.send("T", b"x")
            is_asked_twice_over = code == ResponseCode.GO_AWAY  # once more over a new connection
            assert len(tried) == ((6 if is_asked_twice_over else 3) if is_tried_elsewhere else 1)

    run()


@in_loop
async def test_the_codes_may_be_others(tmp_path: Path) -> None:
    options = ProducerOptions(retry_codes=frozenset({ResponseCode.MESSAGE_ILLEGAL}), retries=1)
    async with cluster(tmp_path) as it, Producer(it.address, group="P", options=options) as producer:
        await it.make_topic("T", 1)
        tried = refuse_sends(it, "broker-a", ResponseCode.MESSAGE_ILLEGAL)
        with pytest.raises(SendFailed):
            await producer.send("T", b"x")
        assert len(tried) == 2
        tried = refuse_sends(it, "broker-a", ResponseCode.SYSTEM_BUSY)
        with pytest.raises(RemoteRefused):
            await producer.send("T", b"x")
        assert len(tried) == 1


# -- stored, but not as it should be -------------------------------------------------------------------------


def test_what_is_stored_somehow_is_stored(tmp_path: Path) -> None:
    @in_loop
    async def run(options: ProducerOptions, attempts: int) -> None:
        folder = tmp_path / str(attempts)
        async with cluster(folder) as it, Producer(it.address, group="P", options=options) as producer:
            await it.make_topic("T", 1)
            tried = refuse_sends(it, "broker-a", ResponseCode.FLUSH_DISK_TIMEOUT, **STORED_SOMEHOW)
            result = await producer.send("T", b"x")
            assert (result.status, result.queue_offset) == (SendStatus.FLUSH_DISK_TIMEOUT, 7)
            assert len(tried) == attempts

    run(ProducerOptions(), 1)
    run(ProducerOptions(retries_when_not_ok=True), 3)


@in_loop
async def test_another_broker_may_promise_more(tmp_path: Path) -> None:
    options = ProducerOptions(retries_when_not_ok=True)
    async with (
        cluster(tmp_path, "broker-a", "broker-b") as it,
        Producer(it.address, group="P", options=options) as producer,
    ):
        for name in it.brokers:
            await it.make_topic("T", 1, name)
        tried = refuse_sends(it, "broker-a", ResponseCode.SLAVE_NOT_AVAILABLE, **STORED_SOMEHOW)
        results = [await producer.send("T", b"x") for _ in range(4)]
        assert {result.status for result in results} == {SendStatus.SEND_OK}
        assert tried
        refuse_sends(it, "broker-b", ResponseCode.MESSAGE_ILLEGAL)  # what one has stored is not lost by another's no
        results = [await producer.send("T", b"x", timeout_seconds=5) for _ in range(1)]
        assert results[0].status is SendStatus.SLAVE_NOT_AVAILABLE


# -- slow ones -----------------------------------------------------------------------------------------------


@in_loop
async def test_of_two_that_are_left_alone_the_one_that_did_not_just_fail_is_tried(tmp_path: Path) -> None:
    options = ProducerOptions(avoids_slow_brokers=True, retries=1)
    async with (
        cluster(tmp_path, "broker-a", "broker-b") as it,
        Producer(it.address, group="P", options=options) as producer,
    ):
        for name in it.brokers:
            await it.make_topic("T", 4, name)
        tried = {name: refuse_sends(it, name, ResponseCode.SYSTEM_BUSY) for name in it.brokers}
        for _ in range(6):
            with pytest.raises(SendFailed):
                await producer.send("T", b"x")
        assert sum(map(len, tried.values())) == 12
        assert producer._faults.unreachable() == set(it.brokers)


@in_loop
async def test_a_refusal_counts_against_a_broker_also_when_it_is_final(tmp_path: Path) -> None:
    options = ProducerOptions(avoids_slow_brokers=True)
    async with cluster(tmp_path) as it, Producer(it.address, group="P", options=options) as producer:
        await it.make_topic("T", 1)
        refuse_sends(it, "broker-a", ResponseCode.MESSAGE_ILLEGAL)
        with pytest.raises(RemoteRefused):
            await producer.send("T", b"x")
        assert producer._faults.unreachable() == {"broker-a"}


# -- routes and time -----------------------------------------------------------------------------------------


def routes_asked_of(where: Cluster) -> list[str]:
    asked: list[str] = []

    def note(channel: Channel, command: Command) -> None:
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            asked.append(command.fields()["topic"])

    where.name_server.dispatcher.before.append(note)
    return asked


@in_loop
async def test_the_route_is_asked_for_at_once_after_a_failure(tmp_path: Path) -> None:
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        await it.make_topic("U", 1)
        for topic in ("T", "U"):
            await producer.send(topic, b"x")
        asked = routes_asked_of(it)
        refuse_sends(it, "broker-a", ResponseCode.TOPIC_NOT_EXIST)
        with pytest.raises(SendFailed):
            await producer.send("T", b"x")
        with pytest.raises(RemoteRefused):
            await producer.send("U", b"x", queue=it.queue("U"))
        await eventually(lambda: set(asked) == {"T", "U"})


@in_loop
async def test_many_failures_are_no_flood_of_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_cache, "_SUSPECT_SECONDS", 3600.0)
    async with cluster(tmp_path) as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        await producer.send("T", b"x")
        asked = routes_asked_of(it)
        refuse_sends(it, "broker-a", ResponseCode.SYSTEM_BUSY)
        for _ in range(5):
            with pytest.raises(SendFailed):
                await producer.send("T", b"x")
        assert asked == ["T"]


@in_loop
async def test_a_silent_name_server_takes_no_longer_than_the_send_may() -> None:
    def silent(channel: Channel, command: Command) -> asyncio.Future[bytes]:
        return asyncio.get_running_loop().create_future()

    async with serving_anything({RequestCode.GET_ROUTEINFO_BY_TOPIC: silent}) as names:
        address = names.address
        client = ClientOptions(watches_routes=False)
        async with Producer(address, group="P", client=client) as producer:
            for send in (producer.send("T", b"x", timeout_seconds=0.05), one_way(producer)):
                with pytest.raises(NoRoute, match=rf"in the time of the send: {address} \(no answer yet\)") as caught:
                    await send
                assert caught.value.cause is RouteCause.NO_NAME_SERVER


async def one_way(producer: Producer) -> None:
    producer.options = ProducerOptions(send_timeout_seconds=0.05)
    await producer.send_one_way(Message("T", b"x"))


@in_loop
async def test_the_time_is_for_all_attempts(tmp_path: Path) -> None:
    async with cluster(tmp_path, "broker-a", "broker-b") as it, Producer(it.address, group="P") as producer:
        await it.make_topic("T", 1)
        await producer.queues("T")
        held = hold_sends(it)
        with pytest.raises(SendFailed, match="in 1 attempts"):
            await producer.send("T", b"x", timeout_seconds=0.05)
        for answer in held:
            answer.cancel()


@in_loop
async def test_one_attempt_may_be_given_less_so_that_another_follows(tmp_path: Path) -> None:
    options = ProducerOptions(attempt_timeout_seconds=0.05, send_timeout_seconds=30)
    async with (
        cluster(tmp_path, "broker-a", "broker-b") as it,
        Producer(it.address, group="P", options=options) as producer,
    ):
        for name in it.brokers:
            await it.make_topic("T", 1, name)
        await producer.queues("T")
        held = hold_sends(it)
        results = [await producer.send("T", b"x") for _ in range(2)]
        results += [await (await producer.send_soon(Message("T", b"x"))) for _ in range(2)]
        assert {result.queue.broker_name for result in results} == {"broker-b"}
        assert held
        for answer in held:
            answer.cancel()
