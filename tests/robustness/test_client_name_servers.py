"""Name servers that are down, one or all of them: what is known goes on, what is not is told clearly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from apogeemq.client import Producer, ProducerOptions
from apogeemq.errors import NoRoute
from apogeemq.testing.fault_proxy import FaultProxy
from tests.robustness.faulty_cluster import HANG_SECONDS, PATIENCE_SECONDS, Faulty, faulty, soon
from tests.unit.event_loop import in_loop


class Two:
    """A cluster with two addresses of its name server, so that one can fail."""

    def __init__(self, at: Faulty, other: FaultProxy) -> None:
        self.at = at
        self.names = (at.names, other)

    @property
    def address(self) -> str:
        return ";".join(proxy.address for proxy in self.names)

    def producer(self) -> Producer:
        options = ProducerOptions(send_timeout_seconds=PATIENCE_SECONDS)
        return Producer(self.address, group="P", options=options, client=self.at.options())


@asynccontextmanager
async def two_name_servers(folder: Path) -> AsyncIterator[Two]:
    async with faulty(folder) as at, FaultProxy(at.real.address) as other:
        yield Two(at, other)
        await soon(lambda: not other.open_count)


@in_loop
async def test_one_of_two_is_down(tmp_path: Path) -> None:
    async with two_name_servers(tmp_path) as it:
        for down in it.names:
            down.refuse()
            down.cut_all()
            for number in range(5):
                async with it.producer() as producer:
                    await producer.send("T", b"known")
                    await producer.send(f"new-{number}", b"made on the way")
            await down.accept()


@in_loop
async def test_one_goes_down_while_it_is_asked(tmp_path: Path) -> None:
    async with two_name_servers(tmp_path) as it, it.producer() as producer:
        for number in range(20):
            for proxy in it.names[: number % 3]:
                proxy.answers.cut_after(number * 7, is_lasting=True)
            async with asyncio.timeout(HANG_SECONDS):
                if number % 3 < 2:
                    await producer.send(f"topic-{number}", b"x")
                else:  # both: this time nobody answered
                    with pytest.raises(NoRoute, match="no name server answered"):
                        await producer.send(f"topic-{number}", b"x")
                for proxy in it.names:
                    proxy.answers.disarm()
                await producer.send(f"topic-{number}", b"x")


@in_loop
async def test_all_are_down(tmp_path: Path) -> None:
    """Known topics are sent to and read as before; a new one is refused, and says why."""
    async with faulty(tmp_path) as at, at.consumer() as consumer, at.producer() as producer:
        await producer.send("T", b"before")
        assert (await anext(consumer)).body == b"before"
        at.names.refuse()
        at.names.cut_all()
        with pytest.raises(NoRoute, match="no route of topic new: no name server answered") as why:
            await producer.send("new", b"x")
        assert why.value.retriable
        with pytest.raises(NoRoute):
            await at.instance(producer._client).routes.refresh("T")  # what the poll would do
        for number in range(5):
            await producer.send("T", b"%d" % number)
            async with asyncio.timeout(HANG_SECONDS):
                assert (await anext(consumer)).body == b"%d" % number
        await at.names.accept()
        await producer.send("new", b"x")


@in_loop
async def test_all_are_down_and_so_is_a_broker_that_comes_back(tmp_path: Path) -> None:
    async with faulty(tmp_path) as at, at.producer() as producer:
        await producer.send("T", b"before")
        for proxy in (at.names, at.broker):
            proxy.refuse()
            proxy.cut_all()
        await soon(lambda: not at.broker.open_count)
        with pytest.raises(Exception, match="was not taken in 3 attempts"):
            await producer.send("T", b"nobody is there")
        await at.broker.accept()
        await producer.send("T", b"after")


@in_loop
async def test_a_stalled_one_takes_no_longer_than_the_send_may(tmp_path: Path) -> None:
    async with faulty(tmp_path) as at, at.producer(send_timeout_seconds=0.2) as producer:
        at.names.requests.hold()
        with pytest.raises(NoRoute, match="no name server answered in the time of the send"):
            await producer.send("T", b"x")
        at.names.requests.let_go()
        async with asyncio.timeout(HANG_SECONDS):
            await producer.send("T", b"x", timeout_seconds=PATIENCE_SECONDS)
