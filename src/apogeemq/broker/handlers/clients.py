"""What clients say of themselves, and who asks about them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from apogeemq.broker.notices import notify_ids_changed
from apogeemq.broker.state import BrokerState
from apogeemq.broker.tables.clients import ClientInfo, IdsChanged
from apogeemq.errors import RequestRefused
from apogeemq.filter.subscriptions import is_tag_type
from apogeemq.model.subscriptions import CONSUME_ACTIVELY
from apogeemq.model.topics import FLAG_UNIT_SUB, PERM_READ_WRITE, retry_topic
from apogeemq.protocol.bodies import clients as bodies
from apogeemq.protocol.bodies.heartbeat import ConsumerData, Heartbeat, decode_check, decode_heartbeat
from apogeemq.protocol.codec import encode_ok, encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import LANGUAGES, Command
from apogeemq.protocol.headers import clients as headers
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher

log = logging.getLogger(__name__)

MAX_HEARTBEAT_SIZE = 4 * 1024 * 1024  # one subscription is some 200 bytes

_SUPPORTS_V2 = "IS_SUPPORT_HEART_BEAT_V2"
_IS_SUBSCRIPTION_CHANGED = "IS_SUB_CHANGE"


class ClientHandlers:
    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.HEART_BEAT, self.heartbeat)
        dispatcher.register(RequestCode.UNREGISTER_CLIENT, self.unregister)
        dispatcher.register(RequestCode.CHECK_CLIENT_CONFIG, self.check_config)
        dispatcher.register(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self.consumer_ids)
        dispatcher.register(RequestCode.GET_CONSUMER_CONNECTION_LIST, self.consumer_connections)
        dispatcher.register(RequestCode.GET_PRODUCER_CONNECTION_LIST, self.producer_connections)
        dispatcher.register(RequestCode.GET_ALL_PRODUCER_INFO, self.all_producers)

    # -- from clients ----------------------------------------------------------------------------------------

    def heartbeat(self, channel: Channel, command: Command) -> bytes:
        if len(command.body) > MAX_HEARTBEAT_SIZE:
            raise _refused(f"the heartbeat is longer than {MAX_HEARTBEAT_SIZE} bytes")
        heartbeat = decode_heartbeat(command.body)
        problem = self._state.clients.limit_problem(channel.number, heartbeat)
        if problem is not None:
            raise _refused(problem)
        now_ms = self._state.now_ms()
        client = ClientInfo(channel, heartbeat.client_id, _language(command), command.version, now_ms)
        needs_subscriptions = [
            self._take_consumer(data, client, heartbeat)
            for data in heartbeat.consumers
            if not (self._state.config.reject_pull_consumer_enable and data.consume_type == CONSUME_ACTIVELY)
        ]
        for group in heartbeat.producer_groups:
            self._state.clients.register_producer(group, client)
        # The first version knows no heartbeat without subscriptions: Apache tells it they changed, always.
        is_changed = heartbeat.fingerprint == 0 or any(needs_subscriptions)
        fields = {_SUPPORTS_V2: "true", _IS_SUBSCRIPTION_CHANGED: "true" if is_changed else "false"}
        return encode_reply(command, fields=fields)

    def _take_consumer(self, data: ConsumerData, client: ClientInfo[Channel], heartbeat: Heartbeat) -> bool:
        """Says whether the client must send its subscriptions. A group that may not be made is passed over."""
        state = self._state
        group = state.groups.find(data.group, client.last_seen_ms)
        if group is None:
            return False
        keeps_subscriptions = heartbeat.fingerprint != 0 and heartbeat.without_sub
        known = state.clients.consumer_group(data.group) if keeps_subscriptions else None
        topics = known.subscriptions if known is not None else [given.topic for given in data.subscriptions]
        state.topics.ensure(
            retry_topic(data.group),
            group.retry_queue_nums,
            PERM_READ_WRITE,
            FLAG_UNIT_SUB if data.unit_mode else 0,
            client.last_seen_ms,
            order=any(map(self._is_ordered, topics)),
        )
        registered = state.clients.register_consumer(
            data,
            client,
            is_notified=group.notify_consumer_ids_changed_enable,
            fingerprint=heartbeat.fingerprint,
            keeps_subscriptions=keeps_subscriptions,
        )
        if registered.change is not None:
            log.info("group %s has changed: client %s at %s", data.group, client.client_id, client.channel.peer)
            self._notify([registered.change])
        return registered.needs_subscriptions

    def _is_ordered(self, topic: str) -> bool:
        config = self._state.topics.get(topic)
        return config is not None and config.order

    def unregister(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_unregister_client(command)
        if header.producerGroup is not None:
            self._state.clients.unregister_producer(header.producerGroup, channel.number)
        if header.consumerGroup is not None:
            change = self._state.clients.unregister_consumer(header.consumerGroup, channel.number)
            self._notify([change] if change is not None else ())
        return encode_reply(command)

    def check_config(self, channel: Channel, command: Command) -> bytes:
        subscription = decode_check(command.body).subscription
        if subscription is not None and not is_tag_type(subscription.expression_type):
            raise _refused(f"The broker does not support consumer to filter message by {subscription.expression_type}")
        return encode_reply(command)

    # -- what happens to connections -------------------------------------------------------------------------

    def channel_closed(self, channel: Channel) -> None:
        self._notify(self._state.clients.channel_closed(channel.number))

    def expire(self) -> None:
        """To be called every few seconds."""
        expired = self._state.clients.expire(self._state.now_ms(), self._state.config.channel_expired_timeout)
        for channel in expired.abandoned:
            log.warning("no heartbeat of %s for long: the connection is closed", channel.peer)
            channel.close()
        self._notify(expired.changes)
        self._state.locks.expire(self._state.now_ms())

    def _notify(self, changes: Iterable[IdsChanged[Channel]]) -> None:
        if self._state.config.notify_consumer_ids_changed_enable:
            notify_ids_changed(changes)

    # -- about clients ---------------------------------------------------------------------------------------

    def consumer_ids(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_consumer_group(command)
        group = self._state.clients.consumer_group(header.consumerGroup)
        if group is None:
            raise _refused(f"no consumer for this group, {header.consumerGroup}")
        return encode_ok(command, bodies.encode(bodies.ConsumerIds(group.client_ids)))

    def consumer_connections(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_consumer_group(command)
        group = self._state.clients.consumer_group(header.consumerGroup)
        if group is None:
            raise RequestRefused(
                ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{header.consumerGroup}] not online"
            )
        body = bodies.ConsumerConnection(
            connectionSet=[_connection(client) for client in group.clients.values()],
            consumeFromWhere=group.consume_from_where,
            consumeType=group.consume_type,
            messageModel=group.message_model,
            subscriptionTable=group.subscriptions,
        )
        return encode_ok(command, bodies.encode(body))

    def producer_connections(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_producer_group(command)
        clients = self._state.clients.producers.get(header.producerGroup)
        if clients is None:
            raise _refused(f"the producer group[{header.producerGroup}] not exist")
        body = bodies.ProducerConnection([_connection(client) for client in clients.values()])
        return encode_ok(command, bodies.encode(body))

    def all_producers(self, channel: Channel, command: Command) -> bytes:
        table = {
            group: [_producer_info(client) for client in clients.values()]
            for group, clients in self._state.clients.producers.items()
        }
        return encode_ok(command, bodies.encode(bodies.ProducerTable(table)))


def _refused(remark: str) -> RequestRefused:
    return RequestRefused(ResponseCode.SYSTEM_ERROR, remark)


def _language(command: Command) -> str:
    """As a word; what is not known is another language."""
    return command.language if isinstance(command.language, str) and command.language in LANGUAGES else "OTHER"


def _connection(client: ClientInfo[Channel]) -> bodies.Connection:
    return bodies.Connection(client.channel.peer, client.client_id, client.language, client.version)


def _producer_info(client: ClientInfo[Channel]) -> bodies.ProducerInfo:
    return bodies.ProducerInfo(
        client.client_id,
        client.language,
        client.last_seen_ms,
        f"/{client.channel.peer}",  # as Java writes an address that has no host name
        client.version,
    )
