"""The configuration in effect, shown and changed over the network within limits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from copy import copy
from pathlib import Path

import msgspec

from apogeemq.errors import ConfigError, RequestRefused, StorageFailed
from apogeemq.nameserver.config import NameServerConfig, ServerSettings, is_frozen
from apogeemq.protocol.codes import ResponseCode
from apogeemq.runtime.atomic_file import write_atomically
from apogeemq.runtime.config import apply, edit_properties, known_keys, parse_properties

log = logging.getLogger(__name__)


class LiveConfig:
    """A change is written to the configuration file first, with its comments kept, and only then takes effect."""

    def __init__(self, settings: ServerSettings, on_change: Callable[[NameServerConfig], None]) -> None:
        self._settings = settings
        self._on_change = on_change
        self._turn = asyncio.Lock()

    def shown(self) -> str:
        return self._settings.shown()

    async def update(self, text: str) -> None:
        """Unknown keys are ignored, as Apache does. A black-listed key or a bad value refuses the whole update.

        One that has begun is finished even when whoever asked for it is gone.
        """
        try:
            given = parse_properties(text)
        except ConfigError as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        await asyncio.shield(self._take(given))

    async def _take(self, given: dict[str, str]) -> None:
        async with self._turn:
            current = self._settings.config
            if any(is_frozen(key, current) for key in given):
                raise RequestRefused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
            known = known_keys(NameServerConfig)
            wanted = {key: value for key, value in given.items() if key in known}
            try:
                apply(config := copy(current), wanted)
            except ConfigError as error:
                raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
            await asyncio.to_thread(_save, Path(current.config_store_path), wanted)
            self._settings = msgspec.structs.replace(self._settings, config=config)
            log.info("configuration changed: %s", ", ".join(f"{key}={value}" for key, value in wanted.items()))
            self._on_change(config)


def _save(path: Path, wanted: dict[str, str]) -> None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = b""
    except OSError as error:
        raise StorageFailed(f"cannot read {path}: {error.strerror or error}") from error
    encoding = "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        encoding = "latin-1"  # what Java takes such files to be in
        text = content.decode(encoding)
    write_atomically(path, edit_properties(text, wanted).encode(encoding))
