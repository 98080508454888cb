"""Connections of a command: who it is, and whether it speaks TLS."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from apogeemq.cli.start_server import read_properties_file
from apogeemq.transport.pool import ConnectionPool
from apogeemq.transport.signing import signing_hooks
from apogeemq.transport.tls import TlsSettings, client_context

ResultT = TypeVar("ResultT")


@asynccontextmanager
async def connections(tls_config: Path | None = None) -> AsyncIterator[ConnectionPool]:
    """A pool for the time of one command. Keys for servers that check signatures come from the environment."""
    tls = None
    if tls_config is not None:
        properties = {**read_properties_file(tls_config), "tls.enable": "true"}
        tls = client_context(TlsSettings.from_properties(properties))
    pool = ConnectionPool(tls=tls, before_send=signing_hooks(os.environ))
    try:
        yield pool
    finally:
        await pool.close()


def run(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a command's work to its end; an interrupt ends it quietly, with the status shells expect."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
