"""The configuration in effect, shown and changed over the network within limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from pathlib import Path

import msgspec

from apogeemq.errors import ConfigError, RequestRefused, SettingFrozen
from apogeemq.nameserver.config import NameServerConfig, ServerSettings, is_frozen
from apogeemq.protocol.codes import ResponseCode
from apogeemq.runtime.config import apply, known_keys
from apogeemq.runtime.live_config import LiveConfigFile


class LiveConfig:
    """A change is written to the configuration file first, and only then takes effect."""

    def __init__(self, settings: ServerSettings, on_change: Callable[[NameServerConfig], None]) -> None:
        self._settings = settings
        self._on_change = on_change
        self._file = LiveConfigFile(
            Path(settings.config.config_store_path),
            known_keys(NameServerConfig),
            lambda key: is_frozen(key, self._settings.config),
            self._prepare,
        )

    def shown(self) -> str:
        return self._settings.shown()

    async def update(self, text: str) -> None:
        """All of it, or RequestRefused."""
        try:
            await self._file.update(text)
        except SettingFrozen:
            raise RequestRefused(ResponseCode.NO_PERMISSION, "Can not update config in black list.") from None
        except ConfigError as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None

    def _prepare(self, wanted: Mapping[str, str]) -> Callable[[], None]:
        apply(config := copy(self._settings.config), wanted)

        def take_effect() -> None:
            self._settings = msgspec.structs.replace(self._settings, config=config)
            self._on_change(config)

        return take_effect
