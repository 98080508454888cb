"""Servers and peers on real sockets, and a transport that records, for tests of the transport room."""

from __future__ import annotations

import asyncio
import functools
import inspect
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop

from apogeemq.protocol.codec import decode_frame, encode_ok, encode_request
from apogeemq.protocol.command import Command
from apogeemq.protocol.framing import FrameReader
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher, Handler, Reply
from apogeemq.transport.flow import Limits
from apogeemq.transport.pool import ConnectionPool
from apogeemq.transport.server import Server
from apogeemq.transport.tls import TlsServerContexts

ECHO = 1000
HOLD = 1001  # answered when the test says so
FAIL = 1002
PATIENCE_SECONDS = 60.0


def on_each_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an `async def` test on asyncio's own event loop and on uvloop."""

    def run_test(*args: Any, run: Callable[[Coroutine[Any, Any, None]], None], **kwargs: Any) -> None:
        run(test(*args, **kwargs))

    functools.update_wrapper(run_test, test)
    del run_test.__dict__["__wrapped__"]
    signature = inspect.signature(test)
    run_parameter = inspect.Parameter("run", inspect.Parameter.KEYWORD_ONLY)
    with_run = [*signature.parameters.values(), run_parameter]
    run_test.__dict__["__signature__"] = signature.replace(parameters=with_run)
    on_both: Callable[..., None] = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])(
        run_test
    )
    return on_both


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until it is so; the test's own time limit is the only one."""
    while not condition():
        await asyncio.sleep(0.001)


def echo(channel: Channel, command: Command) -> Reply:
    return encode_ok(command, command.body)


def fail(channel: Channel, command: Command) -> Reply:
    raise RuntimeError("the handler broke")


class Holding:
    """A handler that holds every request."""

    def __init__(self) -> None:
        self.held: list[tuple[Channel, Command, asyncio.Future[bytes]]] = []

    def __call__(self, channel: Channel, command: Command) -> Reply:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.held.append((channel, command, answer))
        return answer

    def release(self) -> None:
        for _, command, answer in self.held:
            if not answer.done():
                answer.set_result(encode_ok(command, b"released"))
        self.held.clear()


def dispatcher(handlers: Mapping[int, Handler] | None = None) -> Dispatcher:
    made = Dispatcher()
    for code, handler in {ECHO: echo, FAIL: fail, **(handlers or {})}.items():
        made.register(code, handler)
    return made


class Running:
    def __init__(self, server: Server, host: str, port: int, closed: list[Channel]) -> None:
        self.server = server
        self.host = host
        self.port = port
        self.address = f"{host}:{port}"
        self.closed = closed

    def tick(self, times: int) -> None:
        for _ in range(times):
            self.server.tick()

    async def connect(self, context: ssl.SSLContext | None = None) -> Peer:
        return Peer(*await asyncio.open_connection(self.host, self.port, ssl=context))


@asynccontextmanager
async def serving(
    handlers: Mapping[int, Handler] | None = None, limits: Limits | None = None, tls: TlsServerContexts | None = None
) -> AsyncIterator[Running]:
    closed: list[Channel] = []
    server = Server(dispatcher(handlers), limits or Limits(), tls=tls, on_closed=closed.append)
    host, port = server.start("127.0.0.1", 0)
    try:
        yield Running(server, host, port, closed)
    finally:
        await server.stop(grace_seconds=0.2)


@asynccontextmanager
async def pooled(*args: Any, **kwargs: Any) -> AsyncIterator[ConnectionPool]:
    """Patient: a machine that stalls for seconds, in the middle of a TLS handshake for example, fails no test."""
    pool = ConnectionPool(*args, **{"connect_timeout_seconds": PATIENCE_SECONDS, **kwargs})
    try:
        yield pool
    finally:
        await pool.close()


@asynccontextmanager
async def deaf_port() -> AsyncIterator[str]:
    """An address that lets nobody in: its queue of connections is full."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        host, port = listener.getsockname()
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex((host, port))
        yield f"{host}:{port}"


class Peer:
    """The other end of a connection, which sends whatever bytes it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._writer.get_extra_info("sockname")[:2]
        return host, port

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def receive(self, count: int = 1) -> list[Command]:
        """The next `count` commands, and no more."""
        commands: list[Command] = []
        while len(commands) < count:
            data = await self._reader.read(65_536)
            assert data, "the connection was closed"
            commands += map(decode_frame, self._frames.feed(data))
        assert len(commands) == count
        return commands

    async def ask(self, code: int, body: bytes = b"") -> Command:
        self.send(encode_request(code, 1, None, body))
        return (await self.receive())[0]

    async def closed(self) -> bytes:
        """What still comes until the other end closes."""
        try:
            return await self._reader.read()
        except ConnectionResetError:
            return b""

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionResetError, ssl.SSLError):
            await self._writer.wait_closed()


class RecordingTransport(asyncio.Transport):
    """Keeps every write apart; the test says how much of them is still queued."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.9", 1234)})
        self.writes: list[bytes] = []
        self.queued_size = 0
        self.is_reading_paused = False
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.queued_size

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def answers(self) -> list[Command]:
        """All commands written so far, taken out."""
        frames = FrameReader().feed(b"".join(self.writes))
        self.writes.clear()
        return [decode_frame(frame) for frame in frames]


class Line:
    """A server's channel whose transport records."""

    def __init__(self, **limits: int) -> None:
        self.holding = Holding()
        self.server = Server(dispatcher({HOLD: self.holding}), Limits(**limits))
        self.channel = Channel(self.server, asyncio.get_running_loop())
        self.transport = RecordingTransport()
        self.server._opening_count += 1  # what accepting the connection would have done
        self.channel.connection_made(self.transport)

    def feed(self, *frames: bytes) -> None:
        self.channel.data_received(b"".join(frames))

    def lose(self) -> None:
        self.channel.connection_lost(None)
