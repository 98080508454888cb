"""A client that stays with a name server that works and moves on from one that does not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from apogeemq.errors import NoNameServer, TooManyRequests
from apogeemq.protocol.codec import encode_ok
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from apogeemq.transport.discovery import AddressSource, ListedAddresses
from apogeemq.transport.dispatch import Reply
from apogeemq.transport.flow import Limits
from apogeemq.transport.name_servers import NameServerClient
from apogeemq.transport.pool import ConnectionPool
from tests.unit.transport.live import ECHO, HOLD, PATIENCE_SECONDS, Holding, on_each_loop, pooled, serving, until

WHERE = 5


def where(channel: Channel, command: Command) -> Reply:
    assert channel._transport is not None
    return encode_ok(command, b"%d" % channel._transport.get_extra_info("sockname")[1])


class ChangingSource:
    """A list the test changes, and a count of how often it was fetched."""

    refresh_seconds = 120

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)
        self.fetched = 0

    async def fetch(self) -> list[str]:
        self.fetched += 1
        await asyncio.sleep(0)
        if not self.addresses:
            raise NoNameServer("the source is dry")
        return self.addresses


@asynccontextmanager
async def client(source: AddressSource, pool: ConnectionPool) -> AsyncIterator[NameServerClient]:
    made = NameServerClient(pool, source, choose_start=lambda count: 0)
    try:
        yield made
    finally:
        await made.close()


def unused_address() -> tuple[socket.socket, str]:
    unused = socket.socket()
    unused.bind(("127.0.0.1", 0))
    return unused, f"127.0.0.1:{unused.getsockname()[1]}"


@on_each_loop
async def test_it_stays_with_the_one_that_answers() -> None:
    async with (
        serving({WHERE: where}) as first,
        serving({WHERE: where}) as second,
        pooled() as pool,
        client(ListedAddresses(f"{first.address};{second.address}"), pool) as names,
    ):
        for _ in range(5):
            assert (await names.request(WHERE)).body == b"%d" % first.port
        assert second.server.counters.accepted == 0


@on_each_loop
async def test_it_moves_on_from_one_that_is_gone_and_stays_there() -> None:
    async with (
        serving({WHERE: where}) as first,
        serving({WHERE: where}) as second,
        pooled() as pool,
        client(ListedAddresses(f"{first.address};{second.address}"), pool) as names,
    ):
        await names.request(WHERE)
        await first.server.stop()
        answers = await asyncio.gather(*(names.request(WHERE) for _ in range(10)))
        assert {answer.body for answer in answers} == {b"%d" % second.port}
        assert names.book.current == second.address


@on_each_loop
async def test_it_moves_on_from_one_that_does_not_answer() -> None:
    holding = Holding()
    async with (
        serving({WHERE: holding}) as silent,
        serving({WHERE: where}) as good,
        pooled() as pool,
        client(ListedAddresses(f"{silent.address};{good.address}"), pool) as names,
    ):
        assert (await names.request(WHERE, timeout_seconds=0.5)).body == b"%d" % good.port
        assert (await names.request(WHERE)).body == b"%d" % good.port
        assert len(holding.held) == 1


@on_each_loop
async def test_a_connection_that_ends_says_nothing_of_the_server_behind_it() -> None:
    """It may have been restarted: another connection tells, before the next one is asked."""
    holding = Holding()
    async with (
        serving({WHERE: holding}) as first,
        serving({WHERE: where}) as second,
        pooled() as pool,
        client(ListedAddresses(f"{first.address};{second.address}"), pool) as names,
    ):
        asking = asyncio.create_task(names.request(WHERE))
        for count in (1, 2):
            await until(lambda count=count: len(holding.held) == count)  # type: ignore[misc]
            channel, *_ = holding.held[-1]
            if count == 1:
                channel.abort()
        holding.release()
        await asking
        assert second.server.counters.accepted == 0
        again = asyncio.create_task(names.request(WHERE))
        for count in (1, 2):
            await until(lambda count=count: len(holding.held) == count)  # type: ignore[misc]
            holding.held[-1][0].abort()
        assert (await again).body == b"%d" % second.port


@on_each_loop
async def test_one_that_was_left_is_not_asked_again() -> None:
    """Its silence ends the connection, and with it the questions of others."""
    holding = Holding()
    async with (
        serving({WHERE: holding}) as silent,
        serving({WHERE: where}) as good,
        pooled(suspect_after_seconds=0.0) as pool,
        client(ListedAddresses(f"{silent.address};{good.address}"), pool) as names,
    ):
        patient = asyncio.create_task(names.request(WHERE, timeout_seconds=PATIENCE_SECONDS))
        await until(lambda: holding.held)
        await names.request(WHERE, timeout_seconds=0.05)
        assert (await patient).body == b"%d" % good.port
        assert len(holding.held) == 2


@on_each_loop
async def test_an_error_code_is_an_answer() -> None:
    async with (
        serving() as first,
        serving() as second,
        pooled() as pool,
        client(ListedAddresses(f"{first.address};{second.address}"), pool) as names,
    ):
        assert (await names.request(4321)).code == 3
        assert names.book.current == first.address


@on_each_loop
async def test_when_none_answers_all_are_named_with_the_reason() -> None:
    first, first_address = unused_address()
    second, second_address = unused_address()
    with first, second:
        async with pooled() as pool, client(ListedAddresses(f"{first_address};{second_address}"), pool) as names:
            with pytest.raises(NoNameServer) as failure:
                await names.request(WHERE)
            for address in (first_address, second_address):
                assert f"{address} (cannot connect to {address}: " in str(failure.value)


@on_each_loop
async def test_a_limit_of_our_own_is_no_fault_of_the_name_server() -> None:
    holding = Holding()
    async with (
        serving({HOLD: holding}) as running,
        pooled(limits=Limits(max_pending_per_channel=1)) as pool,
        client(ListedAddresses(running.address), pool) as names,
    ):
        waiting = asyncio.ensure_future(names.request(HOLD, timeout_seconds=60))
        await until(lambda: holding.held)
        with pytest.raises(TooManyRequests):
            await names.request(ECHO)
        holding.release()
        await waiting


# -- lists that change ---------------------------------------------------------------------------------------


@on_each_loop
async def test_the_list_is_fetched_once_for_all_who_wait_for_it() -> None:
    async with serving() as running, pooled() as pool:
        source = ChangingSource(running.address)
        async with client(source, pool) as names:
            await asyncio.gather(*(names.request(ECHO) for _ in range(10)))
            assert source.fetched == 1


@on_each_loop
async def test_no_list_at_all_says_why_and_is_tried_again() -> None:
    async with serving() as running, pooled() as pool:
        source = ChangingSource()
        async with client(source, pool) as names:
            with pytest.raises(NoNameServer, match="no name server address is known: the source is dry"):
                await names.request(ECHO)
            source.addresses = [running.address]
            assert (await names.request(ECHO)).code == 0


@on_each_loop
async def test_the_list_is_fetched_anew_every_two_minutes() -> None:
    async with serving() as running, pooled() as pool:
        source = ChangingSource(running.address)
        async with client(source, pool) as names:
            await names.refresh()
            source.addresses = [running.address, "10.0.0.1:1"]
            for _ in range(119):
                names.tick()
            await asyncio.sleep(0)
            assert source.fetched == 1
            names.tick()
            await until(lambda: names.book.addresses == (running.address, "10.0.0.1:1"))
            assert names.book.current == running.address
            assert source.fetched == 2


@on_each_loop
async def test_a_list_that_cannot_be_fetched_anew_stays_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as running, pooled() as pool:
        source = ChangingSource(running.address)
        async with client(source, pool) as names:
            await names.refresh()
            source.addresses = []
            await names.refresh()
            assert names.book.addresses == (running.address,)
            assert "no new list of name servers: the source is dry" in caplog.text


@on_each_loop
async def test_when_all_have_moved_their_new_addresses_are_looked_for() -> None:
    unused, old_address = unused_address()
    with unused:
        async with serving() as running, pooled() as pool:
            source = ChangingSource(old_address)
            async with client(source, pool) as names:
                await names.refresh()
                source.addresses = [running.address]
                with pytest.raises(NoNameServer):
                    await names.request(ECHO)
                await until(lambda: names.book.current == running.address)
                assert (await names.request(ECHO)).code == 0


@on_each_loop
async def test_a_list_that_never_changes_is_not_fetched_again() -> None:
    async with pooled() as pool, client(ListedAddresses("10.0.0.1:1"), pool) as names:
        await names.refresh()
        for _ in range(1000):
            names.tick()
        assert len(asyncio.all_tasks()) == 1


@on_each_loop
async def test_it_tells_how_each_name_server_failed_when_last_asked() -> None:
    unused, down = unused_address()
    with unused:
        async with serving() as running, pooled() as pool:
            async with client(ListedAddresses(f"{down};{running.address}"), pool) as names:
                assert names.describe() == "no address is known yet"
                await names.request(ECHO)
                assert names.describe().startswith(f"{down} (cannot connect to {down}: ")
                assert names.describe().endswith(f"{running.address} (no answer yet)")
            async with client(ChangingSource(), pool) as names:
                with pytest.raises(NoNameServer):
                    await names.request(ECHO)
                assert names.describe() == "the source is dry"


@on_each_loop
async def test_after_the_end_no_list_is_fetched() -> None:
    unused, down = unused_address()
    with unused:
        async with pooled() as pool:
            source = ChangingSource(down)
            async with client(source, pool) as names:
                await names.refresh()
            with pytest.raises(NoNameServer):
                await names.request(ECHO)
            assert source.fetched == 1
            assert len(asyncio.all_tasks()) == 1
