"""The configuration in effect, shown and changed over the network within limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from copy import copy
from pathlib import Path

import msgspec

from apogeemq.broker.config import BrokerConfig, is_frozen
from apogeemq.broker.settings import check_supported
from apogeemq.broker.state import BrokerState
from apogeemq.errors import ConfigError, RequestRefused, SettingFrozen
from apogeemq.model.routes import DataVersion
from apogeemq.protocol.codes import ResponseCode
from apogeemq.runtime.config import apply, known_keys
from apogeemq.runtime.live_config import LiveConfigFile
from apogeemq.store.config import StoreConfig

_BROKER_KEYS = known_keys(BrokerConfig)
_STORE_KEYS = known_keys(StoreConfig)


class LiveConfig:
    """A change is written to the configuration file first, then made in the structs all parts of the broker read.

    `on_change` is told the keys, for what must be done besides. `version` grows with every change.
    """

    def __init__(self, state: BrokerState, on_change: Callable[[Set[str]], None]) -> None:
        self._state = state
        self._on_change = on_change
        self.version = DataVersion(0, 0, state.now_ms())
        self._file = LiveConfigFile(
            Path(state.config.broker_config_path),
            _BROKER_KEYS | _STORE_KEYS,
            lambda key: is_frozen(key, state.config),
            self._prepare,
        )

    def shown(self) -> str:
        return self._state.settings.shown()

    async def update(self, text: str) -> None:
        """All of it, or RequestRefused."""
        try:
            await self._file.update(text)
        except SettingFrozen:
            raise RequestRefused(ResponseCode.NO_PERMISSION, "Can not update config in black list.") from None
        except ConfigError as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None

    def _prepare(self, wanted: Mapping[str, str]) -> Callable[[], None]:
        config, store = copy(self._state.config), copy(self._state.store_config)
        apply(config, {key: value for key, value in wanted.items() if key in _BROKER_KEYS})
        apply(store, {key: value for key, value in wanted.items() if key in _STORE_KEYS})
        check_supported(config, store)

        def take_effect() -> None:
            _assign(self._state.config, config)
            _assign(self._state.store_config, store)
            self.version = DataVersion(self.version.counter + 1, 0, self._state.now_ms())
            self._tell_parts(wanted.keys())
            self._on_change(wanted.keys())

        return take_effect

    def _tell_parts(self, changed: Set[str]) -> None:
        """What keeps a setting of its own."""
        state = self._state
        state.groups.is_auto_creation_on = state.config.auto_create_subscription_group
        if "brokerPermission" in changed:  # it is part of what name servers know of every topic
            state.topics.renew_version(state.now_ms())
            state.register_soon()


def _assign(config: msgspec.Struct, new: msgspec.Struct) -> None:
    for field in msgspec.structs.fields(type(config)):
        setattr(config, field.name, getattr(new, field.name))
