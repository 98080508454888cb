"""What brokers ask of a client: that members changed, that offsets are reset, how a consumer is doing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import clients as headers
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher


class AskedConsumer(Protocol):
    def ids_changed(self) -> None: ...


class ClientAnswers:
    def __init__(self, consumers: Mapping[str, AskedConsumer]) -> None:
        self._consumers = consumers

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self.ids_changed)

    def ids_changed(self, channel: Channel, command: Command) -> None:
        consumer = self._consumers.get(headers.read_consumer_group(command).consumerGroup)
        if consumer is not None:
            consumer.ids_changed()
