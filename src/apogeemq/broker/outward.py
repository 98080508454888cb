"""Calls a broker makes itself: to name servers and to other brokers."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
from collections.abc import Callable, Mapping

from apogeemq.broker.config import BrokerConfig
from apogeemq.errors import ConfigError, NoNameServer, RemoteRefused
from apogeemq.model.routes import TopicRoute
from apogeemq.protocol.bodies.routes import decode_route
from apogeemq.protocol.codes import RequestCode, ResponseCode
from apogeemq.protocol.command import Command
from apogeemq.transport.addresses import parse_address, split_addresses
from apogeemq.transport.discovery import (
    DOMAIN_KEY,
    SUBGROUP_KEY,
    AddressSource,
    HttpAddressServer,
    address_server_url,
    find_source,
)
from apogeemq.transport.name_servers import NameServerClient
from apogeemq.transport.pool import REQUEST_TIMEOUT_SECONDS, ConnectionPool
from apogeemq.transport.signing import signing_hooks
from apogeemq.transport.tls import TlsSettings, client_context

log = logging.getLogger(__name__)


class Outward:
    """The connections, and which name servers there are.

    The owner calls `tick` once a second and `close` at the end. A configuration that names other name servers is
    noticed by `tick`.
    """

    def __init__(
        self, config: Callable[[], BrokerConfig], tls_properties: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        tls = TlsSettings.from_properties(tls_properties)
        self.pool = ConnectionPool(
            tls=client_context(tls) if tls.client_enabled else None,
            before_send=signing_hooks(environment),
            on_closed=lambda address: self.on_connection_lost(address),
        )
        self.on_connection_lost: Callable[[str], None] = lambda address: None
        self._config = config
        self._environment = environment
        self._wanted = _wanted(config())
        self._name_servers = self._client()

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses known now."""
        return self._name_servers.book.addresses if self._name_servers is not None else ()

    @property
    def has_name_servers(self) -> bool:
        """Whether there is anywhere to look for name servers, be there any at the moment or not."""
        return self._name_servers is not None

    async def find_name_servers(self) -> None:
        """Look for them now; that there are none is logged."""
        if self._name_servers is not None:
            with contextlib.suppress(NoNameServer):
                await self._name_servers.refresh()

    async def ask_name_server(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> Command:
        """Whichever answers. Raises NoNameServer."""
        if self._name_servers is None:
            raise NoNameServer("no name server address is known: namesrvAddr is not set")
        return await self._name_servers.request(code, fields, body, timeout_seconds=timeout_seconds)

    async def find_route(self, topic: str) -> TopicRoute | None:
        """Who serves a topic; None when nobody does. Raises NoNameServer, RemoteRefused."""
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = await self.ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteRefused(answer.code, answer.remark, "the name server")
        return decode_route(answer.body)

    async def tick(self) -> None:
        """One second has passed. Waits for an answer only when the configuration names another place to look."""
        self.pool.tick()
        if self._name_servers is not None:
            self._name_servers.tick()
        wanted = _wanted(self._config())
        if wanted != self._wanted:
            self._wanted = wanted
            await self._look_elsewhere()

    async def close(self) -> None:
        if self._name_servers is not None:
            await self._name_servers.close()
        await self.pool.close()

    async def _look_elsewhere(self) -> None:
        try:
            client = self._client()
        except ConfigError as error:
            log.error("the name servers stay the same: %s", error)
            return
        old, self._name_servers = self._name_servers, client
        if old is not None:
            await old.close()
        await self.find_name_servers()

    def _client(self) -> NameServerClient | None:
        source = name_server_source(self._config(), self._environment)
        return NameServerClient(self.pool, source) if source is not None else None


def _wanted(config: BrokerConfig) -> tuple[object, ...]:
    """What of the configuration decides which name servers there are."""
    return (
        config.namesrv_addr,
        config.fetch_name_srv_addr_by_dns_lookup,
        config.fetch_namesrv_addr_by_address_server,
        config.rmq_address_server_domain,
        config.rmq_address_server_sub_group,
        config.update_name_server_addr_period,
    )


def name_server_source(config: BrokerConfig, environment: Mapping[str, str]) -> AddressSource | None:
    """None: this broker has no name servers. Raises ConfigError."""
    text = config.namesrv_addr.strip()
    source: AddressSource
    if text:
        source = find_source(_looked_up(text) if config.fetch_name_srv_addr_by_dns_lookup else text, {})
    elif config.fetch_namesrv_addr_by_address_server:
        domain = {
            DOMAIN_KEY: config.rmq_address_server_domain,
            SUBGROUP_KEY: config.rmq_address_server_sub_group,
        }
        settings = {**environment, **{key: value for key, value in domain.items() if value}}
        source = HttpAddressServer(address_server_url(settings))
    else:
        return None
    return source if source.refresh_seconds is None else _RefreshedEvery(source, config.update_name_server_addr_period)


def _looked_up(text: str) -> str:
    """The list with every name marked as one to ask DNS for all addresses of."""
    return ";".join(part if _is_number(part) else f"dns:{part}" for part in split_addresses(text))


def _is_number(address: str) -> bool:
    try:
        ipaddress.ip_address(parse_address(address)[0])
    except (ValueError, ConfigError):
        return False
    return True


class _RefreshedEvery:
    """A source that is asked as often as the configuration says."""

    def __init__(self, source: AddressSource, period_ms: int) -> None:
        self._source = source
        self.refresh_seconds = max(period_ms // 1000, 1)

    async def fetch(self) -> list[str]:
        return await self._source.fetch()
