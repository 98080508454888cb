"""What a scenario is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

V5 = "5.5.0"
V4 = "4.9.7"
BOTH = (V5, V4)
ONLY_5 = (V5,)

JAVA_5_5_0 = 513
JAVA_4_9_7 = 407
GO_CLIENT = 317


@dataclass(frozen=True)
class Ask:
    """Send a request and keep its answer.

    With `until_code` or `until_body` the same request is repeated until the answer has that code or holds those bytes,
    for effects that come a moment later; only the last answer is kept. `on` names the connection.
    """

    name: str
    code: int
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    version: int = JAVA_5_5_0
    binary: bool = False
    one_way: bool = False
    raw_header: str | None = None
    on: str = "client"
    until_code: int | None = None
    until_body: bytes | None = None
    silent: Sequence[str] = ()
    """Versions of Apache that never answer this."""


@dataclass(frozen=True)
class Close:
    """Close a connection."""

    on: str


@dataclass(frozen=True)
class Hear:
    """Wait for the request that the name server sends to the listening broker `at` ({0}, {1}… in addresses)."""

    name: str
    at: int


@dataclass(frozen=True)
class Scenario:
    """Steps against one fresh name server.

    In fields and bodies `{broker0}`, `{broker1}`… stand for the addresses of `listeners` brokers that really listen.
    """

    name: str
    about: str
    steps: Sequence[Ask | Close | Hear]
    properties: Mapping[str, str] = field(default_factory=dict)
    versions: Sequence[str] = BOTH
    listeners: int = 0
