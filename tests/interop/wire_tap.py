"""Between a client and its servers: passes everything on, and keeps what the client asks of the broker."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from apogeemq.protocol.codec import decode_frame
from apogeemq.protocol.command import Command
from apogeemq.protocol.framing import FrameReader
from tests.interop.python_world import World

_READ_SIZE = 65_536


class WireTap:
    """Clients that use `address` as their name server are told that the broker is here.

    In routes the broker's port is replaced by one of as many digits, so that frames keep their lengths.
    """

    def __init__(self, world: World) -> None:
        netns = world.cluster.tools.netns
        assert netns is not None
        self._name_port, self._broker_port = netns.free_port(), netns.free_port()
        self._name_server, self._broker = world.cluster.name_server.port, world.cluster.broker.port
        self._stack = AsyncExitStack()
        self._passing: set[asyncio.Task[None]] = set()
        self.asked: list[Command] = []  # of the broker
        self.asked_names: list[Command] = []
        self.answers: dict[tuple[int, int], Command] = {}

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._name_port}"

    async def __aenter__(self) -> Self:
        for port, target, asked in (
            (self._name_port, self._name_server, self.asked_names),
            (self._broker_port, self._broker, self.asked),
        ):
            await self._listen(port, target, asked)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _listen(self, port: int, target: int, asked: list[Command]) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection("127.0.0.1", target)
            for task in (
                asyncio.ensure_future(self._keep(reader, back, asked)),
                asyncio.ensure_future(self._redirect(there, writer)),
            ):
                self._passing.add(task)
                task.add_done_callback(self._passing.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", port)
        self._stack.callback(server.close)

    async def _keep(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: list[Command]) -> None:
        frames = FrameReader()
        while data := await reader.read(_READ_SIZE):
            commands = (decode_frame(bytes(frame)) for frame in frames.feed(data))
            asked.extend(command for command in commands if not command.is_response)
            writer.write(data)
        writer.close()

    async def _redirect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        real, here = (f"127.0.0.1:{port}".encode() for port in (self._broker, self._broker_port))
        while data := await reader.read(_READ_SIZE):
            writer.write(data.replace(real, here))
        writer.close()
