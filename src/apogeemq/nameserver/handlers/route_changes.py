"""What administrators and brokers change one by one: topics and write permissions."""

from __future__ import annotations

from apogeemq.nameserver.registry import Registry
from apogeemq.protocol import javajson
from apogeemq.protocol.bodies.routes import WireRoute, wire_queue_settings
from apogeemq.protocol.codec import encode_reply
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.protocol.headers import nameserver as headers
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher


class RouteChangeHandlers:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.WIPE_WRITE_PERM_OF_BROKER, self.wipe_write_permission)
        dispatcher.register(RequestCode.ADD_WRITE_PERM_OF_BROKER, self.add_write_permission)
        dispatcher.register(RequestCode.DELETE_TOPIC_IN_NAMESRV, self.delete_topic)
        dispatcher.register(RequestCode.REGISTER_TOPIC_IN_NAMESRV, self.register_topic)

    def wipe_write_permission(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_broker_name(command)
        count, outcome = self._registry.table.wipe_write_permission(header.brokerName)
        self._registry.apply(outcome)
        return encode_reply(command, fields={"wipeTopicCount": str(count)})

    def add_write_permission(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_broker_name(command)
        count, outcome = self._registry.table.add_write_permission(header.brokerName)
        self._registry.apply(outcome)
        return encode_reply(command, fields={"addTopicCount": str(count)})

    def delete_topic(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_delete_topic(command)
        self._registry.apply(self._registry.table.delete_topic(header.topic, header.clusterName or None))
        return encode_reply(command)

    def register_topic(self, channel: Channel, command: Command) -> bytes:
        header = headers.read_topic_only(command)
        if command.body:
            wire = javajson.loads(command.body, WireRoute)
            queues = {queue.brokerName: wire_queue_settings(queue) for queue in wire.queueDatas}
            self._registry.apply(self._registry.table.register_topic(header.topic, queues))
        return encode_reply(command)
