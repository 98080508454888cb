"""What brokers say: register, unregister, heartbeat, data version; and who else is in their group."""

from __future__ import annotations

import msgspec
from isal.isal_zlib import crc32

from apogeemq.errors import ProtocolError, RequestRefused
from apogeemq.model.routes import DataVersion
from apogeemq.model.topics import ORDER_TOPIC_NAMESPACE
from apogeemq.nameserver.registering import Registered, is_nothing_new, known_index, refresh, register
from apogeemq.nameserver.registry import Registry
from apogeemq.protocol import javajson
from apogeemq.protocol.bodies import routes
from apogeemq.protocol.bodies.registration import decode_registration
from apogeemq.protocol.bodies.registration_index import RegistrationIndex
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.fields import write_fields
from apogeemq.protocol.headers import nameserver as headers
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher

_CRC_MASK = 0x7FFFFFFF  # Java keeps the sign bit out


class BrokerHandlers:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.REGISTER_BROKER, self.register)
        dispatcher.register(RequestCode.UNREGISTER_BROKER, self.unregister)
        dispatcher.register(RequestCode.QUERY_DATA_VERSION, self.query_data_version)
        dispatcher.register(RequestCode.BROKER_HEARTBEAT, self.heartbeat)
        dispatcher.register(RequestCode.GET_BROKER_MEMBER_GROUP, self.member_group)

    def register(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_register_broker(command)
        registry, body = self._registry, command.body
        if header.bodyCrc32 != 0 and crc32(body) & _CRC_MASK != header.bodyCrc32:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        registered = self._take(channel, command, header)
        if not registered.is_accepted:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "register broker failed")
        order_conf = None
        if registry.config.return_order_topic_config_to_broker:
            order_conf = registry.kv.encoded_namespace(ORDER_TOPIC_NAMESPACE)
        fields = write_fields(headers.RegisterBrokerReply(registered.ha_address, registered.master_address))
        return encode_reply(command, fields=fields, body=order_conf or b"")

    def _take(self, channel: Channel, command: Command, header: headers.RegisterBroker) -> Registered:
        registry, table, body = self._registry, self._registry.table, command.body
        identity = (command.version, *msgspec.structs.astuple(header)[:-2])  # all but the checksum and the zone
        must_read_whole = registry.config.delete_topic_with_broker_registration  # what is absent counts
        index = None if must_read_whole else known_index(table, header, identity)
        registration = index.read_changes(body) if index is not None else None
        if registration is None:
            try:
                registration = decode_registration(body, command.version, header.compressed)
            except ProtocolError as error:
                raise RequestRefused(
                    ResponseCode.SYSTEM_ERROR, f"Failed to decode RegisterBrokerBody: {error}"
                ) from None
            index = RegistrationIndex.of(body)
        elif is_nothing_new(table, header, registration):
            return refresh(table, header, channel.number, registry.now_ms())
        registered = register(
            table,
            header,
            registration,
            channel.number,
            registry.now_ms(),
            identity=identity,
            index=index,
            delete_missing_topics=must_read_whole,
        )
        registry.apply(registered.outcome)
        return registered

    def unregister(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_broker_identity(command)
        key = (header.clusterName, header.brokerAddr)
        self._registry.apply(self._registry.table.unregister(key, channel.number, header.brokerName))
        return encode_reply(command)

    def query_data_version(self, channel: Channel, command: Command) -> bytes:
        """Tells a broker whether it must register. One that is only restored must, whatever its version."""
        header = headers.read_broker_identity(command)
        table = self._registry.table
        key = (header.clusterName, header.brokerAddr)
        given = javajson.loads(command.body, DataVersion) if command.body else DataVersion()
        live = table.live.get(key)
        is_changed = live is None or live.is_restored or live.data_version != given
        table.heartbeat(key, self._registry.now_ms())
        body = b"" if live is None else msgspec.json.encode(live.data_version)
        return encode_reply(command, fields={"changed": "true" if is_changed else "false"}, body=body)

    def heartbeat(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_broker_heartbeat(command)
        self._registry.table.heartbeat((header.clusterName, header.brokerAddr), self._registry.now_ms())
        return encode_reply(command)

    def member_group(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_broker_member_group(command)
        group = self._registry.table.brokers.get(header.brokerName)
        addresses = dict(sorted(group.addresses.items())) if group is not None else {}
        body = {
            "brokerMemberGroup": {
                "brokerAddrs": addresses,
                "brokerName": header.brokerName,
                "cluster": header.clusterName,
            }
        }
        # Apache forgets to clear this remark on success; kept, so that answers are equal.
        return encode_reply(command, remark="not set any response code", body=routes.encode(body, standard=False))
