"""The connection is cut at every byte of an exchange: the caller hears of it at once, and the next call works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from apogeemq.client import ClientOptions, Message, Producer
from apogeemq.client.instance import ClientInstance
from apogeemq.errors import ApogeeError, ConnectionLost, NoRoute
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol.bodies.heartbeat import Heartbeat
from apogeemq.protocol.headers.broker import PULL_SUBSCRIBES, PullMessage
from apogeemq.testing.fault_proxy import FaultProxy, Flow, How
from tests.robustness.faulty_cluster import HANG_SECONDS, IS_SOAK, Faulty, endings, faulty, soon
from tests.unit.event_loop import in_loop

QUEUE = MessageQueue("broker-a", 0, "T")
FILLED = 1000 if IS_SOAK else 100


class Client(NamedTuple):
    """A client whose connections are up."""

    at: Faulty
    producer: Producer
    instance: ClientInstance

    @property
    def broker(self) -> str:
        return self.at.real.broker_address


Exchange = Callable[[Client], Awaitable[object]]


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[Client]:
    async with faulty(folder) as at:
        options: ClientOptions = at.options()
        async with at.producer(client=options) as producer:
            yield Client(at, producer, at.instance(options))


async def outcome(exchange: Awaitable[object]) -> ApogeeError | None:
    """How it ended, which is soon. TimeoutError when it hangs."""
    async with asyncio.timeout(HANG_SECONDS):
        try:
            await exchange
        except ApogeeError as error:
            return error
    return None


async def fill(producer: Producer, queues: int = 1) -> int:
    """So many messages that the numbers in answers have equally many digits from now on, and answers one size."""
    for queue_id in range(queues):
        await asyncio.gather(
            *(producer.send("T", b"x", queue=MessageQueue("broker-a", queue_id, "T")) for _ in range(FILLED))
        )
    return FILLED * queues


async def sizes(client: Client, proxy: FaultProxy, exchange: Exchange) -> tuple[int, int]:
    """Bytes of the request and of the answer, over a connection that has been used once before."""
    assert await outcome(exchange(client)) is None
    await until_quiet(client.instance)
    before = proxy.requests.passed, proxy.answers.passed
    assert await outcome(exchange(client)) is None
    return proxy.requests.passed - before[0], proxy.answers.passed - before[1]


async def until_quiet(instance: ClientInstance) -> None:
    """No heartbeat over a new connection is on its way: its bytes would count."""
    await soon(lambda: not instance._being_told)


async def cut_once(client: Client, flow: Flow, count: int, how: How, exchange: Exchange) -> ApogeeError | None:
    await until_quiet(client.instance)
    flow.cut_after(count, how)
    error = await outcome(exchange(client))
    await soon(lambda: not flow.is_armed)
    return error


async def until_noticed(client: Client, proxy: FaultProxy) -> None:
    """The client knows that its connection is gone: what it sends before that may be lost with it."""
    await soon(lambda: proxy.address not in client.instance.pool.channels)


# -- exchanges of one request and one answer -----------------------------------------------------------------


def pull(client: Client) -> Awaitable[object]:
    header = PullMessage("G", "T", 0, 0, 32, PULL_SUBSCRIBES, subscription="*")
    return client.instance.calls.pull(client.broker, header, 5.0)


def commit(client: Client) -> Awaitable[object]:
    return client.instance.calls.update_offset_and_wait(client.broker, "G", QUEUE, 1)


def heartbeat(client: Client) -> Awaitable[object]:
    return client.instance.calls.heartbeat(client.broker, Heartbeat(client.instance.client_id, ["P"], []))


def ask_route(client: Client) -> Awaitable[object]:
    return client.instance.routes.refresh("T")


@pytest.mark.parametrize("exchange", [pull, commit, heartbeat])
def test_cut_at_every_byte(tmp_path: Path, exchange: Exchange) -> None:
    async def run() -> None:
        async with connected(tmp_path) as client:
            await client.producer.send("T", b"something to pull")
            proxy = client.at.broker
            request, answer = await sizes(client, proxy, exchange)
            for count, how in endings(request):
                error = await cut_once(client, proxy.requests, count, how, exchange)
                assert isinstance(error, ConnectionLost), (count, how, error)
                assert error.retriable
                assert await outcome(exchange(client)) is None, (count, how)
            for count, how in endings(answer):
                error = await cut_once(client, proxy.answers, count, how, exchange)
                if count < answer:
                    assert isinstance(error, ConnectionLost), (count, how, error)
                else:  # all is well, but for the connection
                    assert error is None
                    await until_noticed(client, proxy)
                assert await outcome(exchange(client)) is None, (count, how)

    asyncio.run(run())


@in_loop
async def test_a_route_question_cut_at_every_byte(tmp_path: Path) -> None:
    """It is asked once more, over another connection; who is cut off there, too, is told."""
    async with connected(tmp_path) as client:
        await client.producer.send("T", b"x")
        names = client.at.names
        request, answer = await sizes(client, names, ask_route)
        for flow, size in ((names.requests, request), (names.answers, answer)):
            for count, how in endings(size):
                assert await cut_once(client, flow, count, how, ask_route) is None, (count, how)
                if flow is names.answers and count == answer:  # all is well, but for the connection
                    await until_noticed(client, names)
                    continue
                flow.cut_after(count, how, is_lasting=True)
                error = await outcome(ask_route(client))
                flow.disarm()
                assert isinstance(error, NoRoute), (count, how, error)
                assert error.retriable
                await until_noticed(client, names)
                assert await outcome(ask_route(client)) is None, (count, how)


# -- sends ---------------------------------------------------------------------------------------------------


def one_attempt(client: Client) -> Awaitable[object]:
    return client.producer.send("T", b"body", tags="a", queue=QUEUE)


@in_loop
async def test_one_attempt_cut_at_every_byte_of_the_request(tmp_path: Path) -> None:
    """What the broker has not got whole it does not store; what it has, it stores once."""
    async with connected(tmp_path) as client:
        request, _ = await sizes(client, client.at.broker, one_attempt)
        expected = 2
        for count, how in endings(request):
            error = await cut_once(client, client.at.broker.requests, count, how, one_attempt)
            assert isinstance(error, ConnectionLost), (count, how, error)
            assert await outcome(one_attempt(client)) is None
            expected += 1 + (count == request)
            await soon(lambda: client.at.stored().total() >= expected)  # noqa: B023
            assert client.at.real.state.store.queue("T", 0).max_offset == expected, (count, how)
        assert set(client.at.stored().values()) == {1}


@in_loop
async def test_one_attempt_cut_at_every_byte_of_the_answer(tmp_path: Path) -> None:
    """The broker has it, though nobody said so: an error is no proof that a message was not stored."""
    async with connected(tmp_path) as client:
        filled = await fill(client.producer)
        client.at.broker.cut_all()  # so that the numbers of requests begin anew, as after every cut
        await until_noticed(client, client.at.broker)
        _, answer = await sizes(client, client.at.broker, one_attempt)
        for number, (count, how) in enumerate(endings(answer)):
            error = await cut_once(client, client.at.broker.answers, count, how, one_attempt)
            if count < answer:
                assert isinstance(error, ConnectionLost), (count, how, error)
            else:
                assert error is None
                await until_noticed(client, client.at.broker)
            assert await outcome(one_attempt(client)) is None
            assert client.at.real.state.store.queue("T", 0).max_offset == filled + 2 * (number + 2)
        assert set(client.at.stored().values()) == {1}


@pytest.mark.parametrize("direction", ["requests", "answers"])
def test_a_send_ends_well_wherever_one_of_its_attempts_is_cut(tmp_path: Path, direction: str) -> None:
    """Stored once for each attempt that arrived, always under the one unique id it was acknowledged with."""

    async def run() -> None:
        async with faulty(tmp_path, queues=2) as at, at.producer() as producer:
            flow: Flow = getattr(at.broker, direction)
            filled = await fill(producer, 2)
            at.broker.cut_all()  # so that the numbers of requests begin anew, as after every cut
            await producer.send("T", b"first")
            await until_quiet(producer._running)
            before = flow.passed
            await producer.send("T", b"second")
            size = flow.passed - before
            acknowledged = {}
            # After a whole answer the next send would be the one that suffers.
            for number, (count, how) in enumerate(endings(size if direction == "requests" else size - 1)):
                await until_quiet(producer._running)
                flow.cut_after(count, how)
                async with asyncio.timeout(HANG_SECONDS):
                    result = await producer.send("T", b"%06d" % number)
                await soon(lambda: not flow.is_armed)
                acknowledged[result.message_id] = (b"%06d" % number, count)
            stored = at.stored()
            assert len(stored) == len(acknowledged) + filled + 2
            for unique_id, (body, count) in acknowledged.items():
                times = 2 if count == size or direction == "answers" else 1
                assert stored[unique_id, body] == times, (count, size)

    asyncio.run(run())


@pytest.mark.parametrize("direction", ["requests", "answers"])
def test_no_more_copies_than_attempts_when_every_connection_is_cut(tmp_path: Path, direction: str) -> None:
    async def run() -> None:
        async with faulty(tmp_path) as at, at.producer(retries=2) as producer:
            flow: Flow = getattr(at.broker, direction)
            await producer.send("T", b"first")
            for count in (0, 4, 40):
                flow.cut_after(count, is_lasting=True)
                error = await outcome(producer.send("T", b"%d" % count))
                assert error is not None
                assert "was not taken in 3 attempts" in str(error)
                assert error.retriable
                flow.disarm()
                await producer.send("T", b"next")
            copies = {body: times for (_, body), times in at.stored().items() if body in (b"0", b"4", b"40")}
            assert copies == ({} if direction == "requests" else {b"0": 3, b"4": 3, b"40": 3})

    asyncio.run(run())


@in_loop
async def test_batches_that_are_cut_are_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    async with faulty(tmp_path) as at, at.producer(linger_seconds=0.001) as producer:
        await producer.send("T", b"first")
        acknowledged: set[tuple[str, bytes]] = set()
        for batch, (count, how) in enumerate(endings(60)):
            flow = at.broker.requests if count % 4 < 2 else at.broker.answers
            flow.cut_after(count * (12 if flow is at.broker.requests else 3), how)
            bodies = [b"%d-%d" % (batch, number) for number in range(5)]
            async with asyncio.timeout(HANG_SECONDS):
                results = await asyncio.gather(*[await producer.send_soon(Message("T", body)) for body in bodies])
            acknowledged |= {(result.message_id, body) for result, body in zip(results, bodies, strict=True)}
            flow.disarm()
        stored = at.stored()
        assert acknowledged <= set(stored)
        assert len(stored) == len(acknowledged) + 1
        for batch in range(len(endings(60))):
            copies = [times for (_, body), times in stored.items() if body.startswith(b"%d-" % batch)]
            assert len(copies) == 5
            assert max(copies) == min(copies) <= 3


@in_loop
async def test_offsets_told_one_way_get_there_in_the_end(tmp_path: Path) -> None:
    """Nobody hears of one that was cut; the next one, which is higher, makes up for it."""
    async with connected(tmp_path) as client:
        for _ in range(2):
            await client.producer.send("T", b"x")
        calls, flow = client.instance.calls, client.at.broker.requests
        before = flow.passed
        await calls.update_offset(client.broker, "G", QUEUE, 1000)
        await soon(lambda: flow.passed > before)
        for offset, (count, how) in enumerate(endings(flow.passed - before), start=1001):
            flow.cut_after(count, how)
            async with asyncio.timeout(HANG_SECONDS):
                while client.at.real.committed("G", "T").get(0) != offset:
                    await outcome(calls.update_offset(client.broker, "G", QUEUE, offset))
                    await asyncio.sleep(0)
            flow.disarm()
