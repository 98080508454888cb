"""Who we are to servers that check signatures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apogeemq.protocol.signing import signed
from apogeemq.transport.pool import SendHook

ACCESS_KEY_VARIABLE: Final = "APOGEE_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "APOGEE_SECRET_KEY"


def signing_hooks(environment: Mapping[str, str]) -> list[SendHook]:
    """For a pool: signs every request with the account of these variables, if both are set."""
    access_key, secret_key = environment.get(ACCESS_KEY_VARIABLE), environment.get(SECRET_KEY_VARIABLE)
    if not access_key or not secret_key:
        return []
    return [lambda code, fields, body: signed(fields, body, access_key, secret_key)]
