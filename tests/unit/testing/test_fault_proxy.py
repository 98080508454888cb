"""The proxy passes every byte once, and fails where it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from apogeemq.testing.fault_proxy import FaultProxy, How
from tests.unit.event_loop import in_loop


class Echo:
    """A server that sends back what it gets, and remembers it."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.ended: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                self.received += data
                writer.write(data)
            self.ended.append("closed")
        except ConnectionResetError:
            self.ended.append("reset")
        writer.close()


class Through:
    def __init__(self, proxy: FaultProxy, echo: Echo) -> None:
        self.proxy = proxy
        self.echo = echo

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = self.proxy.address.rpartition(":")
        return await asyncio.open_connection(host, int(port))

    async def exchange(self, data: bytes) -> tuple[bytes, str]:
        """What came back over a connection of its own, and how it ended (`whole` when it did not)."""
        reader, writer = await self.connect()
        answer = b""
        try:
            writer.write(data)
            while len(answer) < len(data):
                piece = await reader.read(65_536)
                if not piece:
                    return answer, "closed"
                answer += piece
            return answer, "whole"
        except ConnectionResetError:
            return answer, "reset"
        finally:
            writer.close()


@asynccontextmanager
async def proxied() -> AsyncIterator[Through]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with FaultProxy(f"{host}:{port}") as proxy:
        yield Through(proxy, echo)
    server.close()
    await server.wait_closed()


async def until_ended(echo: Echo) -> None:
    while not echo.ended:
        await asyncio.sleep(0.001)


@in_loop
async def test_everything_passes_once_and_in_order() -> None:
    data = bytes(range(256)) * 4000
    async with proxied() as it:
        assert await it.exchange(data) == (data, "whole")
        assert it.echo.received == data
        assert (it.proxy.requests.passed, it.proxy.answers.passed) == (len(data), len(data))
        await until_ended(it.echo)
        assert it.echo.ended == ["closed"]


@pytest.mark.parametrize("how", list(How))
@pytest.mark.parametrize("count", [0, 1, 5, 9, 10])
def test_requests_are_cut_at_the_byte(count: int, how: How) -> None:
    async def run() -> None:
        async with proxied() as it:
            it.proxy.requests.cut_after(count, how)
            _, ending = await it.exchange(b"0123456789")
            assert ending in (how.value, "whole" if count == 10 else how.value)
            await until_ended(it.echo)
            assert it.echo.received == b"0123456789"[:count]
            assert it.echo.ended[0] in (how.value, "reset")  # an answer to a closed connection is met by a reset
            assert not it.proxy.requests.is_armed
            assert await it.exchange(b"again") == (b"again", "whole")

    asyncio.run(run())


@pytest.mark.parametrize("how", list(How))
@pytest.mark.parametrize("count", [0, 1, 9])
def test_answers_are_cut_at_the_byte(count: int, how: How) -> None:
    async def run() -> None:
        async with proxied() as it:
            it.proxy.answers.cut_after(count, how)
            assert await it.exchange(b"0123456789") == (b"0123456789"[:count], how.value)
            assert it.echo.received == b"0123456789"

    asyncio.run(run())


@in_loop
async def test_a_lasting_cut_and_its_end() -> None:
    async with proxied() as it:
        it.proxy.answers.cut_after(3, How.CLOSED, is_lasting=True)
        for _ in range(3):
            assert await it.exchange(b"abcdef") == (b"abc", "closed")
        it.proxy.answers.disarm()
        assert await it.exchange(b"abcdef") == (b"abcdef", "whole")


@in_loop
async def test_held_bytes_come_later() -> None:
    async with proxied() as it:
        it.proxy.requests.hold()
        exchange = asyncio.ensure_future(it.exchange(b"late"))
        while not it.proxy.open_count:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        assert not it.echo.received
        it.proxy.requests.let_go()
        assert await exchange == (b"late", "whole")


@in_loop
async def test_dropped_answers() -> None:
    async with proxied() as it:
        it.proxy.answers.drops = True
        exchange = asyncio.ensure_future(it.exchange(b"lost"))
        while it.echo.received != b"lost":
            await asyncio.sleep(0.001)
        it.proxy.cut_all(How.CLOSED)
        assert await exchange == (b"", "closed")


@in_loop
async def test_slow_and_throttled() -> None:
    async with proxied() as it:
        loop = asyncio.get_running_loop()
        it.proxy.answers.delay_seconds, it.proxy.requests.bytes_per_second = 0.02, 1000
        started = loop.time()
        assert await it.exchange(b"0123456789") == (b"0123456789", "whole")
        assert loop.time() - started >= 0.03  # never sooner; how much later is the machine's business


@in_loop
async def test_refused_and_let_in_again_at_the_same_address() -> None:
    async with proxied() as it:
        it.proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            await it.connect()
        await it.proxy.accept()
        assert await it.exchange(b"here") == (b"here", "whole")


@in_loop
async def test_a_server_that_is_gone() -> None:
    async with FaultProxy("127.0.0.1:1") as proxy:
        host, _, port = proxy.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await reader.read() == b""
        writer.close()
        assert proxy.connection_count == 1
