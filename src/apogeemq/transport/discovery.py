"""Where the list of name servers comes from: a list, the environment, an address server over HTTP, or DNS."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Mapping
from typing import Final, Protocol

from apogeemq.errors import ConfigError, NoNameServer
from apogeemq.transport.addresses import format_address, parse_address, parse_addresses, split_addresses

ADDRESS_KEY: Final = "rocketmq.namesrv.addr"
ADDRESS_VARIABLE: Final = "NAMESRV_ADDR"
DOMAIN_KEY: Final = "rocketmq.namesrv.domain"
SUBGROUP_KEY: Final = "rocketmq.namesrv.domain.subgroup"

DEFAULT_DOMAIN: Final = "jmenv.tbsite.net"
DEFAULT_SUBGROUP: Final = "nsaddr"
DEFAULT_DOMAIN_PORT: Final = 8080

REFRESH_SECONDS: Final = 120
FETCH_TIMEOUT_SECONDS: Final = 3.0
MAX_ANSWER_SIZE: Final = 64 * 1024  # thousands of addresses; more is not a list of name servers

_DNS = re.compile(r"dns:(?://[^/]*/)?", re.IGNORECASE)
_ADDRESS_SERVER = re.compile(r"https?://[^/]+/.", re.IGNORECASE)  # a path after the host: not a name server itself


class AddressSource(Protocol):
    """Gives the addresses known now. `refresh_seconds` None: they will never be others."""

    @property
    def refresh_seconds(self) -> int | None: ...

    async def fetch(self) -> list[str]:
        """Raises NoNameServer, saying why there are none."""
        ...


class ListedAddresses:
    """A list a person wrote: `a:9876;b:9876`. An entry `dns:name:port` stands for all addresses of that name."""

    def __init__(self, text: str) -> None:
        self._entries: list[str] = []
        self._names: list[tuple[str, int]] = []
        for part in split_addresses(text):
            prefix = _DNS.match(part)
            if prefix:
                self._names.append(parse_address(part[prefix.end() :]))
            else:
                self._entries += parse_addresses(part)
        if not self._entries and not self._names:
            raise ConfigError(f"the name server list {text!r} names no address, expected host:port;host:port")

    @property
    def refresh_seconds(self) -> int | None:
        return REFRESH_SECONDS if self._names else None

    async def fetch(self) -> list[str]:
        found, problems = list(self._entries), []
        for host, port in self._names:
            try:
                found += await _resolve(host, port)
            except NoNameServer as error:
                problems.append(str(error))
        if not found:
            raise NoNameServer("; ".join(problems))
        return found


class HttpAddressServer:
    """Apache's address server: a URL whose answer's first line is the list."""

    refresh_seconds = REFRESH_SECONDS

    def __init__(self, url: str, timeout_seconds: float = FETCH_TIMEOUT_SECONDS) -> None:
        if not url.lower().startswith(("http://", "https://")):
            raise ConfigError(f"the address server {url!r} is not an http:// or https:// URL")
        self.url = url
        self._timeout_seconds = timeout_seconds

    async def fetch(self) -> list[str]:
        try:
            text = await asyncio.to_thread(_http_get, self.url, self._timeout_seconds)
            lines = text.strip().splitlines()
            addresses = parse_addresses(lines[0]) if lines else []
        except (OSError, ConfigError) as error:
            raise NoNameServer(f"the address server {self.url} failed: {error}") from None
        if not addresses:
            raise NoNameServer(f"the address server {self.url} knows no name server")
        return addresses


def address_server_url(settings: Mapping[str, str], unit_name: str = "") -> str:
    """The URL by Apache's convention (`jmenv`), from settings or environment variables."""
    domain = _setting(settings, DOMAIN_KEY) or DEFAULT_DOMAIN
    subgroup = _setting(settings, SUBGROUP_KEY) or DEFAULT_SUBGROUP
    if ":" not in domain:
        domain = f"{domain}:{DEFAULT_DOMAIN_PORT}"
    suffix = f"-{unit_name.strip()}?nofix=1" if unit_name.strip() else ""
    return f"http://{domain}/rocketmq/{subgroup}{suffix}"


def given_addresses(explicit: str, settings: Mapping[str, str]) -> str:
    """The list or URL that counts; empty when there is none."""
    return explicit.strip() or settings.get(ADDRESS_KEY, "").strip() or settings.get(ADDRESS_VARIABLE, "").strip()


def find_source(explicit: str, settings: Mapping[str, str], unit_name: str = "") -> AddressSource:
    """Apache's order: what was given, the setting, the environment variable, the address server.

    `settings` holds whatever of properties and environment the caller lets count. What was given may also be the
    URL of an address server. Raises ConfigError.
    """
    text = given_addresses(explicit, settings)
    if not text:
        return HttpAddressServer(address_server_url(settings, unit_name))
    if _ADDRESS_SERVER.match(text):
        return HttpAddressServer(text)
    return ListedAddresses(text)


def _setting(settings: Mapping[str, str], key: str) -> str:
    """By its name, or as shells can spell it: ROCKETMQ_NAMESRV_DOMAIN."""
    return (settings.get(key) or settings.get(key.upper().replace(".", "_")) or "").strip()


async def _resolve(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(FETCH_TIMEOUT_SECONDS):
            records = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise NoNameServer(f"DNS gave no answer for {host} in {FETCH_TIMEOUT_SECONDS:g} s") from None
    except OSError as error:
        raise NoNameServer(f"DNS knows no address of {host}: {error.strerror or error}") from None
    return [format_address(str(record[4][0]), port) for record in records]


def _http_get(url: str, timeout_seconds: float) -> str:
    """The body of a 200 answer. Raises OSError. Blocks: for a worker thread."""
    from http.client import HTTPException  # here, because few processes need HTTP and it takes megabytes
    from urllib.error import HTTPError
    from urllib.request import ProxyHandler, build_opener

    give_up_at = time.monotonic() + timeout_seconds
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=timeout_seconds) as answer:
            if answer.status != 200:
                raise OSError(f"status {answer.status}")
            body = b""
            while piece := answer.read1(MAX_ANSWER_SIZE):
                body += piece
                if len(body) > MAX_ANSWER_SIZE:
                    raise OSError(f"the answer is longer than {MAX_ANSWER_SIZE} bytes")
                if time.monotonic() > give_up_at:
                    raise OSError(f"the answer is not complete after {timeout_seconds:g} s")
    except HTTPError as error:
        error.close()  # it holds the connection
        raise OSError(f"status {error.code}") from None
    except (HTTPException, ValueError) as error:
        raise OSError(f"not HTTP: {error!r}") from None
    return body.decode(errors="replace")
