"""A name server on its own port in this process, and clients that talk to it over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from struct import Struct
from typing import Any

import msgspec

from apogeemq.nameserver.config import ServerSettings, resolve_settings
from apogeemq.nameserver.server import NameServer
from apogeemq.protocol import versions
from apogeemq.protocol.bodies.registration import Registration, TopicConfig, encode_registration
from apogeemq.protocol.codec import decode_frame, encode_frame
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import JSON, Command, CommandHead
from apogeemq.protocol.fields import write_fields
from apogeemq.transport.dispatch import Dispatcher
from apogeemq.transport.pool import ConnectionPool, SendHook
from tests.unit.nameserver.joining import TWO_TOPICS, broker_header, data_version, topic_table

_LENGTH = Struct(">I")
TIMEOUT_SECONDS = 20.0


class Client:
    """One connection; fields are keyword arguments with the wire's names."""

    def __init__(
        self, address: str, *, dispatcher: Dispatcher | None = None, before_send: Sequence[SendHook] = ()
    ) -> None:
        self.address = address
        self.pool = ConnectionPool(dispatcher, before_send=before_send)

    async def ask(self, code: int, body: bytes = b"", codec: int = JSON, /, **fields: str) -> Command:
        return await self.pool.request(self.address, code, fields, body, timeout_seconds=TIMEOUT_SECONDS, codec=codec)

    async def ok(self, code: int, body: bytes = b"", /, **fields: str) -> Command:
        answer = await self.ask(code, body, **fields)
        assert answer.code == ResponseCode.SUCCESS, (answer.code, answer.remark)
        return answer

    async def refused(self, code: int, body: bytes = b"", /, **fields: str) -> tuple[int, str | None]:
        """Code and remark of an answer that is not a success."""
        answer = await self.ask(code, body, **fields)
        assert answer.code != ResponseCode.SUCCESS
        return answer.code, answer.remark

    async def register(
        self,
        name: str = "broker-a",
        broker_id: int = 0,
        topics: Sequence[str | TopicConfig] = TWO_TOPICS,
        *,
        version: int = 1,
        state: int = 0,
        filter_servers: list[str] | None = None,
        **header: Any,
    ) -> Command:
        said = Registration(data_version(version, state), topic_table(topics), filter_servers=filter_servers)
        fields = write_fields(broker_header(name, broker_id, **header))
        return await self.ok(RequestCode.REGISTER_BROKER, encode_registration(said), **fields)

    async def route(self, topic: str, **fields: str) -> dict[str, Any] | None:
        """The route as its JSON says it; None when there is none."""
        answer = await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic, **fields)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        route: dict[str, Any] = msgspec.json.decode(answer.body)
        return route

    async def close(self) -> None:
        await self.pool.close()


class Running:
    """A name server that accepts connections."""

    def __init__(self, name_server: NameServer, address: str, stack: AsyncExitStack) -> None:
        self.name_server = name_server
        self.address = address
        self._stack = stack

    @property
    def table(self) -> Any:
        return self.name_server.registry.table

    def client(self, *, dispatcher: Dispatcher | None = None, before_send: Sequence[SendHook] = ()) -> Client:
        client = Client(self.address, dispatcher=dispatcher, before_send=before_send)
        self._stack.push_async_callback(client.close)
        return client

    async def closed(self, client: Client) -> None:
        """Close a client's connection and wait until the server has noticed."""
        before = self.name_server.server.connection_count
        await client.close()
        await eventually(lambda: self.name_server.server.connection_count < before)


class Home:
    """Where the name servers of one test keep their data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def settings(self, **properties: str) -> ServerSettings:
        given = {"bindAddress": "127.0.0.1", "listenPort": "0", **properties}
        settings, warnings = resolve_settings(given, {"dataDir": str(self.folder)}, home=self.folder)
        assert warnings == []
        return settings

    @asynccontextmanager
    async def serve(self, **properties: str) -> AsyncIterator[Running]:
        """Started with these keys of the configuration; stopped at the end."""
        async with AsyncExitStack() as clients:
            name_server = NameServer(self.settings(**properties), {})
            try:
                host, port = await name_server.start()
                yield Running(name_server, f"{host}:{port}", clients)
            finally:
                await name_server.stop()  # before its clients go, so that it does not see them go


async def eventually(condition: Any) -> None:
    """Let the loop turn until it is so; the test's own time limit is the only one."""
    while not condition():
        await asyncio.sleep(0.001)


async def ask_as(
    address: str,
    code: int,
    fields: Mapping[str, str],
    body: bytes = b"",
    *,
    version: int = versions.CURRENT,
    codec: int = JSON,
) -> Command:
    """One request of a client of some version, over a connection of its own."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(encode_frame(CommandHead(code, 1, version=version), fields, body, codec))
        return decode_frame(await reader.readexactly(_LENGTH.unpack(await reader.readexactly(4))[0]))
    finally:
        writer.close()
        await writer.wait_closed()
