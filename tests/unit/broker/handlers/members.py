"""Clients of a broker over real sockets: they send heartbeats, are told things and answer what they are asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from apogeemq.broker.server import Broker
from apogeemq.broker.settings import resolve_settings
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher, Reply
from tests.unit.nameserver.live import Client, eventually

ASKED_OF_CLIENTS = (
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
)


def subscription(topic: str = "T", expression: str = "*", version: int = 1, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "subString": expression, "subVersion": version, "tagsSet": [], "codeSet": [], **more}


def consumer(group: str = "G", *subscriptions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": list(subscriptions) or [subscription()],
        "unitMode": False,
        **more,
    }


class Member(Client):
    """A client with an id of its own. `notices` are the groups it was told to have changed, in order."""

    def __init__(self, address: str, client_id: str) -> None:
        self.client_id = client_id
        self.told: list[Command] = []
        self.answer: Callable[[Channel, Command], Reply] = lambda channel, command: None
        dispatcher = Dispatcher()
        for code in ASKED_OF_CLIENTS:
            dispatcher.register(code, self._hear)
        super().__init__(address, dispatcher=dispatcher)

    def _hear(self, channel: Channel, command: Command) -> Reply:
        self.told.append(command)
        return self.answer(channel, command)

    @property
    def notices(self) -> list[str]:
        return [
            command.fields()["consumerGroup"]
            for command in self.told
            if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        ]

    async def heartbeat(self, *consumers: dict[str, Any], producers: tuple[str, ...] = (), **more: Any) -> Command:
        body = {
            "clientID": self.client_id,
            "consumerDataSet": list(consumers),
            "producerDataSet": [{"groupName": group} for group in producers],
            "heartbeatFingerprint": 0,
            "withoutSub": False,
            **more,
        }
        return await self.ok(RequestCode.HEART_BEAT, json.dumps(body).encode())


class Serving:
    """A broker that accepts connections."""

    def __init__(self, broker: Broker, address: str, stack: AsyncExitStack) -> None:
        self.broker = broker
        self.state = broker.state
        self.server = broker.server
        self.address = address
        self._stack = stack

    def member(self, client_id: str) -> Member:
        member = Member(self.address, client_id)
        self._stack.push_async_callback(member.close)
        return member

    async def gone(self, member: Member) -> None:
        """Close a member's connection and wait until the broker has noticed."""
        before = len(self.server.channels)
        await member.close()
        await eventually(lambda: len(self.server.channels) < before)


@asynccontextmanager
async def serving(folder: Path, **properties: str) -> AsyncIterator[Serving]:
    """Started with these keys of the configuration; stopped at the end."""
    given = {
        "brokerName": "broker-a",
        "bindAddress": "127.0.0.1",
        "listenPort": "0",
        "fastPortEnable": "false",
        "storePathRootDir": str(folder / "store"),
        "mappedFileSizeCommitLog": "65536",
        "mappedFileSizeConsumeQueue": "2000",
        "maxHashSlotNum": "100",
        "maxIndexNum": "1000",
        **properties,
    }
    settings, warnings = resolve_settings(given, {}, home=folder, host_name="here", local_address="127.0.0.1")
    assert warnings == []
    async with AsyncExitStack() as clients:
        broker = Broker(settings, {})
        try:
            host, port = await broker.start()
            yield Serving(broker, f"{host}:{port}", clients)
        finally:
            await broker.stop()
