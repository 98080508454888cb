"""The connection of a blocking producer's send is cut at every byte: the send ends well, under one unique id.

A thread sends over a connection of its own and reads it itself; what goes wrong there the background loop makes good,
over its own connection. Both go through the proxy, which lives in the test's loop: blocking calls are made in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from apogeemq.blocking import Message, Producer, ProducerOptions, SendResult
from apogeemq.client.producing.direct_sends import DirectSends
from apogeemq.errors import SendFailed
from apogeemq.testing.fault_proxy import Flow
from tests.robustness.faulty_cluster import HANG_SECONDS, IS_SOAK, PATIENCE_SECONDS, Faulty, endings, faulty, soon
from tests.unit.event_loop import in_loop

QUEUES = 2
FILLED = 1000 if IS_SOAK else 100

T = TypeVar("T")
on_each_direction = pytest.mark.parametrize("direction", ["requests", "answers"])


async def in_thread(call: Callable[[], T]) -> T:
    """What it gives or raises, which is soon. TimeoutError when it hangs."""
    async with asyncio.timeout(HANG_SECONDS):
        return await asyncio.to_thread(call)


async def sent(producer: Producer, body: bytes) -> SendResult:
    return await in_thread(lambda: producer.send("T", body))


@asynccontextmanager
async def sending(at: Faulty, **options: Any) -> AsyncIterator[Producer]:
    """A producer whose connections are up: the loop's and one of a thread."""
    chosen = ProducerOptions(**{"send_timeout_seconds": PATIENCE_SECONDS, **options})
    producer = Producer(at.names.address, group="P", options=chosen, client=at.options())
    await in_thread(producer.start)
    try:
        for body in (b"first", b"second"):
            await sent(producer, body)
            await until_quiet(producer)
        assert connection_count(producer) == 1
        yield producer
    finally:
        await in_thread(producer.stop)


async def until_quiet(producer: Producer) -> None:
    """No heartbeat over a new connection is on its way: its bytes would count."""
    instance = producer._producer._running
    await soon(lambda: not instance._being_told)


def direct(producer: Producer) -> DirectSends:
    assert producer._direct is not None
    return producer._direct


def connection_count(producer: Producer) -> int:
    """Of those that threads have of their own."""
    return sum(len(lane.connections) for lane in direct(producer)._lanes)


async def fill(producer: Producer) -> int:
    """So many messages that the numbers in answers have equally many digits from now on, and answers one size."""
    queues = await in_thread(lambda: producer.queues("T"))
    for queue in queues:
        batch = [Message("T", b"filling")] * FILLED
        await in_thread(lambda: producer.send_batch(batch, queue=queue))  # noqa: B023
    return len(queues) * FILLED


@on_each_direction
@in_loop
async def test_a_send_ends_well_wherever_it_is_cut(tmp_path: Path, direction: str) -> None:
    """Stored once for each attempt that arrived, always under the one unique id it was acknowledged with."""
    async with faulty(tmp_path, queues=QUEUES) as at, sending(at) as producer:
        flow: Flow = getattr(at.broker, direction)
        filled = await fill(producer)
        before = flow.passed
        await sent(producer, b"%06d" % 0)
        size = flow.passed - before
        acknowledged: dict[tuple[str, bytes], int] = {}
        for number, (count, how) in enumerate(endings(size)):
            await sent(producer, b"before")  # also the one after a cut that came behind a whole answer
            if not connection_count(producer):
                await sent(producer, b"before")
            assert connection_count(producer) == 1
            body = b"%06d" % (number + 1)
            flow.cut_after(count, how)
            result = await sent(producer, body)
            await soon(lambda: not flow.is_armed)
            is_cut = direction == "requests" or count < size  # else all is well, but for the connection
            assert connection_count(producer) == (not is_cut), (count, how)
            has_arrived = direction == "answers" or count == size
            acknowledged[result.message_id, body] = is_cut + has_arrived
        assert len(acknowledged) == len(endings(size))
        # The first attempt may arrive after the last one has been answered: they are over two connections.
        await soon(lambda: all(at.stored()[key] >= times for key, times in acknowledged.items()))
        stored = at.stored()
        assert {key: stored[key] for key in acknowledged} == acknowledged
        others = {key for key in stored if key not in acknowledged}
        assert {body for _, body in others} == {b"first", b"second", b"filling", b"before", b"%06d" % 0}
        assert sum(body == b"filling" for _, body in others) == filled


@on_each_direction
@in_loop
async def test_a_first_request_over_a_new_connection_is_cut(tmp_path: Path, direction: str) -> None:
    async with faulty(tmp_path) as at, sending(at) as producer:
        flow: Flow = getattr(at.broker, direction)
        for number, (count, how) in enumerate(endings(40)):
            for lane in direct(producer)._lanes:
                lane.close()
            flow.cut_after(count, how)
            result = await sent(producer, b"%06d" % number)
            await soon(lambda: not flow.is_armed)
            await soon(lambda: at.stored()[result.message_id, b"%06d" % number] >= 1)  # noqa: B023
            assert connection_count(producer) == 0
            await sent(producer, b"next")
            assert connection_count(producer) == 1


@on_each_direction
@in_loop
async def test_no_more_copies_than_attempts_when_every_connection_is_cut(tmp_path: Path, direction: str) -> None:
    async with faulty(tmp_path) as at, sending(at, retries=2) as producer:
        flow: Flow = getattr(at.broker, direction)
        for count in (0, 4, 40):
            flow.cut_after(count, is_lasting=True)
            with pytest.raises(SendFailed, match="was not taken in 3 attempts") as failed:
                await sent(producer, b"%d" % count)
            assert failed.value.retriable
            flow.disarm()
            await sent(producer, b"next")
        copies = {(unique_id, body): times for (unique_id, body), times in at.stored().items() if body.isdigit()}
        if direction == "requests":
            assert copies == {}
        else:
            assert len(copies) == 3
            assert max(copies.values()) <= 3


@in_loop
async def test_nobody_lets_it_in_for_a_while(tmp_path: Path) -> None:
    async with faulty(tmp_path) as at, sending(at, retries=1) as producer:
        at.broker.refuse()
        at.broker.cut_all()
        with pytest.raises(SendFailed, match="was not taken in 2 attempts"):
            await sent(producer, b"refused")
        await at.broker.accept()
        await sent(producer, b"let in")
        await sent(producer, b"let in")
        assert connection_count(producer) == 1
        assert {body: times for (_, body), times in at.stored().items() if body in (b"refused", b"let in")} == {
            b"let in": 1
        }


@in_loop
async def test_threads_whose_connections_are_cut_time_after_time(tmp_path: Path) -> None:
    """All that was acknowledged is there, and nobody waits for an answer of another."""
    async with faulty(tmp_path, queues=QUEUES) as at, sending(at, retries=50) as producer:
        is_over = False

        def send(name: int) -> list[tuple[str, bytes]]:
            bodies = [b"%d-%d" % (name, number) for number in range(50)]
            return [(producer.send("T", body).message_id, body) for body in bodies]

        async def cut() -> None:
            while not is_over:
                at.broker.cut_all()
                await asyncio.sleep(0.005)

        cutting = asyncio.ensure_future(cut())
        async with asyncio.timeout(2 * HANG_SECONDS):
            results = await asyncio.gather(*(asyncio.to_thread(send, name) for name in range(4)))
        is_over = True
        await cutting
        acknowledged = {one for some in results for one in some}
        assert len(acknowledged) == 200
        assert acknowledged <= set(at.stored())
