"""What brokers ask of a client: that members changed, that offsets are set, how a consumer is doing.

Requests nobody here knows are answered by the dispatcher, with code 3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import Protocol, runtime_checkable

from apogeemq.errors import ApogeeError, RequestRefused
from apogeemq.model.queues import MessageQueue
from apogeemq.protocol.bodies import consumers as bodies
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import clients as headers
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher, Reply

log = logging.getLogger(__name__)


@runtime_checkable
class GroupMember(Protocol):
    def ids_changed(self) -> None: ...


@runtime_checkable
class KnowsOffsets(Protocol):
    def offsets_of(self, topic: str) -> Mapping[MessageQueue, int]:
        """How far it is, as it knows itself; an empty topic means all of them."""
        ...


@runtime_checkable
class TellsHowItIs(Protocol):
    def running_info(self, *, with_stacks: bool) -> bodies.ConsumerRunningInfo: ...


@runtime_checkable
class PushedConsumer(Protocol):
    """One that messages are pushed to."""

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None: ...

    def consume_directly(self, record: bytes, broker_name: str) -> Awaitable[bytes]:
        """A ConsumeMessageDirectlyResult."""
        ...


class ClientAnswers:
    """For the consumers of this process, by their groups. Pull consumers answer what makes sense of them."""

    def __init__(self, consumers: Mapping[str, object]) -> None:
        self._consumers = consumers

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self.ids_changed)
        dispatcher.register(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self.reset_offset)
        dispatcher.register(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self.consumer_status)
        dispatcher.register(RequestCode.GET_CONSUMER_RUNNING_INFO, self.running_info)
        dispatcher.register(RequestCode.CONSUME_MESSAGE_DIRECTLY, self.consume_directly)

    def ids_changed(self, channel: Channel, command: Command) -> None:
        consumer = self._consumers.get(headers.read_consumer_group(command).consumerGroup)
        if isinstance(consumer, GroupMember):
            consumer.ids_changed()

    def reset_offset(self, channel: Channel, command: Command) -> None:
        """Nobody waits for an answer: what cannot be done is logged."""
        try:
            header = headers.read_reset_offset(command)
            offsets = bodies.decode_reset_offsets(command.body)
        except ApogeeError as error:
            log.warning("offsets that %s wants to be set cannot be read: %s", channel.peer, error)
            return
        consumer = self._consumers.get(header.group)
        if isinstance(consumer, PushedConsumer):
            consumer.reset_offsets(header.topic, offsets)
        else:
            log.info("no offsets are set: there is no push consumer of %s here", header.group)

    def consumer_status(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_consumer_status(command)
        consumer = self._consumers.get(header.group)
        known = consumer.offsets_of(header.topic) if isinstance(consumer, KnowsOffsets) else {}
        return encode_reply(command, body=bodies.encode_consumer_status(known))

    def running_info(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_running_info(command)
        consumer = self._consumers.get(header.consumerGroup)
        if not isinstance(consumer, TellsHowItIs):
            raise _not_here(header.consumerGroup)
        info = consumer.running_info(with_stacks=header.jstackEnable)
        return encode_reply(command, body=bodies.encode_running_info(info))

    def consume_directly(self, channel: Channel, command: Command) -> Reply:
        header = headers.read_consume_directly(command)
        consumer = self._consumers.get(header.consumerGroup)
        if not isinstance(consumer, PushedConsumer):
            raise _not_here(header.consumerGroup)
        return asyncio.ensure_future(_answered(command, consumer.consume_directly(command.body, header.brokerName)))


async def _answered(command: Command, result: Awaitable[bytes]) -> bytes:
    return encode_reply(command, body=await result)


def _not_here(group: str) -> RequestRefused:
    return RequestRefused(ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer")
