"""What the producers and consumers of one process share: connections, routes, heartbeats.

One instance for each client id and event loop. It is started by the first producer or consumer that joins and stopped
when the last one has left.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import time
from ipaddress import ip_address
from typing import Final, Protocol

from apogeemq.client.answers import ClientAnswers
from apogeemq.client.broker_calls import BrokerCalls
from apogeemq.client.options import ClientOptions
from apogeemq.client.producing.connections import Connections
from apogeemq.client.route_cache import RouteCache
from apogeemq.errors import ApogeeError, NoRoute, RouteCause, WrongState
from apogeemq.protocol.bodies.heartbeat import ConsumerData, Heartbeat
from apogeemq.protocol.signing import signed
from apogeemq.runtime.tasks import Tasks
from apogeemq.runtime.unique_ids import UniqueIds
from apogeemq.transport.addresses import format_address, parse_address, split_addresses
from apogeemq.transport.discovery import find_source, given_addresses
from apogeemq.transport.dispatch import Dispatcher
from apogeemq.transport.name_servers import NameServerClient
from apogeemq.transport.pool import ConnectionPool, SendHook
from apogeemq.transport.reachability import local_address
from apogeemq.transport.signing import signing_hooks
from apogeemq.transport.tls import TlsSettings, client_context

log = logging.getLogger(__name__)

_VIP_STEP: Final = -2
_UNREGISTER_SECONDS: Final = 3.0
_TELL_AGAIN_SECONDS: Final = 1.0

_numbers = itertools.count(1)


class ProducerMember(Protocol):
    @property
    def group(self) -> str: ...


class ConsumerMember(Protocol):
    @property
    def group(self) -> str: ...

    def consumer_data(self) -> ConsumerData | None:
        """None: brokers need not know of it."""
        ...

    def routes_changed(self, topic: str) -> None: ...

    def ids_changed(self) -> None: ...


class ClientInstance:
    """Belongs to one event loop. Made by `joined_instance` only."""

    def __init__(self, name_server: str, options: ClientOptions) -> None:
        self.options = options
        self.name_server = name_server
        self.client_id = _client_id(options, f"{os.getpid()}#{time.monotonic_ns()}{next(_numbers)}")
        # The same after a restart: what a client keeps on its own machine is found by it.
        self.lasting_id = _client_id(options, "DEFAULT")
        self.dispatcher = Dispatcher()
        tls = TlsSettings.from_properties(options.tls)
        self.pool = ConnectionPool(
            self.dispatcher,
            tls=client_context(tls) if tls.client_enabled else None,
            connect_timeout_seconds=options.connect_timeout_seconds,
            unacknowledged_seconds=options.unacknowledged_seconds,
            may_be_late=self._is_name_server,
            before_send=self._signers(),
            on_opened=self._connection_opened,
            on_closed=self._connection_closed,
        )
        self.name_servers = NameServerClient(self.pool, find_source(name_server, os.environ, options.unit_name))
        self.routes = RouteCache(self.pool, self.name_servers, self._route_changed)
        self.calls = BrokerCalls(self.pool, options.request_timeout_seconds, self._reached_at, self._mapped)
        self.connections = Connections(self.pool, options.address_map)
        self.unique_ids = UniqueIds(_address_bytes(options.client_ip or local_address()))
        self.producers: dict[str, ProducerMember] = {}
        self.consumers: dict[str, ConsumerMember] = {}
        ClientAnswers(self.consumers).install(self.dispatcher)
        self._tasks = Tasks()
        self._heard_of: set[str] = set()  # brokers that have had a heartbeat
        self._beating = asyncio.Lock()
        self._told_again_at: dict[str, float] = {}
        self._being_told: set[str] = set()  # brokers to which a heartbeat is on its way
        self._is_running = False

    # -- members ---------------------------------------------------------------------------------------------

    def add_producer(self, producer: ProducerMember) -> None:
        """WrongState when the group has a producer here already: brokers could not tell them apart."""
        if producer.group in self.producers:
            raise WrongState(_in_use("producer", producer.group))
        self.producers[producer.group] = producer
        self._start()

    def add_consumer(self, consumer: ConsumerMember) -> None:
        if consumer.group in self.consumers:
            raise WrongState(_in_use("consumer", consumer.group))
        self.consumers[consumer.group] = consumer
        self._start()

    async def remove_producer(self, producer: ProducerMember) -> None:
        if self.producers.get(producer.group) is producer:
            del self.producers[producer.group]
            try:
                await self._unregister(producer.group, None)
            finally:
                await self._stop_if_empty()

    async def remove_consumer(self, consumer: ConsumerMember) -> None:
        if self.consumers.get(consumer.group) is consumer:
            del self.consumers[consumer.group]
            try:
                await self._unregister(None, consumer.group)
            finally:
                await self._stop_if_empty()

    # -- life ------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        self._tasks.repeat(lambda: 1.0, self._tick)
        self._tasks.repeat(lambda: self.options.route_poll_seconds, self.routes.refresh_all)
        self._tasks.repeat(lambda: self.options.heartbeat_seconds, self.heartbeat)
        if self.options.watches_routes:
            self._tasks.spawn(self.routes.watch())

    async def _stop_if_empty(self) -> None:
        if self.producers or self.consumers or not self._is_running:
            return
        self._is_running = False
        _forget_instance(self)
        async with contextlib.AsyncExitStack() as ending:  # all of it, also when we are cancelled meanwhile
            for end in (self.pool.close, self.name_servers.close, self.routes.close, self._tasks.cancel_all):
                ending.push_async_callback(end)

    async def _tick(self) -> None:
        self.pool.tick()
        self.name_servers.tick()

    # -- heartbeats ------------------------------------------------------------------------------------------

    async def heartbeat(self) -> None:
        """Tell every broker that serves a topic of ours who we are; one that does not answer is told next time."""
        async with self._beating:
            addresses = self.routes.broker_addresses(only_masters=not self.consumers)
            await asyncio.gather(*(self._beat(address) for address in addresses))
            self._heard_of &= addresses

    async def heartbeat_to_new(self) -> None:
        """Only those who have not heard of us yet."""
        async with self._beating:
            addresses = self.routes.broker_addresses(only_masters=not self.consumers) - self._heard_of
            await asyncio.gather(*(self._beat(address) for address in addresses))

    async def _beat(self, address: str) -> None:
        told = (consumer.consumer_data() for consumer in self.consumers.values())
        heartbeat = Heartbeat(self.client_id, list(self.producers), [data for data in told if data is not None])
        if not heartbeat.producer_groups and not heartbeat.consumers:
            return
        self._being_told.add(address)
        try:
            await self.calls.heartbeat(address, heartbeat)
            self._heard_of.add(address)
        except ApogeeError as error:
            self._heard_of.discard(address)
            log.warning("no heartbeat to %s: %s", address, error)
        finally:
            self._being_told.discard(address)

    def _connection_closed(self, target: str) -> None:
        """A broker forgets a client with its connection. Consumers are out of their groups until it is told again."""
        for address in [address for address in self._heard_of if self._mapped(address) == target]:
            self._heard_of.discard(address)
            if self.consumers and self._is_running:
                self._tasks.spawn(self._tell_again(address))

    async def _tell_again(self, address: str) -> None:
        """At once, but not time after time to a broker that ends every connection."""
        moment = asyncio.get_running_loop().time()
        told_at, self._told_again_at[address] = self._told_again_at.get(address), moment
        if told_at is not None and moment < told_at + _TELL_AGAIN_SECONDS:
            await asyncio.sleep(_TELL_AGAIN_SECONDS)
        if address not in self._heard_of:
            await self._beat(address)

    def _connection_opened(self, target: str) -> None:
        """Whoever made it, and whenever: the broker hears of us before the next round of heartbeats."""
        if not self._is_running:
            return
        unaware = self.routes.broker_addresses(only_masters=not self.consumers) - self._heard_of - self._being_told
        for address in unaware:
            if self._mapped(address) == target:
                self._tasks.spawn(self._beat(address))

    async def _unregister(self, producer_group: str | None, consumer_group: str | None) -> None:
        addresses = tuple(self._heard_of)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_UNREGISTER_SECONDS):
                await asyncio.gather(
                    *(
                        self.calls.unregister(address, self.client_id, producer_group, consumer_group)
                        for address in addresses
                    ),
                    return_exceptions=True,
                )

    # -- routes and addresses --------------------------------------------------------------------------------

    def _is_name_server(self, address: str) -> bool:
        return address in self.name_servers.book.addresses

    def _route_changed(self, topic: str) -> None:
        for consumer in self.consumers.values():
            consumer.routes_changed(topic)
        if self._is_running:
            self._tasks.spawn(self.heartbeat_to_new())

    def master_of(self, broker_name: str) -> str | None:
        return self.routes.masters.get(broker_name)

    async def find_master(self, broker_name: str, topic: str) -> str:
        """Of a broker that serves a topic; one that is not known may be in a newer route. Raises NoRoute."""
        found = self.master_of(broker_name)
        if found is None:
            await (self.routes.get(topic) if self.routes.known(topic) is None else self.routes.refresh(topic))
            found = self.master_of(broker_name)
        if found is not None:
            return found
        if self.routes.address(broker_name) is not None:
            raise NoRoute(f"only slaves of the broker {broker_name} are registered", RouteCause.NO_MASTER)
        raise NoRoute(f"the broker {broker_name} has no master that is known")

    def _mapped(self, address: str) -> str:
        return self.options.address_map.get(address, address)

    def _reached_at(self, address: str) -> str:
        mapped = self._mapped(address)
        if not self.options.uses_vip_channel:
            return mapped
        host, port = parse_address(mapped)
        return format_address(host, port + _VIP_STEP)

    def _signers(self) -> list[SendHook]:
        options = self.options
        if not options.access_key:
            return signing_hooks(os.environ)
        return [
            lambda code, fields, body: signed(
                fields, body, options.access_key, options.secret_key, options.security_token
            )
        ]


def _in_use(kind: str, group: str) -> str:
    return (
        f"the {kind} group {group} is in use in this process already; "
        "a second member of it needs an `instance_name` of its own (ClientOptions)"
    )


_instances: dict[tuple[asyncio.AbstractEventLoop, str, str], ClientInstance] = {}


def joined_instance(name_server: str, options: ClientOptions) -> ClientInstance:
    """The instance of this process and loop for these servers and options; made when there is none.

    The servers are the same in whatever order they are written, and whether here or in the environment.
    """
    for key in [key for key in _instances if key[0].is_closed()]:
        del _instances[key]  # left behind by a program that was torn off
    servers = ";".join(sorted(split_addresses(given_addresses(name_server, os.environ))))
    key = (asyncio.get_running_loop(), servers, repr(options))
    found = _instances.get(key)
    if found is None:
        found = _instances[key] = ClientInstance(name_server, options)
    return found


def _forget_instance(instance: ClientInstance) -> None:
    for key in [key for key, known in _instances.items() if known is instance]:
        del _instances[key]


def _client_id(options: ClientOptions, default_name: str) -> str:
    """`address@instance[@unit]`, as brokers and tools show it."""
    name = options.instance_name or default_name
    parts = [options.client_ip or local_address(), name, *([options.unit_name] if options.unit_name else [])]
    return "@".join(parts)


def _address_bytes(host: str) -> bytes:
    try:
        return ip_address(host).packed
    except ValueError:
        return bytes((127, 0, 0, 1))  # a name somebody chose: ids need only differ
