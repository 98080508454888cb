"""TLS for servers and clients, under Apache's `tls.*` keys."""

from __future__ import annotations

import ssl
from enum import Enum


class TlsMode(Enum):
    """How a server treats the first byte of a connection."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class TlsServerContexts:
    """The context new connections get; connections already made keep theirs."""

    def __init__(self, mode: TlsMode, context: ssl.SSLContext | None = None) -> None:
        self.mode = mode
        self._context = context

    @classmethod
    def disabled(cls) -> TlsServerContexts:
        return cls(TlsMode.DISABLED)

    def context(self) -> ssl.SSLContext | None:
        return self._context
