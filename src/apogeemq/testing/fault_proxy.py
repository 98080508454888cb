"""A TCP proxy that fails in the ways networks do, at exactly the byte it is told to.

It stands between a client and a server and passes bytes on, each once and in order, until it is told otherwise. Each
direction (`requests` from the client, `answers` from the server) can be

- cut: after so many more bytes the connection ends, reset or closed, on both sides;
- held: bytes are taken and kept until they are let go (a peer that has stalled, or answers late);
- dropped: bytes are taken and thrown away;
- slowed: by a delay of every piece, or to so many bytes a second.

New connections can be refused, as by a machine on which nobody listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from enum import Enum
from types import TracebackType
from typing import Final, NamedTuple, Self

_READ_SIZE: Final = 64 * 1024
_NO_LINGER: Final = struct.pack("ii", 1, 0)  # closing sends a reset and forgets what is queued


class How(Enum):
    """How a connection ends."""

    RESET = "reset"
    CLOSED = "closed"


class _Cut(NamedTuple):
    after: int
    how: How
    is_lasting: bool


class Flow:
    """One direction, over all connections."""

    def __init__(self) -> None:
        self.passed = 0  # bytes so far
        self.drops = False
        self.delay_seconds = 0.0
        self.bytes_per_second = 0  # 0: as fast as it goes
        self._cut: _Cut | None = None
        self._left = 0  # bytes until the cut
        self._is_flowing = asyncio.Event()
        self._is_flowing.set()

    def cut_after(self, count: int, how: How = How.RESET, *, is_lasting: bool = False) -> None:
        """After exactly so many more bytes, cut the connection that carried the last of them. 0: as soon as there is
        a byte to pass, which is not passed. Once, or time after time."""
        self._cut = _Cut(count, how, is_lasting)
        self._left = count

    @property
    def is_armed(self) -> bool:
        """A cut is still to come."""
        return self._cut is not None

    def disarm(self) -> None:
        self._cut = None

    def hold(self) -> None:
        self._is_flowing.clear()

    def let_go(self) -> None:
        self._is_flowing.set()

    async def pace(self, size: int) -> None:
        """Wait as long as a piece of this size has to."""
        seconds = self.delay_seconds + (size / self.bytes_per_second if self.bytes_per_second else 0.0)
        if seconds:
            await asyncio.sleep(seconds)
        await self._is_flowing.wait()

    def admit(self, data: bytes) -> tuple[bytes, How | None]:
        """What of it may pass, and how the connection ends after that, if it does."""
        cut = self._cut
        if cut is None or len(data) < self._left:
            self._left -= len(data)
            self.passed += len(data)
            return data, None
        data = data[: self._left]
        self.passed += len(data)
        self._left = cut.after
        if not cut.is_lasting:
            self._cut = None
        return data, cut.how


class _Link:
    """One client and its connection to the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._writers = (client, server)

    def end(self, how: How) -> None:
        for writer in self._writers:
            if how is How.RESET:
                with contextlib.suppress(OSError):  # it is gone already
                    own: socket.socket = writer.get_extra_info("socket")
                    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                writer.transport.abort()
            else:
                writer.close()


class FaultProxy:
    """Use as `async with FaultProxy(server_address) as proxy:`; clients connect to `proxy.address`."""

    def __init__(self, target: str) -> None:
        """The address, as `host:port`, may be set later, and changed: new connections go there."""
        self.target = target
        self.requests = Flow()
        self.answers = Flow()
        self.connection_count = 0  # accepted so far
        self._links: set[_Link] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None
        # Has the port, and never listens: whoever connects while nobody else does is refused.
        self._reserved = _bound(0)
        self._port = int(self._reserved.getsockname()[1])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def open_count(self) -> int:
        return len(self._links)

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()
        for task in tuple(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(tuple(self._running))
        self._reserved.close()

    async def accept(self) -> None:
        """Let clients in, as at the beginning."""
        if self._listening is None:
            self._listening = await asyncio.start_server(self._serve, sock=_bound(self._port))

    def refuse(self) -> None:
        """Let nobody in; those who are in stay."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def cut_all(self, how: How = How.RESET) -> None:
        """End every connection there is."""
        for link in tuple(self._links):
            link.end(how)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        self.connection_count += 1
        host, _, port = self.target.rpartition(":")
        try:
            server_reader, server_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        for end in (writer, server_writer):
            end.transport.set_write_buffer_limits(high=0)  # what was let through before a cut is really sent
        link = _Link(writer, server_writer)
        self._links.add(link)
        pumps = (
            asyncio.ensure_future(self._pump(reader, server_writer, self.requests)),
            asyncio.ensure_future(self._pump(server_reader, writer, self.answers)),
        )
        how = How.RESET
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            how = next(pump for pump in pumps if pump.done()).result()
        finally:
            for pump in pumps:
                pump.cancel()
            link.end(how)
            self._links.discard(link)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flow: Flow) -> How:
        """Gives how the connection ended: as one of its ends did, or as it was to be cut."""
        try:
            while data := await reader.read(_READ_SIZE):
                await flow.pace(len(data))
                if flow.drops:
                    continue
                data, ending = flow.admit(data)
                writer.write(data)
                await writer.drain()
                if ending is not None:
                    return ending
        except OSError:
            return How.RESET
        return How.CLOSED


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound
