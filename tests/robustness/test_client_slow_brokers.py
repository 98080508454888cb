"""Brokers that answer late, never, or take nothing: callers are told in time, and no answer goes to the wrong one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apogeemq.client import Message, SendResult
from apogeemq.errors import ApogeeError, ConnectFailed, RequestTimedOut, SendFailed
from apogeemq.model.ids import parse_offset_id
from apogeemq.model.queues import MessageQueue
from tests.robustness.faulty_cluster import HANG_SECONDS, PATIENCE_SECONDS, Faulty, faulty, soon
from tests.unit.event_loop import in_loop

QUEUE = MessageQueue("broker-a", 0, "T")


def body_at(at: Faulty, result: SendResult) -> bytes:
    """What the broker holds where it says that it put a message."""
    record = at.real.state.store.log.record_at(parse_offset_id(result.offset_id).physical_offset)
    assert record is not None
    return bytes(record.body)


# -- late ----------------------------------------------------------------------------------------------------


@in_loop
async def test_late_answers_go_to_nobody(tmp_path: Path) -> None:
    """Over the same connection the answers to earlier, given up requests come first."""
    async with faulty(tmp_path) as at, at.producer() as producer:
        await producer.send("T", b"first", queue=QUEUE)
        connections = at.broker.connection_count
        for number in range(20):
            at.broker.answers.hold()
            late = [producer.send("T", b"late", queue=QUEUE, timeout_seconds=0.02) for _ in range(3)]
            assert {type(error) for error in await asyncio.gather(*late, return_exceptions=True)} == {RequestTimedOut}
            waiting = [
                asyncio.ensure_future(producer.send("T", b"%d-%d" % (number, index), queue=QUEUE)) for index in range(3)
            ]
            await soon(lambda: at.real.state.store.queue("T", 0).max_offset == 1 + 6 * (number + 1))  # noqa: B023
            at.broker.answers.let_go()
            for index, result in enumerate(await asyncio.gather(*waiting)):
                assert body_at(at, result) == b"%d-%d" % (number, index)
        assert at.broker.connection_count == connections


@in_loop
async def test_a_broker_that_is_always_too_late(tmp_path: Path) -> None:
    """Every message is stored, though none is acknowledged; an error says so by its kind."""
    async with faulty(tmp_path) as at, at.producer(send_timeout_seconds=0.05) as producer:
        await producer.send("T", b"first", timeout_seconds=PATIENCE_SECONDS)
        at.broker.answers.delay_seconds = 0.2
        for number in range(3):
            with pytest.raises(SendFailed, match=r"did not answer code 310 in 0\.0") as failure:
                await producer.send("T", b"%d" % number)
            assert failure.value.retriable
        at.broker.answers.delay_seconds = 0.0
        async with asyncio.timeout(HANG_SECONDS):
            while not await sent(producer.send("T", b"last")):
                pass
        assert {b"first", b"0", b"1", b"2", b"last"} == {body for _, body in at.stored()}


@in_loop
async def test_dropped_answers(tmp_path: Path) -> None:
    async with faulty(tmp_path) as at, at.producer() as producer:
        await producer.send("T", b"first")
        at.broker.answers.drops = True
        with pytest.raises(RequestTimedOut):
            await producer.send("T", b"unheard", queue=QUEUE, timeout_seconds=0.05)
        at.broker.answers.drops = False
        assert body_at(at, await producer.send("T", b"heard", queue=QUEUE)) == b"heard"
        assert {body: times for (_, body), times in at.stored().items()} == {b"first": 1, b"unheard": 1, b"heard": 1}


async def sent(sending: object) -> bool:
    try:
        await sending  # type: ignore[misc]
    except ApogeeError:
        return False
    return True


# -- never ---------------------------------------------------------------------------------------------------


@in_loop
async def test_a_stalled_broker_is_not_asked_twice_over_one_connection(tmp_path: Path) -> None:
    """No answer to anyone for a second: the connection is given up, for what is behind it may be gone."""
    async with faulty(tmp_path) as at, at.producer() as producer:
        await producer.send("T", b"first")
        at.broker.requests.hold()
        with pytest.raises(RequestTimedOut):
            await producer.send("T", b"stalled", queue=QUEUE, timeout_seconds=1.2)
        at.broker.requests.let_go()
        assert body_at(at, await producer.send("T", b"next", queue=QUEUE)) == b"next"
        assert at.broker.connection_count == 2


@in_loop
async def test_slow_brokers_are_avoided_by_those_who_want_it(tmp_path: Path) -> None:
    async with (
        faulty(tmp_path, "broker-a", "broker-b") as at,
        at.producer(send_timeout_seconds=1.0, avoids_slow_brokers=True) as producer,
    ):
        for number in range(4):
            await producer.send("T", b"%d" % number)
        at.broker.requests.hold()
        results = [await sent(producer.send("T", b"x")) for _ in range(20)]
        assert sum(not result for result in results) == 1  # the one that found out
        at.broker.requests.let_go()


@in_loop
async def test_a_consumer_of_a_stalled_broker_goes_on_when_it_answers_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        faulty(tmp_path) as at,
        at.consumer(suspend_ms=100, pull_timeout_seconds=0.3) as consumer,
        at.producer() as producer,
    ):
        await producer.send("T", b"before")
        message = await anext(consumer)
        await message.ack()
        at.broker.requests.hold()
        await soon(lambda: "cannot be pulled at the moment" in caplog.text)
        at.broker.requests.let_go()
        await producer.send("T", b"after")
        async with asyncio.timeout(HANG_SECONDS):
            assert (await anext(consumer)).body == b"after"


# -- too much on its way -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_refused", [False, True], ids=["stalled", "refused"])
@pytest.mark.parametrize("linger_seconds", [0.0, 0.01], ids=["single", "batched"])
def test_a_full_window_before_a_dead_broker(tmp_path: Path, is_refused: bool, linger_seconds: float) -> None:
    """Who wants to send more waits; all that were let in get their errors, those who waited their turn."""

    async def run() -> None:
        async with (
            faulty(tmp_path) as at,
            at.producer(max_in_flight=10, send_timeout_seconds=0.3, linger_seconds=linger_seconds) as producer,
        ):
            await producer.send("T", b"first", timeout_seconds=PATIENCE_SECONDS)
            if is_refused:
                at.broker.refuse()
                at.broker.cut_all()
            else:
                at.broker.requests.hold()
            most = 0
            futures = []
            async with asyncio.timeout(HANG_SECONDS):
                for number in range(35):
                    futures.append(await producer.send_soon(Message("T", b"%d" % number)))
                    most = max(most, producer._window.count)
                results = await asyncio.gather(*futures, return_exceptions=True)
            assert {type(result) for result in results} <= {SendFailed, RequestTimedOut, ConnectFailed}
            assert most == 10
            assert (producer._window.count, producer._window.size) == (0, 0)
            at.broker.requests.let_go()
            await at.broker.accept()
            async with asyncio.timeout(HANG_SECONDS):
                result = await producer.send("T", b"alive", timeout_seconds=PATIENCE_SECONDS)
                assert body_at(at, result) == b"alive"

    asyncio.run(run())


@in_loop
async def test_a_producer_ends_though_its_window_is_full_and_its_broker_dead(tmp_path: Path) -> None:
    async with faulty(tmp_path) as at:
        producer = at.producer(max_in_flight=5, send_timeout_seconds=0.3)
        await producer.start()
        await producer.send("T", b"first", timeout_seconds=PATIENCE_SECONDS)
        at.broker.requests.hold()
        waiting = [asyncio.ensure_future(producer.send_soon(Message("T", b"x"))) for _ in range(12)]
        await asyncio.sleep(0)
        async with asyncio.timeout(HANG_SECONDS):
            await producer.stop()
            for ended in await asyncio.gather(*waiting, return_exceptions=True):
                if isinstance(ended, BaseException):
                    assert isinstance(ended, ApogeeError)
                else:
                    assert isinstance((await asyncio.gather(ended, return_exceptions=True))[0], BaseException)
        at.broker.requests.let_go()
