"""Brokers of ours that answer sends otherwise than they would."""

from __future__ import annotations

import asyncio

from apogeemq.errors import RequestRefused
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from tests.unit.client.cluster import Cluster


def refuse_sends(where: Cluster, broker: str, code: int, remark: str = "no", **fields: str) -> list[str]:
    """A broker takes nothing from now on; gives the properties of those who tried."""
    tried: list[str] = []

    def refuse(channel: Channel, command: Command) -> bytes:
        tried.append(command.fields()["i"])
        raise RequestRefused(code, remark, fields)

    dispatcher = where.brokers[broker].server.dispatcher
    for request_code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
        dispatcher.handlers.pop(request_code, None)
        dispatcher.register(request_code, refuse)
    return tried


def hold_sends(where: Cluster) -> list[asyncio.Future[bytes]]:
    held: list[asyncio.Future[bytes]] = []

    def hold(channel: Channel, command: Command) -> asyncio.Future[bytes]:
        held.append(asyncio.get_running_loop().create_future())
        return held[-1]

    dispatcher = where.brokers["broker-a"].server.dispatcher
    dispatcher.handlers.pop(RequestCode.SEND_MESSAGE_V2)
    dispatcher.register(RequestCode.SEND_MESSAGE_V2, hold)
    return held
