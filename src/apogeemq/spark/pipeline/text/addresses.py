"""Texts that name servers and folders, in one form for all that mean the same. Pure: nobody is asked, DNS neither."""

from __future__ import annotations

import posixpath
import re
from typing import Final

from apogeemq.errors import ConfigError
from apogeemq.transport.addresses import parse_addresses, split_addresses

_LOCAL: Final = re.compile(r"^localhost(?=:|$)")
_URL: Final = re.compile(r"([A-Za-z][\w+.-]*):(?://([^/]*))?(/.*|$)")


def servers_named(text: str) -> frozenset[str]:
    """Of a list with semicolons or commas."""
    return frozenset(_server(part.lower()) for part in split_addresses(text))


def _server(text: str) -> str:
    try:
        (address,) = parse_addresses(text)
    except ConfigError:  # said elsewhere, or the URL of an address server
        address = text
    return _LOCAL.sub("127.0.0.1", address)


def folder_named(path: str) -> str:
    """Without what leads nowhere: `./`, `//`, `x/..`, a slash at the end."""
    url = _URL.fullmatch(path)
    folder = posixpath.normpath(re.sub("/+", "/", url[3] or "/" if url is not None else path))
    return f"{url[1].lower()}://{url[2] or ''}{folder}" if url is not None else folder
