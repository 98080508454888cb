"""Sends by the thread that waits for them, on a connection of its own: the loop is not woken, nor the thread by it.

This is the usual case alone: the route is known and the broker answers that it has the message. Whatever else comes of
a first attempt is `Sending`'s business, as it is for those the loop makes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import Final

from apogeemq.client.instance import ClientInstance
from apogeemq.client.options import ProducerOptions
from apogeemq.client.producing.destinations import Destinations
from apogeemq.client.producing.outgoing import prepared
from apogeemq.client.producing.queue_choice import LatencyFaults
from apogeemq.client.producing.sending import Attempt, for_one_attempt, send_result
from apogeemq.client.send_answers import send_answer
from apogeemq.errors import ApogeeError
from apogeemq.model.messages import Message, SendResult
from apogeemq.protocol.codes import ResponseCode
from apogeemq.protocol.send_requests import encode_send
from apogeemq.runtime.clock import now_ms
from apogeemq.transport.direct.exchange import Exchange

_SUCCESS: Final = int(ResponseCode.SUCCESS)
_MAX_LANES: Final = 16  # threads beyond these share the loop's connections
_MAX_CONNECTIONS: Final = 32  # of one lane; brokers come and go


def may_send_directly(instance: ClientInstance, options: ProducerOptions) -> bool:
    """Not where a send is more than one request on a plain connection: signed, encrypted, joined with others, or
    measured against those of other threads."""
    client = instance.options
    return not (
        instance.pool.is_encrypted
        or instance.pool.before_send
        or client.uses_vip_channel
        or client.namespace
        or options.joins_sends
        or options.avoids_slow_brokers
        or options.detects_brokers
    )


class _Lane:
    """What one thread at a time sends with: its turn round the queues, its connections."""

    __slots__ = ("connections", "destinations")

    def __init__(self, destinations: Destinations) -> None:
        self.destinations = destinations
        self.connections: dict[str, Exchange] = {}

    def connection(self, address: str, now: float) -> Exchange | None:
        """One that is there still."""
        found = self.connections.get(address)
        if found is not None and not found.is_usable(now):
            self.drop(address)
            return None
        return found

    def drop(self, address: str) -> None:
        dropped = self.connections.pop(address, None)
        if dropped is not None:
            dropped.close()

    def close(self) -> None:
        for address in tuple(self.connections):
            self.drop(address)


class DirectSends:
    """May be used by any number of threads. Whoever makes it sees to it that forked children keep none of its sockets:
    compiled, its class knows no weak references."""

    def __init__(self, instance: ClientInstance, options: ProducerOptions, group: str) -> None:
        self._instance = instance
        self._options = options
        self._group = group
        self._faults = LatencyFaults()  # of nobody: see `may_send_directly`
        self._lanes: list[_Lane] = []
        self._free: list[_Lane] = []
        self._is_closed = False

    def send(self, message: Message) -> SendResult | Attempt | None:
        """None: not like this, and nothing has been sent. Raises MessageIllegal."""
        lane = self._taken()
        if lane is None:
            return None
        try:
            return self._send(lane, message)
        finally:
            self._free.append(lane)
            if self._is_closed:  # in the meantime
                lane.close()

    def _taken(self) -> _Lane | None:
        if self._is_closed:
            return None
        try:
            return self._free.pop()
        except IndexError:
            pass
        if len(self._lanes) >= _MAX_LANES:
            return None
        instance = self._instance
        lane = _Lane(Destinations(instance, self._options, self._faults))
        self._lanes.append(lane)
        return lane

    def _send(self, lane: _Lane, message: Message) -> SendResult | Attempt | None:
        topic, options, destinations = message.topic, self._options, lane.destinations
        info = destinations.known(topic)
        if info is None or not info.queues or message.sharding_key:
            return None
        queue = destinations.next(topic, info)
        master = self._instance.routes.masters.get(queue.broker_name)
        if master is None:
            return None
        address = self._instance.options.address_map.get(master, master)
        born_ms, started = now_ms(), time.monotonic()
        outgoing = prepared(message, self._group, options, self._instance.unique_ids.next(born_ms), born_ms)
        header = outgoing.header
        header.queue_id, header.broker_name = queue.queue_id, queue.broker_name
        most = options.send_timeout_seconds
        seconds = for_one_attempt(options, most, options.retries)
        is_settled, answer, problem = False, None, None
        try:
            connection = lane.connection(address, started) or self._connected(lane, address, seconds)
            opaque = connection.next_opaque()
            answer = connection.ask(opaque, encode_send(header, outgoing.body, opaque), started, seconds)
            if answer.code == _SUCCESS:
                is_settled = True
                return send_result(outgoing, queue, send_answer(answer, master))
            is_settled = answer.code != ResponseCode.GO_AWAY
        except ApogeeError as error:
            problem = error
        finally:
            if not is_settled:  # also when a signal's exception comes in between
                lane.drop(address)
        left = most - (time.monotonic() - started)
        return Attempt(outgoing, message, queue, master, answer, problem, left)

    def _connected(self, lane: _Lane, address: str, seconds: float) -> Exchange:
        if len(lane.connections) >= _MAX_CONNECTIONS:
            lane.close()
        client, limits = self._instance.options, self._instance.pool.limits
        most = min(client.connect_timeout_seconds, seconds)
        unacknowledged_ms = round(client.unacknowledged_seconds * 1000)
        connection = Exchange(address, limits.max_frame_size, most, unacknowledged_ms)
        lane.connections[address] = connection
        return connection

    def close(self) -> None:
        """Sends that are on their way go on."""
        self._is_closed = True
        with contextlib.suppress(IndexError):  # another thread may have taken the last one
            while True:
                self._free.pop().close()

    def descriptors(self) -> Iterable[int]:
        """Of sockets that a forked child must not keep."""
        return [connection.descriptor() for lane in self._lanes for connection in lane.connections.values()]
