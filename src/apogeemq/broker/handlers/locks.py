"""Locks of queues that are consumed in order."""

from __future__ import annotations

from apogeemq.broker.state import BrokerState
from apogeemq.protocol.bodies import clients as bodies
from apogeemq.protocol.bodies.locks import LockedQueues, decode_lock_request
from apogeemq.protocol.codec import encode_ok, encode_reply
from apogeemq.protocol.codes import RequestCode
from apogeemq.protocol.command import Command
from apogeemq.transport.channel import Channel
from apogeemq.transport.dispatch import Dispatcher


class LockHandlers:
    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def install(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(RequestCode.LOCK_BATCH_MQ, self.lock)
        dispatcher.register(RequestCode.UNLOCK_BATCH_MQ, self.unlock)

    def lock(self, channel: Channel, command: Command) -> bytes:
        request = decode_lock_request(command.body)
        locks, now_ms = self._state.locks, self._state.now_ms()
        held = locks.lock_batch(request.group, request.client_id, request.queues, now_ms)
        return encode_ok(command, bodies.encode(LockedQueues(held)))

    def unlock(self, channel: Channel, command: Command) -> bytes:
        request = decode_lock_request(command.body)
        self._state.locks.unlock_batch(request.group, request.client_id, request.queues)
        return encode_reply(command)
