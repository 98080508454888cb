"""Connections of a command: who it is, and whether it speaks TLS."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from apogeemq.cli.start_server import read_properties_file
from apogeemq.protocol.signing import signed
from apogeemq.transport.pool import ConnectionPool, SendHook
from apogeemq.transport.tls import TlsSettings, client_context

ACCESS_KEY_VARIABLE = "APOGEE_ACCESS_KEY"
SECRET_KEY_VARIABLE = "APOGEE_SECRET_KEY"

ResultT = TypeVar("ResultT")


@asynccontextmanager
async def connections(tls_config: Path | None = None) -> AsyncIterator[ConnectionPool]:
    """A pool for the time of one command. Keys for servers that check signatures come from the environment."""
    tls = None
    if tls_config is not None:
        properties = {**read_properties_file(tls_config), "tls.enable": "true"}
        tls = client_context(TlsSettings.from_properties(properties))
    pool = ConnectionPool(tls=tls, before_send=_signers(os.environ))
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


def _signers(environment: Mapping[str, str]) -> list[SendHook]:
    access_key, secret_key = environment.get(ACCESS_KEY_VARIABLE), environment.get(SECRET_KEY_VARIABLE)
    if not access_key or not secret_key:
        return []
    return [lambda code, fields, body: signed(fields, body, access_key, secret_key)]
