"""Questions of administrators that only a consumer can answer: the broker passes them on."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections.abc import Mapping

from apogeemq.broker.state import BrokerState
from apogeemq.broker.tables.clients import ClientInfo
from apogeemq.errors import ApogeeError, RequestRefused, RequestTimedOut
from apogeemq.model.ids import parse_offset_id
from apogeemq.protocol.bodies import clients as bodies
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import clients as headers
from apogeemq.protocol.javajson import Pairs
from apogeemq.protocol.versions import V3_0_7_SNAPSHOT, V3_1_8_SNAPSHOT
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher

log = logging.getLogger(__name__)

RELAY_TIMEOUT_SECONDS = 10.0
STATUS_TIMEOUT_SECONDS = 5.0


class RelayHandlers:
    def __init__(
        self,
        state: BrokerState,
        *,
        relay_timeout_seconds: float = RELAY_TIMEOUT_SECONDS,
        status_timeout_seconds: float = STATUS_TIMEOUT_SECONDS,
    ) -> None:
        self._state = state
        self._relay_timeout_seconds = relay_timeout_seconds
        self._status_timeout_seconds = status_timeout_seconds

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.GET_CONSUMER_RUNNING_INFO, self.running_info)
        dispatcher.register(RequestCode.CONSUME_MESSAGE_DIRECTLY, self.consume_directly)
        dispatcher.register(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, self.consumer_status)

    def running_info(self, channel: Channel, command: Command) -> Future[bytes]:
        header = headers.read_one_consumer(command)
        return self._relay(command, header.consumerGroup, header.clientId, command.fields(), command.body)

    def consume_directly(self, channel: Channel, command: Command) -> Future[bytes]:
        """The consumer is given the message itself."""
        header = headers.read_consume_directly(command)
        record = self._record(header.msgId)
        fields = {**command.fields(), "brokerName": self._state.config.broker_name}
        topic = self._state.topics.get(header.topic) if header.topic else None
        if topic is not None:
            fields["topicSysFlag"] = str(topic.topic_sys_flag)
        group = self._state.groups.get(header.consumerGroup)
        if group is not None:
            fields["groupSysFlag"] = str(group.group_sys_flag)
        return self._relay(command, header.consumerGroup, header.clientId, fields, record)

    def _record(self, message_id: str | None) -> bytes:
        try:
            offset = parse_offset_id(message_id or "").physical_offset
        except ValueError:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"msgId {message_id!r} is not the id of a stored message"
            ) from None
        log_of_messages = self._state.store.log
        record = log_of_messages.record_at(offset)
        if record is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        return bytes(log_of_messages.read(offset, record.size))

    def _relay(
        self, command: Command, group: str, client_id: str | None, fields: Mapping[str, str], body: bytes
    ) -> Future[bytes]:
        client = self._state.clients.find_consumer(group, client_id) if client_id else None
        if client is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id or 'null'}> not online"
            )
        if client.version < V3_1_8_SNAPSHOT:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{client.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT",
            )
        return asyncio.ensure_future(self._ask_consumer(command, group, client, fields, body))

    async def _ask_consumer(
        self, command: Command, group: str, client: ClientInfo[Channel], fields: Mapping[str, str], body: bytes
    ) -> bytes:
        """The consumer's answer as it is."""
        try:
            answer = await client.channel.request(
                command.code, fields, body, timeout_seconds=self._relay_timeout_seconds
            )
        except RequestTimedOut as error:
            raise RequestRefused(
                ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{client.client_id}> Timeout: {error}"
            ) from None
        except ApogeeError as error:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"invoke consumer <{group}> <{client.client_id}> Exception: {error}"
            ) from None
        return encode_reply(command, answer.code, answer.remark, answer.fields(), answer.body)

    # -- offsets as consumers see them -----------------------------------------------------------------------

    def consumer_status(self, channel: Channel, command: Command) -> Future[bytes]:
        header = headers.read_consumer_status(command)
        group = self._state.clients.consumer_group(header.group)
        if group is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]"
            )
        wanted = (header.clientAddr or "").strip()  # a client id, whatever the field is called
        clients = [client for client in group.clients.values() if not wanted or client.client_id == wanted]
        for client in clients:
            if client.version < V3_0_7_SNAPSHOT:
                raise RequestRefused(
                    ResponseCode.SYSTEM_ERROR, f"the client does not support this feature. version={client.version}"
                )
        return asyncio.ensure_future(self._ask_for_status(command, header, clients))

    async def _ask_for_status(
        self, command: Command, header: headers.ConsumerStatus, clients: list[ClientInfo[Channel]]
    ) -> bytes:
        fields = {"topic": header.topic, "group": header.group}
        statuses = await asyncio.gather(*(self._status_of(client, fields) for client in clients))
        told = {
            client.client_id: status for client, status in zip(clients, statuses, strict=True) if status is not None
        }
        # Apache forgets to clear this remark on success; kept, so that answers are equal.
        return encode_reply(command, remark="not set any response code", body=bodies.encode_consumer_statuses(told))

    async def _status_of(self, client: ClientInfo[Channel], fields: Mapping[str, str]) -> Pairs | None:
        """None when the consumer does not say."""
        try:
            answer = await client.channel.request(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields, timeout_seconds=self._status_timeout_seconds
            )
            if answer.code == ResponseCode.SUCCESS and answer.body:
                return bodies.decode_consumer_status(answer.body)
        except ApogeeError as error:
            log.warning("no status of consumer %s: %s", client.client_id, error)
        return None
