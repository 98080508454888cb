"""Addresses of name servers: how they are written, and which one to ask next."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable

from apogeemq.errors import ConfigError

_SEPARATORS = re.compile("[;,]")
_SCHEME = re.compile(r"^https?://")


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`, `10.0.0.1:9876`, `[::1]:9876` or, as Java takes it, `::1:9876`."""
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or any(character.isspace() for character in host) or not (port.isascii() and port.isdigit()):
        raise ConfigError(f"address {text!r} is not of the form host:port")
    if not 0 < int(port) < 65_536:
        raise ConfigError(f"address {text!r}: the port is not between 1 and 65535")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_addresses(text: str) -> list[str]:
    """The parts of a list `a:1;b:2`; commas will do as well."""
    return [part.strip() for part in _SEPARATORS.split(text) if part.strip()]


def parse_addresses(text: str) -> list[str]:
    """The addresses of a list, each once, in one spelling; `http://` before one is ignored. Raises ConfigError."""
    parts = (_SCHEME.sub("", part).rstrip("/") for part in split_addresses(text))
    return list(dict.fromkeys(format_address(*parse_address(part)) for part in parts))


class AddressBook:
    """Which address to ask: one that answered stays in use, one that failed is left for the next.

    The first is chosen at random, so that many clients with one list spread over it.
    """

    def __init__(self, addresses: Iterable[str] = (), choose_start: Callable[[int], int] = random.randrange) -> None:
        self._choose_start = choose_start
        self._addresses: tuple[str, ...] = ()
        self._index = 0
        self.replace(addresses)

    @property
    def addresses(self) -> tuple[str, ...]:
        return self._addresses

    @property
    def current(self) -> str | None:
        return self._addresses[self._index] if self._addresses else None

    def order(self) -> tuple[str, ...]:
        """All addresses in the order to try them, the current one first."""
        return self._addresses[self._index :] + self._addresses[: self._index]

    def mark_bad(self, address: str) -> None:
        """Moves on if `address` is the current one; a late word about an earlier one changes nothing."""
        if address == self.current:
            self._index = (self._index + 1) % len(self._addresses)

    def replace(self, addresses: Iterable[str]) -> bool:
        """Take a new list, staying with the current address if it is still listed. Says whether anything changed."""
        new = tuple(dict.fromkeys(addresses))
        if set(new) == set(self._addresses):
            return False
        current = self.current
        self._addresses = new
        if current in new:
            self._index = new.index(current)
        else:
            self._index = self._choose_start(len(new)) if new else 0
        return True
