"""How processes of a Spark job reach the cluster: the options that source, sink and jobs have in common. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from apogeemq.client.options import ClientOptions
from apogeemq.errors import ConfigError
from apogeemq.spark.options import OptionReader, wrong
from apogeemq.transport.tls import CLIENT_AUTH_KEY, CONFIG_FILE_KEY, ENABLE_KEY, MODE_KEY, TLS_KEYS, TlsSettings

MAX_RETRIES: Final = 1_000
MAX_TIMEOUT_MS: Final = 3_600_000
# The pause before an attempt doubles with each of them, up to this.
MAX_RETRY_DELAY_MS: Final = 5_000

# A broker that comes back elsewhere is found while attempts last, also where name servers do not tell of changes.
_ROUTE_POLL_SECONDS: Final = 10.0

# Of servers, or of files that executors would have to have.
_NOT_OF_CLIENTS: Final = (MODE_KEY, CLIENT_AUTH_KEY, CONFIG_FILE_KEY)
_CLIENT_TLS_KEYS: Final = tuple(
    sorted(key for key in TLS_KEYS if not key.startswith("tls.server.") and key not in _NOT_OF_CLIENTS)
)
_SECRETS: Final = frozenset(("secret_key", "security_token", "tls"))


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """Travels to executors. Equal ones share their connections within a process. Its text shows no secrets."""

    name_server: str
    namespace: str = ""
    access_key: str = ""
    secret_key: str = ""
    security_token: str = ""
    # Keys and values of Apache's `tls.*`.
    tls: tuple[tuple[str, str], ...] = ()
    # From the address a route names to the one to connect to.
    address_map: tuple[tuple[str, str], ...] = ()
    request_timeout_ms: int = 5_000
    connect_timeout_ms: int = 3_000
    # A broker that restarts is away for a moment: attempts after the first, about half a minute of them.
    retries: int = 10
    retry_delay_ms: int = 200

    @classmethod
    def read(cls, options: OptionReader) -> Connection:
        """Raises ConfigError."""
        connection = cls(
            name_server=options.required("nameServer", "the address of a name server, such as 127.0.0.1:9876"),
            namespace=options.text("namespace", ""),
            access_key=options.text("accessKey", ""),
            secret_key=options.text("secretKey", ""),
            security_token=options.text("securityToken", ""),
            tls=_tls(options),
            address_map=_address_map(options),
            request_timeout_ms=options.whole("requestTimeoutMs", 5_000, least=1, most=MAX_TIMEOUT_MS),
            connect_timeout_ms=options.whole("connectTimeoutMs", 3_000, least=1, most=MAX_TIMEOUT_MS),
            retries=options.whole("retries", 10, most=MAX_RETRIES),
            retry_delay_ms=options.whole("retryDelayMs", 200, most=MAX_TIMEOUT_MS),
        )
        if bool(connection.access_key) != bool(connection.secret_key):
            given, missing = ("accessKey", "secretKey") if connection.access_key else ("secretKey", "accessKey")
            raise ConfigError(f"option {given} needs {missing}")
        if connection.security_token and not connection.access_key:
            raise ConfigError("option securityToken needs accessKey and secretKey")
        return connection

    def client_options(self) -> ClientOptions:
        return ClientOptions(
            namespace=self.namespace,
            access_key=self.access_key,
            secret_key=self.secret_key,
            security_token=self.security_token,
            tls=dict(self.tls),
            address_map=dict(self.address_map),
            request_timeout_seconds=self.request_timeout_ms / 1000,
            connect_timeout_seconds=self.connect_timeout_ms / 1000,
            route_poll_seconds=_ROUTE_POLL_SECONDS,
        )

    def retry_delays(self) -> Iterator[float]:
        """In seconds: one for each attempt after the first."""
        delay_ms = self.retry_delay_ms
        longest_ms = max(self.retry_delay_ms, MAX_RETRY_DELAY_MS)
        for _ in range(self.retries):
            yield delay_ms / 1000
            delay_ms = min(2 * delay_ms, longest_ms)

    def __repr__(self) -> str:
        shown = (
            f"{name}={'…' if name in _SECRETS else repr(getattr(self, name))}"
            for name in self.__struct_fields__
            if getattr(self, name) not in ("", ())
        )
        return f"Connection({', '.join(shown)})"


def _tls(options: OptionReader) -> tuple[tuple[str, str], ...]:
    """Refuses what would be found out on an executor only."""
    given = tuple((key, text) for key in _CLIENT_TLS_KEYS if (text := options.text(key, "")))
    settings = TlsSettings.from_properties(dict(given))
    useless = [key for key, _ in given if key != ENABLE_KEY]
    if useless and not settings.client_enabled:
        raise ConfigError(f"option {useless[0]} needs {ENABLE_KEY}=true")
    return given


def _address_map(options: OptionReader) -> tuple[tuple[str, str], ...]:
    expected = 'addresses by the addresses that routes name, such as {"172.17.0.3:10911": "localhost:10911"}'
    found = options.json("addressMap", expected) or {}
    pairs: list[tuple[str, str]] = []
    for address, target in found.items():
        if not isinstance(target, str):
            raise wrong("addressMap", options.text("addressMap", ""), expected)
        pairs.append((address, target))
    return tuple(sorted(pairs))
