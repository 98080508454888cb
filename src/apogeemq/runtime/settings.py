"""What a server process is told at its start, and how the command line hands it over.

The server runs in a fresh interpreter (see `cli/start_server.py`): settings travel as one argument, and secrets in
the environment, because anybody on the machine can read a process's arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final, TypeVar

import msgspec

from apogeemq.errors import ConfigError

SECRETS_VARIABLE: Final = "APOGEE_SETTINGS_SECRETS"
TLS_PREFIX: Final = "tls."

_LIST_SEPARATOR: Final = ";"


class ProcessSettings(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What every server is told besides its own configuration."""

    # Of the server that these are the settings of.
    LOG_FILE: ClassVar[str] = "server.log"

    # The `tls.*` keys as given.
    tls: dict[str, str] = {}
    # Unknown keys of the file; Apache's servers show them among their configuration, so do ours.
    unknown: dict[str, str] = {}
    config_file: str | None = None
    # None: the terminal only.
    log_dir: str | None = None
    log_level: str = "INFO"
    # The command a person called; errors begin with it.
    program: str = ""

    @property
    def log_file(self) -> Path | None:
        return Path(self.log_dir) / self.LOG_FILE if self.log_dir is not None else None

    def shown(self) -> str:
        """All configuration items as sorted lines, without secrets and without TLS."""
        raise NotImplementedError


SettingsT = TypeVar("SettingsT", bound=ProcessSettings)


def settings_to_argument(settings: ProcessSettings) -> tuple[str, dict[str, str]]:
    """For the server process: its one argument, and what must be in its environment."""
    secrets = {key: value for key, value in settings.tls.items() if key.endswith("Password")}
    open_settings = msgspec.structs.replace(
        settings, tls={key: value for key, value in settings.tls.items() if key not in secrets}
    )
    environment = {SECRETS_VARIABLE: msgspec.json.encode(secrets).decode()} if secrets else {}
    return msgspec.json.encode(open_settings).decode(), environment


def decode_settings(settings_type: type[SettingsT], argument: str, environment: Mapping[str, str]) -> SettingsT:
    """The opposite of `settings_to_argument`; ConfigError when it is not that."""
    try:
        settings = msgspec.json.decode(argument, type=settings_type)
        secrets = msgspec.json.decode(environment.get(SECRETS_VARIABLE, "{}"), type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ConfigError(f"the settings given to the server process cannot be read: {error}") from None
    settings.tls |= secrets
    return settings


def is_listed(key: str, black_list: str) -> bool:
    """Whether a list `one;two` names the key."""
    return key in (name.strip() for name in black_list.split(_LIST_SEPARATOR))


def absolute_path(path: str, home: Path) -> Path:
    """Absolute, because the effective configuration is shown to people elsewhere; `~/` as in Apache's defaults."""
    return (home / path[2:] if path.startswith("~/") else Path(path)).absolute()
